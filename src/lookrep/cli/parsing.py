"""Flags to dataclasses: tyro does the work. Before it, words are read as people write them (`1e6`, misspelt flags,
flags that are given twice); after it, its complaint becomes one line."""

import contextlib
import dataclasses
import difflib
import io
import re
import sys
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

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
    pieces = spelt(argv, kind, prog)
    ordered = [word for piece in sorted(pieces, key=lambda piece: piece.flag is not None) for word in piece.words]
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(kind, args=ordered, prog=prog, **settings)
    except SystemExit as stop:
        if stop.code == 2:
            raise UserError(_first_section(complaint.getvalue(), prog)) from None
        sys.stderr.write(complaint.getvalue())
        raise


class Flag(NamedTuple):
    name: str  # --out, also where -o was typed
    options: tuple[Any, ...]  # the types that its value may have

    @property
    def switch(self) -> bool:
        return bool in self.options

    @property
    def many(self) -> bool:
        return any(typing.get_origin(option) is tuple for option in self.options)

    @property
    def whole(self) -> bool:
        return int in self.options or tuple[int, ...] in self.options


class Piece(NamedTuple):
    """A flag with its values, or a word by itself."""

    flag: Flag | None
    words: tuple[str, ...]

    @property
    def values(self) -> tuple[str, ...]:
        if self.flag is None or self.flag.switch:
            return ()
        return self.words[1:] or (self.words[0].partition("=")[2],)


def spelt(words: Sequence[str], kind: type, prog: str) -> list[Piece]:
    """What was typed, with whole numbers written out. Refuses flags that do not exist, or are given twice: the second
    value would silently win over the first.

    >>> Numbers = dataclasses.make_dataclass("Numbers", [("steps", int)])
    >>> [piece.words for piece in spelt(["a", "--steps=1e6"], Numbers, "count")]
    [('a',), ('--steps', '1000000')]
    """
    known = flags(kind)
    pieces: list[Piece] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if not _is_flag(word) or word in ("-h", "--help"):
            pieces.append(Piece(None, (word,)))
            continue
        typed, equals, value = word.partition("=")
        flag = known.get(typed.replace("_", "-"))
        if flag is None:
            raise UserError(f"unknown option {typed}: {_meant(typed, known) or f'see {prog} --help'}")
        if flag.switch:
            pieces.append(Piece(flag, (word,)))
            continue
        values = [value] if equals else []
        while not equals and left and not _is_flag(left[0]) and (flag.many or not values):
            values.append(left.pop(0))
        if not values:
            raise UserError(f"{typed} needs a value")
        values = [_whole(value) for value in values] if flag.whole else values
        bound = equals and _is_flag(value)  # what looks like a flag is a value only behind its =
        pieces.append(Piece(flag, (f"{flag.name}={value}",) if bound else (flag.name, *values)))
    _check_once(pieces)
    return pieces


def flags(kind: type) -> dict[str, Flag]:
    """Every flag as it may be typed, those of nested dataclasses too."""
    found: dict[str, Flag] = {}
    hints, marked = (typing.get_type_hints(kind, include_extras=extras) for extras in (False, True))
    for field in dataclasses.fields(kind):
        of, marks = hints[field.name], getattr(marked[field.name], "__metadata__", ())
        if dataclasses.is_dataclass(of):
            found |= flags(typing.cast(type, of))
        elif tyro.conf.Positional not in marks:
            union = typing.get_origin(of) in (typing.Union, types.UnionType)
            flag = Flag(f"--{field.name.replace('_', '-')}", typing.get_args(of) if union else (of,))
            names = [flag.name, *(name for mark in marks for name in getattr(mark, "aliases", None) or ())]
            if flag.switch and tyro.conf.FlagCreatePairsOff not in marks:
                names.append(f"--no-{flag.name.removeprefix('--')}")
            found |= dict.fromkeys(names, flag)
    return found


def _meant(typed: str, known: Iterable[str]) -> str:
    """The flag that is a few letters away, or begins with the same words: any other would be a guess. Empty if none.

    >>> _meant("--agnets", ["--agents", "--env"]), _meant("--env-name", ["--env"]), _meant("--clip", ["--clip-rewards"])
    ("did you mean '--agents'?", "did you mean '--env'?", "did you mean '--clip-rewards'?")
    >>> _meant("--huber-threshold", ["--method", "--head"])
    ''
    """
    word = typed.lstrip("-").replace("_", "-")
    names = [name.removeprefix("--") for name in known if name.startswith("--")]
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.7)
    begins = [name for name in names if f"{name}-".startswith(f"{word}-") or f"{word}-".startswith(f"{name}-")]
    found = near or begins
    return f"did you mean '--{found[0]}'?" if found else ""


def _check_once(pieces: Sequence[Piece]) -> None:
    before: dict[str, Piece] = {}
    for piece in pieces:
        if piece.flag is None:
            continue
        name = piece.flag.name
        first = before.setdefault(name, piece)
        if first is piece:
            continue
        if piece.flag.many:
            raise UserError(f"{name} is given twice: write {name} {' '.join(first.values + piece.values)}")
        said = "" if piece.flag.switch else f", as {first.values[0]} and as {piece.values[0]}"
        raise UserError(f"{name} is given twice{said}: give it once")


def _is_flag(word: str) -> bool:
    """Not a number below 0, and not the - that stands for a stream.

    >>> [_is_flag(word) for word in ("--steps", "-o", "-5", "-1e-3", "-inf", "-", "5")]
    [True, True, False, False, False, False, False]
    """
    return word.startswith("--") or (word.startswith("-") and word != "-" and _number(word) is None)


def _whole(value: str) -> str:
    """`1e6` as 1000000; what is no whole number stays for whoever reads it to refuse."""
    number = _number(value)
    plain = value.lstrip("+-").replace("_", "").isdigit()
    return value if plain or number is None or not number.is_integer() else str(int(number))


def _number(value: str) -> float | None:
    try:
        return float(value.replace("_", ""))
    except ValueError:
        return None


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
