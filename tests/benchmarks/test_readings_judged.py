"""Readings of the paper beside its statements: which one excludes a reading, and when nothing can be said."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import readings_judged as judged
import study_results

from lookrep.analysis import results
from lookrep.analysis.results import Status
from lookrep.errors import UserError

GAMES = tuple(f"atari/{name}" for name in ("Breakout", "Gopher", "CrazyClimber", "Assault", "Boxing", "Freeway"))
BASELINES = {"rainbow": {"target": "hard"}, "fork-rainbow": {"target": "hard", "target_init": "independent"}}
VARIANTS: dict[str, dict[str, Any]] = {
    "lr": {},
    **BASELINES,  # not the first: sittings may have any order
    "epsilon": {"replicate_adam_epsilon": 1e-8},
    "both": {"replicate_adam_epsilon": 1e-8, "replicate_updates": 800},
    "summed": {"replicate_actions": "all-summed"},
    "fork-lr": {"target_init": "independent"},
}
# In all games but Freeway. A baseline's two seeds have 100 and 101, or 50 and 51.
LEVELS = {"lr": 80, "rainbow": 100, "epsilon": 120, "both": 120, "summed": 100.4, "fork-rainbow": 50, "fork-lr": 70}
IN_FREEWAY = LEVELS | {"epsilon": 96, "both": 96, "summed": 96}
NORMS = {"epsilon": (0.9, 1.2)}  # times those of the baselines; of the other readings both are 0.9 of it


def level(env: str, variant: str, seed: int) -> float:
    return (IN_FREEWAY if env == GAMES[-1] else LEVELS)[variant] + seed


def written(
    folder: Path,
    variants: Mapping[str, dict[str, Any]] = VARIANTS,
    level: Callable[[str, str, int], float] = level,
    statuses: Mapping[tuple[str, str, int], Status] | None = None,
    seeds: int = 2,
) -> Path:
    changes = {name: {"target": "replicate"} | own for name, own in variants.items()}
    asked = study_results.study(GAMES, changes, seeds=seeds, agent="paper-lr")
    found = study_results.results(asked, level, statuses=statuses)
    for member in found.members:
        times = (1.0, 1.0) if member.variant in BASELINES else NORMS.get(member.variant, (0.9, 0.9))
        steps = member.columns.get("agent_steps", np.empty(0))
        member.columns.update(
            {name: np.full(len(steps), 30.0 * t) for name, t in zip(judged.NORMS, times, strict=True)}
        )
    return study_results.write(found, folder)


def rows(lines: list[str]) -> dict[str, list[str]]:
    """A table's cells, by the first of their row: the reading."""
    split = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {cells[0].removesuffix(" target").lower(): cells for cells in split[2:]}


def test_each_reading_stands_beside_its_baseline_with_what_excludes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged.main(written(tmp_path / "study"), None)
    lines = capsys.readouterr().out.splitlines()
    found = rows(lines)
    assert {name: cells[-1] for name, cells in found.items()} == {
        "lr": "**scores**: lower in 6 of 6 games",
        "epsilon": "**norms**: ‖θ‖ × 1.20",
        "both": "none",
        "summed": "cannot tell (scores: higher in 0 and lower in 1 of 6 games, seeds disagree in 5)",
        "fork-lr": "none",
    }
    # The rows in the last tenth are the 19th and the 20th of 20, and returns rise with them: 0.975 of the level.
    breakout, freeway = 3, 8
    assert found["lr"][: breakout + 1] == ["Lr target", "Rainbow target", "0 of 6", "−19.5 ↓ (2)"]
    assert (found["both"][2], found["both"][breakout], found["both"][freeway]) == (
        "5 of 6",
        "+19.5 ↑ (2)",
        "−3.9 ↓ (2)",
    )
    assert (found["summed"][2], found["summed"][breakout]) == ("5 of 6", "+0.39 ~ (2)")
    assert found["fork-lr"][1:3] == ["Fork-rainbow target", "6 of 6"]
    assert found["epsilon"][-3:-1] == ["× 0.90 (↑ 0 ↓ 6 of 6)", "× 1.20 (↑ 6 ↓ 0 of 6)"]
    assert "Inverted U in K_R: not tested, no reading has three values of K_R." in lines


