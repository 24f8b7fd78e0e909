"""Flags to dataclasses: tyro does the work, this turns its complaint into one line for people."""

import contextlib
import io
import re
import sys
from collections.abc import Sequence
from typing import Any, TypeVar

import tyro

from lookrep.errors import UserError

T = TypeVar("T")


def optional(metavar: str, default: str) -> Any:
    """For a flag whose default is better said in words."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


def parse(kind: type[T], argv: Sequence[str], prog: str, default: T | None = None, flat: bool = False) -> T:
    """Build a `kind` from command-line words; `default` supplies every flag that is not given.

    With `flat`, the fields of nested dataclasses are flags under their own names alone.
    """
    complaint = io.StringIO()
    settings: dict[str, Any] = {} if default is None else {"default": default}
    if flat:
        settings["config"] = (tyro.conf.OmitArgPrefixes,)
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(kind, args=list(argv), prog=prog, **settings)
    except SystemExit as stop:
        if stop.code == 2:
            raise UserError(_first_section(complaint.getvalue(), prog)) from None
        sys.stderr.write(complaint.getvalue())
        raise


def _first_section(box: str, prog: str) -> str:
    """What stands under the title of tyro's error box, up to the next rule, as one line."""
    words: list[str] = []
    for line in box.splitlines()[1:]:
        text = line.strip("│╭╮╰╯ \n")
        if text and set(text) <= {"─", "-"}:  # dashes where the terminal has no box characters
            if words:
                break
            continue
        words += text.split()
    text = re.sub(r"^Error parsing [a-z_.]+: ", "", " ".join(words))  # a dataclass's own complaint names the field
    return f"{text} (see {prog} --help)"
