"""What a user's `my_module:thing` stands for. No JAX here: worker processes need it too."""

import importlib
import os
import sys
from typing import Any

from lookrep.errors import UserError


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
    """What someone else's error has to say, as part of a line: the first of its lines that says something."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
