"""What a row of `metrics.jsonl` is, and what is wrong with one that is not. No numpy here."""

from collections.abc import Iterable
from typing import Any

from lookrep.errors import UserError
from lookrep.files import from_json

COUNTERS = ("agent_steps", "online_updates", "target_updates", "episodes")
MEASURES = (
    "return_mean",
    "return_max",
    "loss",
    "function_gap",
    "bellman_residual",
    "norm_online",
    "norm_target",
    "parameter_distance",
    "steps_per_second",
)
COLUMNS = ("env", "agent", "seed", *COUNTERS, *MEASURES, "diverged")
OPTIONAL = ("env", "seed")
WHOLE = ("agent", "seed", *COUNTERS)
LARGEST = 1e100  # measures have 32 bits, so none is larger; with larger ones sums and squares would overflow

Row = dict[str, Any]


def parsed(line: bytes, where: str) -> Row:
    """One line of the file.

    >>> parsed(b'{"agent": 0, "agent_steps": 400, "loss": null}', "line 1")
    {'agent': 0, 'agent_steps': 400, 'loss': None}
    >>> parsed(b'{"agent": 0, "agent_steps": 400, "loss": "low"}', "line 1")
    Traceback (most recent call last):
    lookrep.errors.UserError: line 1 is not a row of metrics: loss = 'low'
    """
    try:
        row = from_json(line)
    except ValueError:
        row = None
    if not isinstance(row, dict) or "agent" not in row or "agent_steps" not in row:
        raise UserError(f"{where} is not a row of metrics: {line[:40]!r}")
    for name, value in row.items():
        if not _fits(name, value):
            raise UserError(f"{where} is not a row of metrics: {name} = {value!r}")
    return row


def check_order(rows: Iterable[Row], path: str) -> None:
    """Refuse rows that are missing between others, are there twice, or have lost a column."""
    seen: dict[Any, int] = {}  # agent → the interval in which it was last
    interval, steps = 0, -1
    columns: set[str] = set()
    for number, row in enumerate(rows, 1):
        who = row.get("env"), row["agent"]
        if row["agent_steps"] != steps:
            if row["agent_steps"] < steps:
                raise UserError(f"{path} line {number}: agent_steps = {row['agent_steps']} comes after {steps}")
            interval, steps = interval + 1, row["agent_steps"]
        if seen.get(who, 0) == interval:
            raise UserError(f"{path} line {number}: agent {row['agent']} has a second row for step {steps}")
        if seen.get(who, 0) < interval - 1:
            raise UserError(f"{path} line {number}: a row of agent {row['agent']} is missing before it")
        if missing := columns - row.keys():
            raise UserError(f"{path} line {number}: '{min(missing)}' is missing")
        seen[who] = interval
        columns |= row.keys()


def _fits(name: str, value: Any) -> bool:
    if name in WHOLE:
        return type(value) is int and 0 <= value < 2**63
    if name == "diverged":
        return type(value) is bool
    if name == "env":
        return isinstance(value, str)
    if value is None or isinstance(value, str | bool):
        return name not in MEASURES or value is None
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, float) and abs(value) <= LARGEST