def test_what_has_not_been_run_is_not_judged(tmp_path: Path) -> None:
    statuses: dict[tuple[str, str, int], Status] = {
        **{(env, "both", seed): "unfinished" for env in GAMES[2:] for seed in range(2)},
        **{(env, "lr", seed): "unfinished" for env in GAMES[4:] for seed in range(2)},
        (GAMES[0], "rainbow", 1): "missing",
        (GAMES[0], "fork-lr", 1): "diverged",
    }
    folder = written(tmp_path / "study", statuses=statuses)
    found = rows(judged.report(results.load(folder)))
    assert found["both"][2:9] == ["2 of 2", "+20 ↑ (2, 1)", "+19.5 ↑ (2)", "–", "–", "–", "–"]
    assert found["both"][-1].startswith("cannot tell (scores: higher in 2 and lower in 0 of 2 games")
    assert found["both"][-1].endswith("norms: 2 of 6 games)")
    assert found["lr"][-1] == "**scores**: lower in 4 of 4 games"  # the other two would not save it
    assert found["fork-lr"][-1] == "none"
    # An earlier end finds more of them there.
    early = rows(judged.report(results.load(folder, 50_000)))
    assert early["lr"][-1] == "**scores**: lower in 6 of 6 games"


@pytest.mark.parametrize(("seeds", "excluded_from"), [(1, 6), (2, 4), (5, 2)])
def test_fewer_seeds_need_more_games(seeds: int, excluded_from: int) -> None:
    """By hand, with one game that may be so: 1 of 32; 35 of 1000 with three games of five at 1/6; 5/252."""
    low, high = np.arange(seeds) + 0.0, np.arange(seeds) + 100.0
    for lower in range(7):
        pairs = {str(i): judged.Pair(*((low, high) if i < lower else (high, low))) for i in range(6)}
        assert (judged.judged_by_scores(pairs, 6).holds is False) == (lower >= excluded_from)
        assert (judged.judged_by_scores(pairs, 6).holds is True) == (lower == 0 or (lower == 1 and seeds > 1))


@pytest.mark.parametrize(
    ("levels", "holds", "word"),
    [((60, 90, 70), True, "holds"), ((60, 70, 90), False, "excluded"), ((60, 90, 89.5), None, "cannot tell")],
)
def test_an_inverted_u_needs_three_values_of_one_reading(
    levels: tuple[float, ...], holds: bool | None, word: str, tmp_path: Path
) -> None:
    steps = {"kr-800": 800, "lr": 200, "kr-20": 20}
    variants = BASELINES | {name: {"replicate_updates": k_r} for name, k_r in steps.items()}
    variants["other"] = {"replicate_updates": 2_000, "replicate_actions": "all-summed"}
    of = dict(zip(sorted(steps.values()), levels, strict=True))

    def level(env: str, variant: str, seed: int) -> float:
        return (of[steps[variant]] if variant in steps else 50) + seed

    folder = written(tmp_path / "study", variants, level)
    lines = judged.report(results.load(folder))
    (values,) = judged.swept(results.load(folder), ["lr", "kr-800", "kr-20", "other"])
    assert values == {20: "kr-20", 200: "lr", 800: "kr-800"}
    assert judged.judged_by_shape(results.load(folder), values).holds is holds
    assert next(line for line in lines if line.startswith("Inverted U")).startswith(
        f"Inverted U in K_R: kr-20, lr, kr-800: {word} (K_R 20: "
    )
    assert ("**inverted U**" in rows(lines)["lr"][-1]) == (holds is False)
    assert "inverted U" not in rows(lines)["other"][-1]


def test_a_reading_needs_its_baseline(tmp_path: Path) -> None:
    some = {name: VARIANTS[name] for name in ("lr", "rainbow", "fork-lr")}
    lines = judged.report(results.load(written(tmp_path / "some", some)))
    assert list(rows(lines)) == ["lr"]
    assert lines[-1] == "Left out, without its baseline in the study: fork-lr."
    alone = written(tmp_path / "alone", {"lr": {}})
    with pytest.raises(UserError, match="study test: has no reading beside rainbow or fork-rainbow"):
        judged.main(alone, None)
