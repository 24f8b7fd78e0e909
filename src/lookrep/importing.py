"""What a user's `my_module:thing` stands for, and what is said of parts that are objects. No JAX here."""

import difflib
import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from lookrep.errors import UserError

LONG_LETTERS = 200  # JAX's messages are longer, and begin with what matters
OBJECT = "object "  # begins the record of a part that was given as an object, which no file can bring back


def found(name: str, what: str = "environment") -> Any:
    """The thing that `my_module:thing` names."""
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())  # a file beside the user is what the name usually means
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a user's file may do
        raise UserError(f"{what} '{name}': cannot import {module_name} ({in_short(error)})") from error
    finally:
        sys.path.remove(os.getcwd())
    thing = getattr(module, attribute, None)
    if thing is None:
        raise UserError(f"{what} '{name}': {module_name} has no class or function '{attribute}'")
    return thing


def made(name: str, what: str = "environment") -> Any:
    """What the class or function `my_module:thing` gives when it is called without arguments."""
    factory = found(name, what)
    if not callable(factory):
        raise UserError(
            f"{what} '{name}': {name.partition(':')[0]} has no class or function '{name.partition(':')[2]}'"
        )
    try:
        return factory()
    except Exception as error:
        attribute = name.partition(":")[2]
        raise UserError(f"{what} '{name}': {attribute}() must work without arguments ({in_short(error)})") from error


def recorded(part: Any) -> str:
    """What a run's settings say of a part that was given as an object.

    >>> recorded(ValueError()), recorded(print)
    ('object ValueError', 'object print')
    """
    return OBJECT + str(getattr(part, "__name__", type(part).__name__))


def is_own(name: str) -> bool:
    """Whether a part's name is not one of ours: `module:thing`, or the record of an object.

    >>> [is_own(name) for name in ("my_nets:Torso", "object Torso", "mlp:64x64", "adam")]
    [True, True, False, False]
    """
    return bool(re.fullmatch(r"[\w.]+:[A-Za-z_]\w*", name)) or name.startswith(OBJECT)


def known_or_own(field: str, name: str, known: Sequence[str]) -> None:
    """Refuse a part's name that stands for nothing."""
    if name not in known and not is_own(name):
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(known)}, or write my_module:thing"
        raise UserError(f"{field} = '{name}': {hint}")


def in_short(error: BaseException) -> str:
    """What someone else's error has to say, as part of a line: of a long message, its first line."""
    text = str(error).strip()
    text = " ".join((text if len(text) <= LONG_LETTERS else text.splitlines()[0]).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
