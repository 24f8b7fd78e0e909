"""The one exception for people: bad input ends in its single line and exit status 2, never in a traceback."""

import difflib
from collections.abc import Iterable

# What `pip install lookrep` leaves out, and its extra `train` brings.
TRAIN_PACKAGES = ("flax", "tyro", "rich", "matplotlib", "PIL", "tensorboard")

OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory")  # in what XLA says
LONGEST_WORD, LONGEST_LINE = 300, 1500  # letters of a message; what is echoed may be anything


class UserError(ValueError):
    """Something the user can put right. The message is one line: which value, which field, what would be right.

    Values in it may come from anywhere: long ones are shown shortened, and control characters in writing.

    >>> print(UserError("agents = " + "9" * 4000 + ": must be at most 1048576, \\x1b[2J not more"))
    agents = 9999999999999999999999999999999999999999…9999999999999999999: must be at most 1048576, \\x1b[2J not more
    """

    def __init__(self, message: str = "") -> None:
        words = (shortened(word, LONGEST_WORD, 40, 20) for word in printable(message).split(" "))
        super().__init__(shortened(" ".join(words), LONGEST_LINE, 1000, 200))


def printable(text: str) -> str:
    """Text from anywhere as a terminal may show it: control characters in writing, on one line.

    >>> printable("two\\nlines, \\x1b[31mred")
    'two\\\\nlines, \\\\x1b[31mred'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, most: int, head: int, tail: int) -> str:
    """
    >>> shortened("abcdefgh", 6, 2, 1), shortened("abcdef", 6, 2, 1)
    ('ab…h', 'abcdef')
    """
    return text if len(text) <= most else f"{text[:head]}…{text[-tail:]}"


def hint(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """What to say behind a name that stands for nothing: the nearest that does, or all there are.

    >>> hint("trian", ["train", "eval"]), hint("x", ["train", "eval"]), hint("x", ["train"], "see --help")
    ("did you mean 'train'?", 'choose from train, eval', 'see --help')
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean '{near[0]}'?" if near else otherwise or f"choose from {', '.join(names)}"


def out_of_memory(error: BaseException) -> UserError | None:
    """Its line, if it says that memory is used up: Python's, or in XLA's words that of a device or of a CPU.

    >>> out_of_memory(RuntimeError("INTERNAL: Error dispatching computation: Out of memory allocating 8 bytes."))
    UserError('out of memory (INTERNAL: Error dispatching computation: Out of memory allocating 8 bytes.)')
    >>> out_of_memory(RuntimeError("INVALID_ARGUMENT"))
    """
    used_up = isinstance(error, RuntimeError) and any(words in str(error) for words in OUT_OF_MEMORY)
    if not (used_up or isinstance(error, MemoryError)):
        return None
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return UserError(f"out of memory ({lines[0]})")


def refusal(error: BaseException) -> UserError | None:
    """The line for what is not a mistake of this program: a UserError, what the system refuses (a name too long, a
    folder one may not look into), memory that is used up; None for all else."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, OSError) and error.strerror is not None:
        return UserError(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return out_of_memory(error)


def missing(what: str, error: ImportError, extra: str = "train") -> UserError:
    """What to say where a package of an extra is missing; an import of something else that fails is an error of ours.

    >>> missing("lookrep train", ModuleNotFoundError("No module named 'flax'", name="flax"))
    UserError("lookrep train needs more packages: pip install 'lookrep[train]' (No module named 'flax')")
    """
    if extra == "train" and (error.name or "").partition(".")[0] not in TRAIN_PACKAGES:
        raise error
    return UserError(f"{what} needs more packages: pip install 'lookrep[{extra}]' ({error})")
