"""Problem files: TOML in, a checked `Problem` and its `Settings` out; a complaint is one line naming file and field.

The format is in `docs/theory.md`; `examples/problems/` has samples. Shapes and probabilities are checked by the
builders in `problems.py`; here are the checks that only a file needs (keys, types, encoding).
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lookrep import files, importing
from lookrep.errors import UserError, hint
from lookrep.exact.problems import (
    Differentiable,
    Params,
    Problem,
    Process,
    ValueFunction,
    linear,
    markov_chain,
    mdp,
    problem,
    under_policy,
)
from lookrep.exact.settings import Settings, check

REQUIRED = ("transition", "reward", "discount")
NETWORKS = ("online", "target")
KEYS = (
    *REQUIRED,
    "policy",
    "weighting",
    *(f"{key}_{network}" for key in ("features", "value") for network in NETWORKS),
    *(f"{network}_init" for network in NETWORKS),
    "solver",
)
SOLVER = tuple(field.name for field in fields(Settings) if field.name != "method")
OPTIMAL = "optimal"


def load(path: Path) -> tuple[Problem, Settings]:
    """Read one problem file."""
    try:
        content = files.from_toml(path.read_bytes().decode("utf-8"), f"problem file '{path}'")
    except FileNotFoundError:
        raise UserError(f"problem file '{path}' does not exist") from None
    except OSError as error:
        raise UserError(f"problem file '{path}' cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"problem file '{path}' is not UTF-8 text") from None
    try:
        return parse(content, path.parent)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def parse(content: dict[str, Any], folder: Path | None = None) -> tuple[Problem, Settings]:
    """The same from an already decoded table; modules of its value functions may lie in `folder`.

    >>> parse({"transition": [[1]], "reward": [1], "discount": 1.0, "features_online": [[1]], "features_target": [[1]]})
    Traceback (most recent call last):
    lookrep.errors.UserError: discount: 1.0 is outside [0, 1)
    """
    _refuse_unknown(content, KEYS, "")
    for key in REQUIRED:
        if key not in content:
            raise UserError(f"{key}: missing")
    process = _process(content)
    network = cache(lambda name: Differentiable(_imported(name, folder)))  # one object for both, so that they are equal
    functions = {which: _value_function(content, which, network) for which in NETWORKS}
    starts = {
        which: _start(f"{which}_init", content[f"{which}_init"], functions[which])
        for which in NETWORKS
        if f"{which}_init" in content
    }
    built = problem(
        process,
        online=functions["online"],
        target=functions["target"],
        weighting=_numbers("weighting", content["weighting"]) if "weighting" in content else None,
        online_init=starts.get("online"),
        target_init=starts.get("target"),
    )
    return built, _solver(content.get("solver", {}))


def _process(content: dict[str, Any]) -> Process:
    transition, reward, discount = (_numbers(key, content[key]) for key in REQUIRED)
    policy = content.get("policy")
    if not _is_nested(transition, 3):
        if policy is not None:
            raise UserError("policy: the transition is of one chain already; give one matrix per action, or no policy")
        return markov_chain(transition, reward, discount)
    if not _is_nested(reward, 2):
        reward = [reward] * len(transition)
    process = mdp(transition, reward, discount)
    if policy is None:
        raise UserError(
            "policy: missing; the transition has one matrix per action, so give a row of probabilities or an action "
            f'for each state, or policy = "{OPTIMAL}" for the optimality operator'
        )
    if policy == OPTIMAL:
        return process
    if isinstance(policy, str):
        raise UserError(f'policy: {policy!r} is unknown; give "{OPTIMAL}", or probabilities or an action per state')
    return under_policy(process, _numbers("policy", policy))


def _value_function(content: dict[str, Any], which: str, network: Callable[[str], ValueFunction]) -> ValueFunction:
    features, value = f"features_{which}", f"value_{which}"
    if (features in content) == (value in content):
        problem = "give one of both" if features in content else f"missing; or give {value} = 'module:function'"
        raise UserError(f"{features}: {problem}")
    if features in content:
        return linear(_numbers(features, content[features]), features)
    name = content[value]
    if not isinstance(name, str) or not importing.is_own(name):
        raise UserError(f"{value}: {name!r} should be 'module:function', a JAX function from parameters to values")
    try:
        return network(name)
    except UserError as error:
        raise UserError(f"{value}: {error}") from None


def _imported(name: str, folder: Path | None) -> Callable[[Params], Any]:
    """What stands behind `module:function`, beside the problem file or beside the user."""
    if folder is not None:
        sys.path.insert(0, str(folder.resolve()))
    try:
        function: Callable[[Params], Any] = importing.found(name, "value function")
    finally:
        if folder is not None:
            sys.path.remove(str(folder.resolve()))
    if not callable(function):
        raise UserError(f"value function '{name}' is a {type(function).__name__}, not a function")
    return function


def _start(name: str, value: Any, function: ValueFunction) -> Params:
    """A list of numbers; for a function of one's own also a table of arrays, which becomes a dictionary."""
    if isinstance(function, Differentiable):
        if isinstance(value, dict):
            return {key: _start(f"{name}.{key}", entry, function) for key, entry in value.items()}
        numbers = _numbers(name, value)
        try:
            return np.asarray(numbers, np.float64)
        except ValueError:
            raise UserError(f"{name}: rows should be equally long") from None
    return _numbers(name, value)


def _solver(section: Any) -> Settings:
    if not isinstance(section, dict):
        raise UserError("solver: should be a table, [solver]")
    _refuse_unknown(section, SOLVER, "solver.")
    given: dict[str, Any] = {}
    for key, value in section.items():
        if key.endswith("_step_size") and value != "auto":
            value = _numbers(f"solver.{key}", value)
        if isinstance(value, list):
            if key != "replicate_step_size" or any(isinstance(entry, list) for entry in value):
                raise UserError(f'solver.{key}: should be a number or "auto"')
            value = tuple(value)
        given[key] = value
    try:
        return check(Settings(**given))
    except UserError as error:
        raise UserError(f"solver.{error}") from None


def _refuse_unknown(table: dict[str, Any], known: Iterable[str], prefix: str) -> None:
    for key in table:
        if key not in known:
            raise UserError(f"{prefix}{key}: unknown key; {hint(prefix + key, [prefix + name for name in known])}")


def _is_nested(value: Any, depth: int) -> bool:
    """Whether there are lists in lists, so deep, as far as the first entries say."""
    return depth == 0 or (isinstance(value, list) and bool(value) and _is_nested(value[0], depth - 1))


def _numbers(name: str, value: Any) -> Any:
    """Numbers and nested lists of numbers only: NumPy would happily turn "0.5" and true into numbers."""
    if isinstance(value, list):
        return [_numbers(name, entry) for entry in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"{name}: {value!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise UserError(f"{name}: a whole number is too large") from None
