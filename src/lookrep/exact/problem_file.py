"""Problem files: TOML in, a checked `Problem` and its `Settings` out; a complaint is one line naming file and field.

The format is in `docs/theory.md`; `examples/problems/` has samples. Shapes and probabilities are checked by the
builders in `problems.py`; here are the checks that only a file needs (keys, types, encoding).
"""

import difflib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lookrep.errors import UserError
from lookrep.exact.problems import Problem, linear, markov_chain, problem
from lookrep.exact.settings import Settings, check

REQUIRED = ("transition", "reward", "discount", "features_online", "features_target")
OPTIONAL = ("weighting", "online_init", "target_init")
SOLVER = (
    "outer_iterations",
    "lookahead_updates",
    "replicate_updates",
    "lookahead_step_size",
    "replicate_step_size",
)


def load(path: Path) -> tuple[Problem, Settings]:
    """Read one problem file."""
    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise UserError(f"problem file '{path}' does not exist") from None
    except OSError as error:
        raise UserError(f"problem file '{path}' cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"problem file '{path}' is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"problem file '{path}' is not TOML: {' '.join(str(error).split())}") from None
    try:
        return parse(content)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def parse(content: dict[str, Any]) -> tuple[Problem, Settings]:
    """The same from an already decoded table.

    >>> parse({"transition": [[1]], "reward": [1], "discount": 1.0, "features_online": [[1]], "features_target": [[1]]})
    Traceback (most recent call last):
    lookrep.errors.UserError: discount: 1.0 is outside [0, 1)
    """
    _refuse_unknown(content, (*REQUIRED, *OPTIONAL, "solver"), "")
    for key in REQUIRED:
        if key not in content:
            raise UserError(f"{key}: missing")
    numbers = {key: _numbers(key, content[key]) for key in (*REQUIRED, *OPTIONAL) if key in content}
    chain = markov_chain(numbers["transition"], numbers["reward"], numbers["discount"])
    built = problem(
        chain,
        online=linear(numbers["features_online"], "features_online"),
        target=linear(numbers["features_target"], "features_target"),
        weighting=numbers.get("weighting"),
        online_init=numbers.get("online_init"),
        target_init=numbers.get("target_init"),
    )
    return built, _solver(content.get("solver", {}))


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
            near = difflib.get_close_matches(key, list(known), n=1)
            hint = f"did you mean '{prefix}{near[0]}'?" if near else f"known: {', '.join(known)}"
            raise UserError(f"{prefix}{key}: unknown key; {hint}")


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
