"""Results: a member for everything that was asked for, with its rows in order, or the reason why there are none."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookrep import config as configs
from lookrep.analysis import results
from lookrep.analysis.scores import target_settings
from lookrep.errors import UserError
from lookrep.runs import folder as run_folder
from lookrep.runs import metrics
from lookrep.studies import definition, folder, hardware
from lookrep.studies.definition import Study

STUDY = definition.from_toml(
    'name = "s"\nenvironments = ["atari/Pong", "atari/Alien"]\nseeds = 3\nsteps = 200\n'
    '[variants.hard]\n[variants.lr]\ntarget = "replicate"\n'
)


def row(agent: int, steps: int, **values: Any) -> dict[str, Any]:
    measures = dict.fromkeys(metrics.MEASURES, 1.0)
    return {"agent": agent, "seed": 0, **dict.fromkeys(metrics.COUNTERS, 1), "agent_steps": steps, **measures} | {
        "diverged": False,
        **values,
    }


def population(out: Path, name: str, config: dict[str, Any], rows: list[dict[str, Any]]) -> Path:
    run = out / "populations" / name
    run.mkdir(parents=True)
    (run / "config.json").write_text(json.dumps(config))
    (run / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return run


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(definition.to_toml(STUDY))
    return tmp_path


def statuses(found: results.Results) -> dict[tuple[str, str, int], str]:
    return {(m.env, m.variant, m.seed): m.status for m in found.members}


def test_every_member_that_was_asked_for_is_there_even_if_nothing_was_run(out: Path) -> None:
    found = results.load(str(out))
    assert len(found.members) == 2 * 2 * 3
    assert set(statuses(found).values()) == {"missing"}
    assert all(member.columns == {} for member in found.members)
    assert found.study == STUDY
    assert (found.sittings, found.versions) == ((), ())


def test_members_are_finished_unfinished_or_diverged(out: Path) -> None:
    config = {"env": "atari/Pong", "agents": 3, "first_agent": 0, "versions": {"jax": "1"}}
    rows = [row(0, 100), row(1, 100), row(2, 100, diverged=True, return_mean=None), row(0, 200), row(1, 200)]
    population(out, "atari_Pong--hard--0-2", config, [*rows, row(2, 200, diverged=True)])
    half = [row(0, 100), row(1, 100, return_mean=5.0), row(2, 100)]
    population(out, "atari_Pong--lr--0-2", config | {"versions": {"jax": "2"}}, half)
    found = results.load(out)
    assert [m.status for m in found.of("atari/Pong", "hard")] == ["finished", "finished", "diverged"]
    assert [m.status for m in found.of("atari/Pong", "lr")] == ["unfinished"] * 3
    assert [m.status for m in found.of("atari/Alien", "lr")] == ["missing"] * 3
    assert found.of("atari/Pong", "hard")[1].columns["agent_steps"].tolist() == [100, 200]
    assert found.of("atari/Pong", "lr")[1].columns["return_mean"].tolist() == [5.0]
    assert np.isnan(found.of("atari/Pong", "hard")[2].columns["return_mean"][0])
    assert found.versions == ({"jax": "1"}, {"jax": "2"})


def test_a_study_can_be_looked_at_as_if_it_ended_before(out: Path) -> None:
    config = {"env": "atari/Pong", "agents": 3, "first_agent": 0}
    rows = [row(agent, steps) for steps in (100, 200) for agent in (0, 1)]
    rows += [row(2, 100), row(2, 200, diverged=True)]
    population(out, "atari_Pong--hard--0-2", config, sorted(rows, key=lambda r: int(r["agent_steps"])))
    population(out, "atari_Pong--lr--0-2", config, [row(0, 100), row(1, 100), row(2, 100)])
    found = results.load(out, 100)
    assert (found.study.steps, found.whole.steps) == (100, 200)
    for variant in ("hard", "lr"):
        assert [m.status for m in found.of("atari/Pong", variant)] == ["finished"] * 3
        assert [m.columns["agent_steps"].tolist() for m in found.of("atari/Pong", variant)] == [[100]] * 3
    assert {m.status for m in found.of("atari/Alien", "lr")} == {"missing"}


def test_a_part_of_a_study_can_be_looked_at_alone(out: Path) -> None:
    population(out, "atari_Pong--lr--0-0", {"env": "atari/Pong"}, [row(0, 100)])
    population(out, "atari_Pong--hard--0-0", {"env": "atari/Pong"}, [row(0, 75), row(0, 200)])
    found = results.load(out, 100, environments=["Pong"], variants=["lr"])  # where the other has no row
    assert {(m.env, m.variant) for m in found.members} == {("atari/Pong", "lr")}
    assert found.members[0].status == "finished"
    assert (found.study.environments, found.study.baseline) == (("atari/Pong",), "lr")
    assert (found.whole.environments, len(found.whole.variants)) == (("atari/Pong", "atari/Alien"), 2)
    with pytest.raises(UserError, match="environment 'Pung' is unknown: did you mean 'Pong'"):
        results.load(out, environments=["Pung"])


def test_an_end_that_makes_no_sense_is_refused(out: Path, tmp_path: Path) -> None:
    population(out, "atari_Pong--lr--0-0", {"env": "atari/Pong"}, [row(0, 50), row(0, 100)])
    for steps, said in ((0, "from 1 to 200"), (201, "from 1 to 200"), (99, "its last row before is at 50")):
        with pytest.raises(UserError, match=f"steps = {steps}: .*{said}"):
            results.load(out, steps)
    with pytest.raises(UserError, match="steps = 10: atari_Pong--lr--0-0 has no row of metrics there, its first row"):
        results.load(out, 10)
    population(out, "atari_Pong--hard--0-0", {"env": "atari/Pong"}, [row(0, 75), row(0, 150)])
    with pytest.raises(UserError, match="hard--0-0 has no row of metrics there, its last row before is at 75"):
        results.load(out, 100)  # where the other has one
    (tmp_path / "exact").mkdir()
    (tmp_path / "exact" / "study.toml").write_text(definition.to_toml(definition.load("exact", "smoke")))
    with pytest.raises(UserError, match="no steps to stop at"):
        results.load(tmp_path / "exact", 10)


def test_a_seed_that_two_populations_have_is_not_taken_from_either(out: Path) -> None:
    population(out, "atari_Pong--lr--0-1", {"env": "atari/Pong"}, [row(0, 100), row(1, 100)])
    population(out, "atari_Pong--lr--1-2", {"env": "atari/Pong"}, [row(1, 100), row(2, 100)])
    with pytest.raises(UserError, match=r"lr--1-2: seed 1 of lr on atari/Pong is in another population too; move one"):
        results.load(out)


def test_games_of_one_population_are_told_apart_by_their_column(out: Path) -> None:
    games = ["atari/Pong", "atari/Alien"]
    rows = [row(a, t, env=g, return_mean=10 * i + a) for t in (100, 200) for i, g in enumerate(games) for a in (1, 2)]
    config = {"env": "atari/Pong,Alien", "agents": 4, "first_agent": 1}
    population(out, "atari_Pong_and_1_more--lr--1-2", config, rows)
    found = results.load(out)
    assert [m.status for m in found.of("atari/Alien", "lr")] == ["missing", "finished", "finished"]
    assert found.of("atari/Alien", "lr")[2].columns["return_mean"].tolist() == [12.0, 12.0]
    assert found.of("atari/Pong", "lr")[1].columns["return_mean"].tolist() == [1.0, 1.0]


def test_seeds_may_be_spread_over_populations_and_what_nobody_asked_for_is_left_out(out: Path) -> None:
    config = {"env": "atari/Pong", "agents": 2, "first_agent": 0}
    population(out, "atari_Pong--hard--0-1", config, [row(0, 200), row(1, 200)])
    population(out, "atari_Pong--hard--2-3", config | {"first_agent": 2}, [row(2, 200), row(3, 200)])
    population(out, "atari_Qbert--hard--0-1", config | {"env": "atari/Qbert"}, [row(0, 200), row(1, 200)])
    found = results.load(out)
    assert len(found.members) == 12
    assert [(m.seed, m.status) for m in found.of("atari/Pong", "hard")] == [(s, "finished") for s in (0, 1, 2)]


def test_an_interval_that_is_being_written_does_not_count(out: Path) -> None:
    config = {"env": "atari/Pong", "agents": 2, "first_agent": 0}
    run = population(out, "atari_Pong--hard--0-1", config, [row(0, 100), row(1, 100), row(0, 200)])
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"agent": 1, "agent_st')
    assert [m.status for m in results.load(out).of("atari/Pong", "hard")] == ["unfinished", "unfinished", "missing"]


def test_a_sitting_is_one_entry_also_if_it_was_killed(out: Path) -> None:
    with folder.sitting(out, "lookrep study run s", hardware.H200) as end:
        end["finished"] = ["a"]
    with pytest.raises(KeyboardInterrupt), folder.sitting(out, "again", hardware.H200):
        raise KeyboardInterrupt
    with open(out / "sittings.jsonl", "a") as file:
        file.write('{"sitting": "killed", "start": "2030-01-01T00:00:00+00:00", "command": "third"}\n{"sitt')
    first, second, third = results.load(out).sittings
    assert (first["command"], first["finished"]) == ("lookrep study run s", ["a"])
    assert first["hardware"] == {"device": "1 × NVIDIA H200", "cores": 16}
    assert first["start"] <= first["end"] <= second["end"]
    assert "end" not in third


def test_what_is_no_study_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere: there is no such study folder"):
        results.load(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"is no study: it has no study\.toml"):
        results.load(tmp_path)


def test_damaged_files_are_named(out: Path) -> None:
    run = population(out, "atari_Pong--hard--0-1", {"env": "atari/Pong"}, [])
    (run / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(UserError, match=r"metrics\.jsonl line 1 is not a row of metrics"):
        results.load(out)
    (run / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json: not readable as JSON"):
        results.load(out)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (None, "settings: expected an object, got None"),
        ({"target": 1.5}, "settings: target: expected an object, got 1.5"),
        ({"target": {"targte": "hard"}}, "settings: target: unknown field 'targte', did you mean 'target'?"),
        ({"target": {"replicate_updates": "x"}}, "settings: target: replicate_updates = 'x': must be int"),
        ({"method": ["x"]}, "settings: method: expected an object, got ['x']"),
    ],
)
def test_damaged_settings_are_named(out: Path, settings: Any, complaint: str) -> None:
    run = population(out, "atari_Pong--lr--0-2", {"env": "atari/Pong", "agents": 3, "settings": settings}, [])
    with pytest.raises(UserError) as caught:
        results.load(out)
    assert str(caught.value) == f"{run / 'config.json'}: {complaint}"


def test_settings_that_a_population_leaves_out_are_those_of_the_study(out: Path) -> None:
    settings = {"target": {"target": "replicate", "target_period_updates": 7}}
    population(out, "atari_Pong--lr--0-2", {"env": "atari/Pong", "agents": 3, "settings": settings}, [])
    found = target_settings(results.load(out), "lr")
    assert found["target_period_updates"] == 7
    assert found["replicate_updates"] == configs.preset("rainbow", "atari/Pong").target.replicate_updates


def test_an_exact_study_has_no_members(tmp_path: Path) -> None:
    study: Study = definition.load("exact", "smoke")
    (tmp_path / "study.toml").write_text(definition.to_toml(study))
    assert results.load(tmp_path).members == ()


def test_the_last_rows_are_found_from_the_end_of_the_file(out: Path) -> None:
    config = {"env": "atari/Pong", "agents": 3, "first_agent": 0, "steps": 900, "checkpoint_interval_steps": 0}
    rows = [row(agent, steps) for steps in range(100, 1000, 100) for agent in range(3)]
    run = population(out, "atari_Pong--hard--0-2", config, rows)
    assert run_folder.last_rows(run, 3) == rows[-3:]
    assert run_folder.finished(run)
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"agent": 0, "agent_steps": 1000')
    assert run_folder.last_rows(run, 3) == rows[-3:]
    assert run_folder.last_steps(run) == 900
    (run / "config.json").write_text(json.dumps(config | {"checkpoint_interval_steps": 100}))
    assert run_folder.finished(run)  # copied without checkpoints, for its numbers
    (run / "checkpoints" / "000000000800").mkdir(parents=True)
    assert not run_folder.finished(run)  # killed before the last checkpoint: it goes on from the one before
