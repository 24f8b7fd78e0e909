"""Whose code a run would run: its `config.json` may name modules, and it may be a stranger's. No JAX here."""

import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.importing import OBJECT, is_own

FLAG = "--trust"


def modules(config: RunConfig, given: Collection[str] = ()) -> list[str]:
    """Every `module:thing` that these settings name, but for the parts that are `given` as objects.

    >>> modules(RunConfig("my_envs:Corridor")), modules(RunConfig("minatar/breakout"))
    (['my_envs:Corridor'], [])
    """
    return [
        text for name, text in _texts(config)
        if (":" in text if name == "env" else name not in given and is_own(text) and not text.startswith(OBJECT))
    ]  # fmt: skip


def check(config: RunConfig, file: Path, trusted: bool | Collection[str], given: Collection[str] = ()) -> None:
    """Refuse to import what a file names, unless the user trusts it, or has named it as well."""
    if trusted is True:
        return
    strange = [name for name in modules(config, given) if not trusted or name not in trusted]
    if strange:
        raise UserError(
            f"{file} names code to be run: {', '.join(strange)}; if you know it, add {FLAG} (in Python: "
            "lookrep.load(run, trust=True))"
        )


def flag(config: RunConfig) -> str:
    """What a command about this run needs."""
    return f" {FLAG}" if modules(config) else ""


def _texts(settings: Any) -> Iterator[tuple[str, str]]:
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, str):
            yield field.name, value
        elif dataclasses.is_dataclass(value):
            yield from _texts(value)
