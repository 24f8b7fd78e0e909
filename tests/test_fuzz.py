"""Whatever is in a file or on a command line, the answer is a success or one line with status 2: no traceback, no file
left, nothing that takes for ever or all memory.

A few hundred cases here. `LOOKREP_FUZZ=N` tries N of each kind, and a sixth of it where a case is slow; `make fuzz` has
N = 1200.
"""

import copy
import dataclasses
import json
import math
import tomllib
import typing
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzzing import (  # noqa: F401 (`bounds` is a fixture)
    DEEP,
    answered,
    anything,
    bounds,
    few,
    files,
    likely,
    many,
    numbers,
    said,
    scalars,
    some,
    words,
)
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lookrep import config as configs
from lookrep.analysis import figures, sources, statistics
from lookrep.cli import train
from lookrep.config import RunConfig
from lookrep.exact import problem_file
from lookrep.runs import folder as runs
from lookrep.runs import metrics
from lookrep.studies import definition, plan, toml
from lookrep.studies import folder as folders
from lookrep.studies.execute import monitor
from lookrep.training import memory, session

FIELDS = {
    name: typing.get_type_hints(RunConfig if group is None else typing.get_type_hints(configs.AgentConfig)[group])[name]
    for name, group in configs.setting_groups().items()
}
a_field = st.sampled_from(sorted(FIELDS)).flatmap(lambda name: st.tuples(st.just(name), likely(FIELDS[name])))


def flags(changes: dict[str, Any]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in changes.items()]


# ---- settings


@many
@given(env=st.dictionaries(st.just("env"), words), fields=st.lists(a_field, max_size=4))
def test_any_value_of_any_setting(env: dict[str, Any], fields: list[tuple[str, Any]]) -> None:
    config = answered(lambda: configs.from_flat({"env": "minatar/breakout"} | env | dict(fields)))
    if config is not None:
        assert configs.from_json(json.loads(json.dumps(configs.to_json(config)))) == config
        assert len(config.numbers) == config.agents


