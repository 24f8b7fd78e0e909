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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import tyro

from lookrep.errors import UserError, hint, shortened

LONGEST_VALUE = 100  # digits of a number, letters of a name of ours: more are a mistake, and would fill the screen

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

    @property
    def text(self) -> bool:
        """Whether values may be any words; otherwise they are numbers and names of ours."""
        return any(kind in (str, Path) for option in self.options for kind in (option, *typing.get_args(option)))


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
    """What was typed, with whole numbers written out. Refuses flags that do not exist, or are given twice (the second
    value would silently win over the first), and values that are too long for any number or name of ours.

    >>> Numbers = dataclasses.make_dataclass("Numbers", [("steps", int)])
    >>> [piece.words for piece in spelt(["a", "--steps=1e6"], Numbers, "count")]
    [('a',), ('--steps', '1000000')]
    """
    known, places = flags(kind), [flag for flag, marks in _fields(kind) if tyro.conf.Positional in marks]
    pieces: list[Piece] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if not _is_flag(word) or word in ("-h", "--help"):
            if places and not any(place.text for place in places):
                _check_length(places[0].name.removeprefix("--"), word, word)
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
        written = [_whole(value) for value in values] if flag.whole else values
        if not flag.text:
            for pair in zip(values, written, strict=True):
                _check_length(flag.name, *pair)
        values = written
        bound = equals and _is_flag(value)  # what looks like a flag is a value only behind its =
        pieces.append(Piece(flag, (f"{flag.name}={value}",) if bound else (flag.name, *values)))
    _check_once(pieces)
    return pieces


def flags(kind: type) -> dict[str, Flag]:
    """Every flag as it may be typed, those of nested dataclasses too."""
    found: dict[str, Flag] = {}
    for flag, marks in _fields(kind):
        if tyro.conf.Positional not in marks:
            names = [flag.name, *(name for mark in marks for name in getattr(mark, "aliases", None) or ())]
            if flag.switch and tyro.conf.FlagCreatePairsOff not in marks:
                names.append(f"--no-{flag.name.removeprefix('--')}")
            found |= dict.fromkeys(names, flag)
    return found


def _fields(kind: type) -> Iterator[tuple[Flag, tuple[Any, ...]]]:
    """Each with what tyro is told about it; those that are words without a flag, too."""
    hints, marked = (typing.get_type_hints(kind, include_extras=extras) for extras in (False, True))
    for field in dataclasses.fields(kind):
        of, marks = hints[field.name], getattr(marked[field.name], "__metadata__", ())
        if dataclasses.is_dataclass(of):
            yield from _fields(typing.cast(type, of))
        else:
            union = typing.get_origin(of) in (typing.Union, types.UnionType)
            yield Flag(f"--{field.name.replace('_', '-')}", typing.get_args(of) if union else (of,)), marks


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


def _check_length(name: str, typed: str, value: str) -> None:
    """
    >>> _check_length("--steps", "9" * 5000, "9" * 5000)
    Traceback (most recent call last):
    lookrep.errors.UserError: --steps = 9999999999…9999999999 has more than 100 digits or letters
    """
    if len(value) > LONGEST_VALUE:
        shown = shortened(typed, LONGEST_VALUE, 10, 10)
        raise UserError(f"{name} = {shown} has more than {LONGEST_VALUE} digits or letters")


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
    return f"{_in_our_words(text)} (see {prog} --help)"


def _in_our_words(text: str) -> str:
    """
    >>> _in_our_words("invalid choice 'hardd' for argument '--method'. Expected one of ('lr', 'hard').")
    "--method 'hardd' is unknown: did you mean 'hard'?"
    >>> _in_our_words("Error parsing --steps: invalid literal for int() with base 10: 'abc'")
    "--steps = 'abc': must be a whole number"
    """
    if found := re.fullmatch(r"invalid choice '(.*)' for argument '(.*)'\. Expected one of \((.*)\)\.", text):
        value, name, choices = found.groups()
        known = re.findall("'([^']*)'", choices)
        return f"{name} '{value}' is unknown: {hint(value, known)}"
    number = r"Error parsing (\S+): (invalid literal for int\(\) with base 10|could not convert string to float): (.*)"
    if found := re.fullmatch(number, text):
        name, what, value = found.groups()
        return f"{name} = {value}: must be a {'whole ' if 'int' in what else ''}number"
    return text
