"""What a user's `my_module:thing` stands for. No JAX here: worker processes need it too."""

import importlib
import os
import sys
from typing import Any

from lookrep.errors import UserError

LONG_LETTERS = 200  # JAX's messages are longer, and begin with what matters


def made(name: str) -> Any:
    """What the class or function `my_module:thing` gives when it is called without arguments."""
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())  # a file beside the user is what the name usually means
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a user's file may do
        raise UserError(f"environment '{name}': cannot import {module_name} ({in_short(error)})") from error
    finally:
        sys.path.remove(os.getcwd())
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise UserError(f"environment '{name}': {module_name} has no class or function '{attribute}'")
    try:
        return factory()
    except Exception as error:
        raise UserError(
            f"environment '{name}': {attribute}() must work without arguments ({in_short(error)})"
        ) from error


def in_short(error: BaseException) -> str:
    """What someone else's error has to say, as part of a line: of a long message, its first line."""
    text = str(error).strip()
    text = " ".join((text if len(text) <= LONG_LETTERS else text.splitlines()[0]).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
