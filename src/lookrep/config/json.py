"""Configurations as JSON, read with an answer for every wrong field."""

import dataclasses
import difflib
import types
import typing
from pathlib import Path
from typing import Any, Literal

from lookrep import methods
from lookrep.config.method import MethodConfig
from lookrep.config.presets import Given, preset
from lookrep.config.run import RunConfig
from lookrep.config.schema import AgentConfig
from lookrep.errors import UserError
from lookrep.files import json_object
from lookrep.methods import Method
from lookrep.runs import names


def to_json(config: RunConfig) -> dict[str, Any]:
    """A plain dictionary with every setting."""
    return dataclasses.asdict(config)


def from_json(
    data: dict[str, Any], where: str = "config", method: str | Method | None = None, given: Given | None = None
) -> RunConfig:
    """The configuration that `to_json` wrote; what is left out is what the agent's and the method's names stand for.
    Settings that are `given` come on top.

    Unknown and mistyped fields are named.
    """
    if "env" not in data:
        raise UserError(f"{where}: field 'env' is missing")
    agent = _value(str, data.get("agent", "rainbow"), f"{where}: agent")
    env = _value(str, data["env"], f"{where}: env")
    chosen = _method(data) if method is None else method
    # No settings are made of a part of what is asked for: that might be refused where the whole is not.
    asked = _checked(RunConfig, data, where)
    settings = asked.pop("settings", {})
    for group, fields in (given or {}).items():
        settings.setdefault(group, {}).update(fields)
    return RunConfig(**{"env": env, "agent": agent, **asked}, settings=preset(agent, env, chosen, settings))


def _method(data: dict[str, Any]) -> str:
    """The method that a file names. Of a run's record, which leaves nothing out, the name may be a user's own."""
    settings = data.get("settings")
    parts = settings.get("method") if isinstance(settings, dict) else None
    name = parts.get("method") if isinstance(parts, dict) else None
    if not isinstance(parts, dict) or not isinstance(name, str):
        return "plain"
    whole = len(parts) == len(dataclasses.fields(MethodConfig))
    return "plain" if whole and not methods.is_named(name) else name


def setting_groups() -> dict[str, str | None]:
    """Every setting by its flat name, as flags have it → its group of `AgentConfig`; None: of the run itself.

    >>> setting_groups()["tau"], setting_groups()["log_interval_steps"]
    ('target', None)
    """
    found: dict[str, str | None] = {f.name: None for f in dataclasses.fields(RunConfig) if f.name != "settings"}
    for group, kind in typing.get_type_hints(AgentConfig).items():
        found |= {field.name: group for field in dataclasses.fields(kind)}
    return found


def from_flat(flat: dict[str, Any], where: str = "settings") -> RunConfig:
    """A configuration from flat names, as flags have them; what is left out is what the agent's and the method's names
    stand for. The method may be an object, and 1e6 is a whole number.

    >>> config = from_flat({"env": "minatar/breakout", "agent": "dqn", "tau": 0.1, "steps": 1e6})
    >>> config.settings.target.tau, config.steps
    (0.1, 1000000)
    """
    groups, data = setting_groups(), {"settings": {}}  # type: tuple[dict[str, str | None], dict[str, Any]]
    method = flat.get("method")
    if method is not None and not isinstance(method, (str, Method)):
        raise UserError(f"{where}: method = {method!r:.60}: must be a name, or a method from lookrep.methods")
    flat = {name: value for name, value in flat.items() if name != "method"}
    for name, value in flat.items():
        if name not in groups:
            near = difflib.get_close_matches(name, groups, n=1)
            raise UserError(f"{where}: unknown setting '{name}'" + (f", did you mean '{near[0]}'?" if near else ""))
        if isinstance(value, list | tuple):
            raise UserError(
                f"{where}: {name} = {value!r:.60}: must be one value, all agents have it; those that differ are "
                "variants of a study: lookrep study, docs/studies.md"
            )
        group = groups[name]
        (data if group is None else data["settings"].setdefault(group, {}))[name] = value
    return from_json(data, where, method)


def load(path: str | Path, given: Given | None = None) -> RunConfig:
    """Read a run's `config.json` (or a run folder that has one). Settings that are `given` come on top."""
    path = Path(path)
    file = path / names.CONFIG if path.is_dir() else path
    try:
        data = json_object(file)
    except FileNotFoundError:
        runs = path / names.POPULATIONS
        some = sorted(run.parent for run in runs.glob(f"*/{names.CONFIG}"))[:1]
        study = f"{path} is a study: " + (f"give one of its runs, as {some[0]}" if some else f"{runs} has no run yet")
        raise UserError(study if (path / names.STUDY).is_file() else f"{file}: no such file") from None
    data.pop("versions", None)
    try:
        return from_json(data, str(file), given=given)
    except UserError as error:
        said = str(error)
        raise error if said.startswith(str(file)) else UserError(f"{file}: {said}") from None


def recorded_settings(data: dict[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """The settings that a run's record holds, by group, each of the type it must be of: enough to look at a run by.
    They may be fewer than there are; whether a run could be trained by them is not asked.

    >>> recorded_settings({"settings": {"target": {"tau": 1}}}, "config.json")
    {'target': {'tau': 1.0}}
    """
    return _checked(AgentConfig, data.get("settings", {}), f"{where}: settings")


def _checked(kind: type, data: Any, where: str) -> dict[str, Any]:
    """The fields of the dataclass `kind` that `data` has, each of the type it must be of."""
    if not isinstance(data, dict):
        raise UserError(f"{where}: expected an object, got {data!r}")
    hints = typing.get_type_hints(kind)
    values = {}
    for name, value in data.items():
        if name not in hints:
            near = difflib.get_close_matches(name, hints, n=1)
            raise UserError(f"{where}: unknown field '{name}'" + (f", did you mean '{near[0]}'?" if near else ""))
        hint, place = hints[name], f"{where}: {name}"
        nested = isinstance(hint, type) and dataclasses.is_dataclass(hint)
        values[name] = _checked(hint, value, place) if nested else _value(hint, value, place)
    return values


def _value(kind: Any, value: Any, where: str) -> Any:
    kinds = typing.get_args(kind) or (kind,)
    if isinstance(value, float) and value.is_integer() and int in kinds and float not in kinds:
        value = int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise UserError(f"{where} = {value}: must be below 2⁶³")
    if typing.get_origin(kind) is Literal:
        if value not in typing.get_args(kind):
            raise UserError(f"{where} = {value!r}: choose from {', '.join(typing.get_args(kind))}")
        return value
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    options = [o for o in typing.get_args(kind) if isinstance(o, type)] if union else [kind]
    if value is None and type(None) in options:
        return None
    if float in options and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not any(
        o is not type(None) and isinstance(value, o) and isinstance(value, bool) == (o is bool) for o in options
    ):
        raise UserError(f"{where} = {value!r}: must be {' or '.join(o.__name__ for o in options)}")
    return value