@many
@given(fields=st.lists(a_field, max_size=3), more=st.lists(words, max_size=2))
@example(fields=[("agents", 9223372036854775808)], more=[])
@example(fields=[("first_agent", 4294967295), ("agents", 4)], more=[])
@example(fields=[("batch_size", 10**9)], more=[])
@example(fields=[("seed", int("9" * 4300))], more=[])
@example(fields=[], more=["--steps", "9" * 5000])
def test_any_command_line_to_train(
    fields: list[tuple[str, Any]],
    more: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    given_words = [word for field in fields for word in safe_flags(dict([field]))]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(session, "start", lambda *_, **__: True)
        patch.setattr(train, "_warm", None, raising=False)
        assume(not any("\0" in word for word in [*given_words, *more]))
        said(["train", "minatar/breakout", *given_words, *more, "--out", str(folder / "run")], capsys)
    assert not files(folder)


@some
@given(fields=st.lists(a_field, max_size=3))
@example(fields=[("network", "mlp:1000000x1000000")])
@example(fields=[("agents", 2**20), ("replay_capacity_steps", 2**31 - 1)])
@example(fields=[("batch_size", 2**20), ("network", "mlp:4096")])
@example(fields=[("agent", "iqn"), ("quantiles", 4096), ("batch_size", 2**20)])
def test_any_settings_up_to_the_training_itself(
    fields: list[tuple[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The engine's shapes and what memory they take; what is refused leaves nothing behind."""
    folder = tmp_path_factory.mktemp("fuzz")
    given_words = [word for field in fields for word in safe_flags(dict([field]))]
    assume(not any("\0" in word for word in given_words))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(session, "_trained", lambda *_: True)
        patch.setattr(memory, "available", lambda: (8_000_000_000, "of free memory"))
        status = said(["train", "minatar/breakout", *given_words, "--out", str(folder / "run")], capsys)
    assert list(files(folder)) == ([] if status else [str(folder / "run"), str(folder / "run" / ".lock")])


def safe_flags(changes: dict[str, Any]) -> list[str]:
    try:
        return flags(changes)
    except ValueError:  # Python writes no number of so many digits, and a shell can
        return [f"--{name.replace('_', '-')}={'9' * 4400}" for name in changes]


LOOKING = ("eval", "play", "report", "figure", "parity", "study status", "study plan", "study run", "train --resume")


@many
@given(command=st.sampled_from(LOOKING), name=words, more=st.lists(words, max_size=2))
@example(command="eval", name="x" * 300, more=[])
@example(command="study plan", name="minatar-targets", more=["--seeds", "1000000000"])
@example(command="study plan", name="minatar-targets", more=["--steps", "9" * 4300])
def test_any_command_line_about_a_folder(
    command: str,
    name: str,
    more: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    assume("\0" not in name + "".join(more) and not set(name) <= set("./"))
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        said([*command.split(), name, *more], capsys)
    assert not files(folder)


# ---- files: right ones with something wrong in them

Damage = Callable[[bytes], bytes]


def damages() -> st.SearchStrategy[Damage]:
    place, byte = st.floats(0, 1, exclude_max=True), st.integers(0, 255)

    def at(data: bytes, where: float) -> int:
        return int(len(data) * where)

    return st.one_of(
        st.builds(lambda w, b: lambda d: d[: at(d, w)] + bytes([b]) + d[at(d, w) + 1 :], place, byte),
        st.builds(lambda w: lambda d: d[: at(d, w)], place),
        st.builds(lambda w, v: lambda d: d[: at(d, w)] + d[at(d, v) :], place, place),
        st.builds(lambda w, more: lambda d: d[: at(d, w)] + more + d[at(d, w) :], place, st.binary(max_size=6)),
        st.builds(lambda more: lambda d: more, st.binary(max_size=30)),
        st.just(lambda d: DEEP.encode()),
        st.just(lambda d: b'{"a": ' + b"9" * 5000 + b"}"),
    )


CONFIG = configs.to_json(configs.from_flat({"env": "minatar/breakout", "agents": 2, "steps": 8000}))
CONFIG |= {"versions": {"lookrep": "0"}}


def changed(data: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    data = copy.deepcopy(data)
    inner = data
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return data


paths = st.sampled_from(
    [(name,) for name in CONFIG]
    + [("settings", group, name) for group, of in CONFIG["settings"].items() for name in of]
)


@many
@given(
    damage=st.one_of(damages(), st.builds(lambda p, v: lambda d: dumped(changed(json.loads(d), p, v)), paths, anything))
)
@example(damage=lambda d: dumped(changed(json.loads(d), ("versions",), "x")))
@example(damage=lambda d: dumped(changed(json.loads(d), ("agents",), 10**18)))
@example(damage=lambda d: dumped(changed(json.loads(d), ("first_agent",), 2**32 - 1)))
def test_any_damage_to_a_configuration(
    damage: Damage, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "config.json").write_bytes(damage(dumped(CONFIG)))
    before = files(folder)
    for ask in (
        lambda: configs.load(folder),
        lambda: runs.finished(folder),
        lambda: runs.never_saved(folder),
        lambda: plan.from_config(folder.name, runs.planned(folder) or {}).members,
    ):
        answered(ask)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "resume", lambda *_, **__: True)
        said(["train", "--resume", str(folder)], capsys)
    assert files(folder) == before


def dumped(data: Any) -> bytes:
    try:
        return json.dumps(data).encode("utf-8", "replace")
    except ValueError:  # a number that Python does not write
        return json.dumps(data, default=str).encode() if not _has_huge(data) else b'{"env": ' + b"9" * 5000 + b"}"


def _has_huge(data: Any) -> bool:
    if isinstance(data, dict):
        return any(map(_has_huge, data.values()))
    return any(map(_has_huge, data)) if isinstance(data, list) else isinstance(data, int) and abs(data) >= 10**4000


def row(agent: int, steps: int) -> dict[str, Any]:
    counters = dict.fromkeys(metrics.COUNTERS, steps) | {"agent": agent, "seed": 0}
    return counters | dict.fromkeys(metrics.MEASURES, 1.5) | {"diverged": False}


STUDY = definition.narrow(definition.load("minatar-targets", "smoke"), environments=["breakout"], seeds=2)
ENDS = (STUDY.steps // 2, STUDY.steps)
ROWS = b"".join(json.dumps(row(agent, steps)).encode() + b"\n" for steps in ENDS for agent in (0, 1))


def with_value(lines: bytes, number: int, name: str, value: Any) -> bytes:
    rows = [json.loads(line) for line in lines.splitlines()]
    rows[number % len(rows)][name] = value
    return b"".join(dumped(one) + b"\n" for one in rows)


columns = st.sampled_from([*metrics.COLUMNS, "losss", "extra"])


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a study would leave it: one population has its rows, none has trained."""
    out = tmp_path_factory.mktemp("study") / "study"
    folders.prepare(out, STUDY)
    for one in plan.populations(STUDY, math.inf):
        run = out / "populations" / one.id
        run.mkdir()
        (run / "config.json").write_bytes(dumped(configs.to_json(plan.run_config(STUDY, one))))
        (run / "metrics.jsonl").write_bytes(ROWS)
    start = {"sitting": "a", "start": "2026-01-01T00:00:00+00:00", "command": "lookrep study run"}
    (out / "sittings.jsonl").write_bytes(dumped(start) + b"\n")
    (out / "logs" / f"{one.id}.failed").write_text("it failed\n")
    return out


def computed(path: Path) -> None:
    """What a report says, and which figures it would draw."""
    found = sources.load(path)
    statistics.headline(found, resamples=10)
    figures.suitable(found)


def looked_at(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that reads a study without drawing it, or training."""
    before = files(study)
    answered(lambda: computed(study))
    answered(lambda: monitor.survey(study, STUDY.steps, plan.every(study, STUDY)))
    said(["study", "status", str(study)], capsys)
    assert files(study) == before


def harmed(path: Path, damage: Damage, look: Callable[[], None]) -> None:
    before = path.read_bytes()
    try:
        path.write_bytes(damage(before))
        look()
    finally:
        path.write_bytes(before)


@many
@given(
    damage=st.one_of(
        damages(),
        st.builds(lambda n, c, v: lambda d: with_value(d, n, c, v), st.integers(0, 3), columns, anything),
        st.builds(lambda n: lambda d: b"\n".join(d.split(b"\n")[:n] + d.split(b"\n")[n + 1 :]), st.integers(0, 3)),
    )
)
def test_any_damage_to_rows_of_metrics(damage: Damage, study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = folders.populations(study)[0]

    def look() -> None:
        answered(lambda: metrics.read(run))
        answered(lambda: runs.last_rows(run, 2))
        looked_at(study, capsys)

    harmed(run / "metrics.jsonl", damage, look)


@many
@given(name=st.sampled_from(["sittings.jsonl", "study.toml", "config.json", "failed"]), damage=damages())
def test_any_damage_to_a_studys_files(
    name: str, damage: Damage, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = list(study.rglob(f"*{name}"))[:1]
    harmed(path, damage, lambda: looked_at(study, capsys))


groups = st.sampled_from([("settings",), *(("settings", name) for name in CONFIG["settings"])])


def renamed(data: dict[str, Any], path: tuple[str, ...], name: str) -> dict[str, Any]:
    """With the last word of a path misspelt."""
    data = copy.deepcopy(data)
    inner = data
    for part in path[:-1]:
        inner = inner[part]
    inner[name] = inner.pop(path[-1])
    return data


@few
@given(
    path=paths | groups,
    damage=st.builds(lambda v: lambda d, p: changed(d, p, v), anything)
    | st.builds(lambda w: lambda d, p: renamed(d, p, w), words),
)
@example(path=("settings",), damage=lambda d, p: changed(d, p, 3))
@example(path=("settings",), damage=lambda d, p: changed(d, p, None))
@example(path=("settings",), damage=lambda d, p: changed(d, p, ["x"]))
@example(path=("settings", "target"), damage=lambda d, p: changed(d, p, 1.5))
@example(path=("settings", "method"), damage=lambda d, p: changed(d, p, ["x"]))
@example(path=("settings", "target", "target"), damage=lambda d, p: renamed(d, p, "targte"))
@example(path=("settings", "target", "replicate_updates"), damage=lambda d, p: changed(d, p, "x"))
@example(path=("settings", "target", "replicate_updates"), damage=lambda d, p: renamed(d, p, "extra"))
def test_a_report_of_any_damage_to_a_populations_settings(
    path: tuple[str, ...],
    damage: Callable[[dict[str, Any], tuple[str, ...]], Any],
    study: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "page.html"
    run = folders.populations(study)[-1]  # with Replicate
    harmed(
        run / "config.json",
        lambda d: dumped(damage(json.loads(d), path)),
        lambda: said(["report", str(study), "-o", str(out)], capsys),
    )


# ---- other software's logs

SCORES = b"run,step,score,env,variant\n" + b"".join(
    b"%s%d,%d,%g,Pong,%s\n" % (variant, run, step, level + run + step / 100, variant)
    for variant, level in ((b"dqn", 10.0), (b"lr", 20.0))
    for run in range(2)
    for step in (10, 20, 30)
)


def with_cell(table: bytes, line: int, column: int, value: Any) -> bytes:
    lines = [text.split(b",") for text in table.splitlines()]
    lines[line][column] = (b"9" * 5000) if _has_huge(value) else str(value).encode("utf-8", "replace")
    return b"\n".join(map(b",".join, lines))


@many
@given(
    damage=damages()
    | st.builds(lambda n, c, v: lambda d: with_cell(d, n, c, v), st.integers(0, 12), st.integers(0, 4), scalars)
)
@example(damage=lambda d: b"")
@example(damage=lambda d: with_cell(d, 5, 1, "99999999999999999999"))
@example(damage=lambda d: with_cell(d, 5, 2, 1e308))
@example(damage=lambda d: with_cell(d, 1, 1, 3100))
def test_any_damage_to_a_table_of_scores(damage: Damage, tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_bytes(damage(SCORES))
    answered(lambda: computed(path))


# ---- definitions


@many
@given(
    st.one_of(
        st.tuples(
            st.sampled_from([f"{key}" for key in definition._KEYS] + ["sizes", "overrides", "variants"]), anything
        ),
        st.tuples(st.just("overrides"), st.lists(a_field, max_size=2).map(dict)),
        st.tuples(st.just("sizes"), st.dictionaries(st.just("smoke"), anything)),
    )
)
@example(("sizes", 3))
@example(("overrides", 3))
@example(("overrides", {"steps_per_update": "4"}))
@example(("overrides", {"steps_per_update": 0}))
@example(("title", "\x1b]0;owned\x07"))
@example(("seeds", 1_000_000_000))
def test_any_entry_of_a_study(entry: tuple[str, Any]) -> None:
    data: dict[str, Any] = {
        "environments": ["minatar/breakout"],
        "variants": {"a": {"target": "hard"}},
        "seeds": 2,
        "steps": 20_000,
    }
    key, value = entry

    def planned() -> Any:
        study = definition._study(data | {key: value}, None, "study.toml", "study")
        if study.kind == "training":
            plan.populations(study, 1e9)
        assert definition.from_toml(definition.to_toml(study)) == study
        seen = study.title + study.question  # may have lines, and nothing else that a terminal would obey
        assert not any(unicodedata.category(c) == "Cc" and c not in "\t\n" for c in seen)
        assert not any(unicodedata.bidirectional(c)[-1:] in "EOI" for c in seen if unicodedata.category(c) == "Cf")
        return study

    answered(planned)


@many
@given(damages())
def test_any_damage_to_a_definition(damage: Damage) -> None:
    text = damage(definition.to_toml(STUDY).encode()).decode("utf-8", "replace")

    def planned() -> None:
        study = definition.from_toml(text)
        if study.kind == "training" and study.seeds * len(study.environments) < 1000:
            plan.populations(study, 1e9)

    answered(planned)


PROBLEM = """
transition = [[0.9, 0.1], [0.2, 0.8]]
reward = [1.0, 0.0]
discount = 0.9
features_online = [[1.0, 0.0], [0.0, 1.0]]
features_target = [[1.0, 0.0], [0.0, 1.0]]
online_init = [0.0, 0.0]

[solver]
outer_iterations = 10
lookahead_step_size = 0.1
"""
KEYS = [*problem_file.KEYS, "nonsense"]


@many
@given(
    damage=st.one_of(
        damages(),
        st.builds(
            lambda k, v: lambda d: toml_dumped(tomllib.loads(d.decode()) | {k: v}),
            st.sampled_from(KEYS),
            anything | st.lists(st.lists(numbers, max_size=3), max_size=3),
        ),
    )
)
def test_any_damage_to_a_problem(damage: Damage, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "problem.toml"
    path.write_bytes(damage(PROBLEM.encode()))
    answered(lambda: problem_file.load(path))


def toml_dumped(table: dict[str, Any]) -> bytes:
    try:
        return toml.dumps(table).encode("utf-8", "replace")
    except (TypeError, ValueError):  # TOML has no null, and Python no number of so many digits
        return b"reward = " + b"9" * 5000


def test_every_setting_is_tried() -> None:
    assert {field.name for field in dataclasses.fields(RunConfig)} - {"settings"} <= FIELDS.keys()
