"""A dozen of the attacks of `make chaos`, with the same code, and what its table says of a promise that is broken."""

from pathlib import Path
from typing import Any

import pytest
from chaos import __main__ as chaos
from chaos import damage
from chaos import world as worlds
from chaos.world import Failure, Tally, World


def test_a_dozen_attacks_leave_no_trace(tmp_path: Path) -> None:
    tallies = chaos.attacked(World(tmp_path, seed=7), short=True)
    assert [failure for tally in tallies for failure in tally.failures] == []
    assert all(tally.tries or tally.skipped for tally in tallies)
    assert sum(tally.tries for tally in tallies) >= 10


def test_what_a_kill_costs_is_noticed(tmp_path: Path) -> None:
    """The judge itself: a row lost, twice or torn, and a refusal of two lines."""
    subject = worlds.Subject("a run", lambda _: [], lambda _: [], lambda out: [out], alone=True)
    whole = tmp_path / "whole"
    whole.mkdir()
    lines = [f'{{"agent": 0, "agent_steps": {steps}, "loss": 0.5}}\n' for steps in (80, 160, 240)]
    (whole / "metrics.jsonl").write_text("".join(lines))
    worlds.same(subject, whole, whole)
    for number, damaged in enumerate((lines[:2], lines[:1] + lines, [*lines, '{"agent"'])):
        out = tmp_path / str(number)
        out.mkdir()
        (out / "metrics.jsonl").write_text("".join(damaged))
        with pytest.raises(Failure):
            worlds.same(subject, out, whole)
    with pytest.raises(Failure, match="not one line"):
        worlds.one_line(worlds.Ended(("train",), 2, "", "lookrep: a\nlookrep: b\n"))


def test_a_failure_is_in_the_table_with_what_repeats_it(tmp_path: Path) -> None:
    def broken(world: World, rng: Any) -> int:
        raise Failure(f"a row is lost ({rng.random():.3f})")

    tally = Tally("kill -9")
    chaos.times(2, broken)(World(tmp_path, seed=1), tally)
    assert chaos.table([tally]).splitlines()[2:] == ["| kill -9 | 2 | 2 |", "| all, 2 of them kills | 2 | 2 |"]
    skipped = Tally("full disk", skipped="no unshare")
    assert chaos.table([tally, skipped]).splitlines()[-1] == "| all, 2 of them kills | 2 | 2, 1 skipped |"
    again = Tally("kill -9")
    chaos.times(2, broken)(World(tmp_path, seed=1), again)
    assert again.failures == tally.failures
    assert tally.failures[1].startswith("kill -9, try 1: ")


def test_kills_that_come_too_late_are_a_failure(tmp_path: Path) -> None:
    tally, lives = Tally("kill -9"), iter([1, 0, 0, 1, 0, 0, 0, 0, 0])
    chaos.until(3, lambda world, rng: next(lives))(World(tmp_path, seed=1), tally)
    assert tally.tries == 2
    assert tally.failures == ["kill -9: only 2 of 3 hit; the others came too late"]


def test_only_damage_that_somebody_reads_must_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"leaves": [{"offset": 0, "bytes": 4}, {"offset": 64, "bytes": 4}]}')
    assert damage._read_bytes(tmp_path / "manifest.json") == [slice(None)]
    assert damage._read_bytes(tmp_path / "arrays.bin") == [slice(0, 4), slice(64, 68)]
