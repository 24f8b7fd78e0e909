"""Definitions of studies: the built-in ones say what the paper did, and a wrong entry is one line that names it."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from lookrep import files
from lookrep.errors import UserError
from lookrep.studies import choice, definition, toml
from lookrep.studies.definition import Study, Variant

SMALL = """
environments = ["minatar/breakout"]
seeds = 2
steps = 8000

[overrides]
batch_size = 16

[variants.hard]
target = "hard"

[variants.learned]
label = "Learned"
target = "replicate"

[sizes.laptop]
seeds = 3

[sizes.gpu]
variants = ["learned"]
[sizes.gpu.overrides]
learning_rate = 1e-5
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def runs(study: Study) -> int:
    return len(study.environments) * len(study.variants) * study.seeds


# The built-in ones


@pytest.mark.parametrize("name", definition.names())
@pytest.mark.parametrize("size", definition.SIZES)
def test_every_built_in_study_has_every_size_and_survives_its_own_file(name: str, size: str) -> None:
    study = definition.load(name, size)
    assert (study.name, study.size) == (name, size)
    assert definition.from_toml(definition.to_toml(study)) == study


def test_there_is_a_study_for_every_experiment_of_the_paper_and_for_ours() -> None:
    assert set(definition.names()) == {
        "paper-ablation", "paper-kr", "paper-norms", "paper-55", "minatar-targets", "minatar-kr", "exact",
        "network-pairs", "minatar-baselines", "minatar-recipe", "minatar-lag", "minatar-width", "atari-parity",
        "paper-readings", "minatar-horizon", "minatar-methods", "minatar-methods-tuning", "minatar-resets",
        "minatar-trust", "minatar-scaling", "minatar-scaling-tuning", "minatar-small-targets", "minatar-distilled",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "environments", "variants"),
    [("paper-ablation", 6, 4), ("paper-norms", 6, 2), ("paper-55", 55, 2), ("atari-parity", 10, 2)],
)
def test_full_sizes_are_the_papers(name: str, environments: int, variants: int) -> None:
    study = definition.load(name, "full")
    assert (len(study.environments), len(study.variants), study.seeds) == (environments, variants, 5)
    assert study.steps == 200 * 250_000
    assert study.overrides["target_period_updates"] == 2000
    assert study.overrides["replicate_updates"] == 200


def test_the_55_games_are_those_with_a_human_score() -> None:
    games = {env.removeprefix("atari/") for env in definition.load("paper-55", "full").environments}
    assert len(games) == 55
    without_score = {"AirRaid", "Carnival", "ElevatorAction", "JourneyEscape", "Pooyan"}
    assert not games & (without_score | {"Defender", "Surround"})
    assert {"Alien", "MontezumaRevenge", "VideoPinball", "Zaxxon"} <= games


def test_the_ablation_compares_two_copies_with_two_ways_to_replicate() -> None:
    variants = {v.name: v.changes for v in definition.load("paper-ablation", "full").variants}
    assert [(v["target"], v.get("replicate_actions"), v.get("tau")) for v in variants.values()] == [
        ("hard", None, None), ("polyak", None, 0.005), ("replicate", "one", None), ("replicate", "all", None),
    ]  # fmt: skip


def test_minatar_kr_goes_from_a_two_hundredth_to_twice_the_lookahead_updates() -> None:
    study = definition.load("minatar-kr", "gpu")
    period = study.overrides["target_period_updates"]
    updates = [v.changes["replicate_updates"] for v in study.variants if "replicate_updates" in v.changes]
    ratios = [u / period for u in updates]
    assert (min(ratios), max(ratios)) == (0.005, 2.0)
    assert 0.1 in ratios
    assert ratios == sorted(ratios)


def test_minatar_targets_on_a_gpu_is_500_runs_of_5_million_steps() -> None:
    study = definition.load("minatar-targets", "gpu")
    assert (runs(study), study.steps) == (500, 5_120_000)
    assert (study.overrides["target_period_updates"], study.overrides["replicate_updates"]) == (125, 12)


@pytest.mark.parametrize("name", ["minatar-targets", "minatar-kr", "minatar-recipe", "minatar-width", "network-pairs"])
def test_function_gaps_are_not_measured_at_the_same_moment_of_every_turn(name: str) -> None:
    study = definition.load(name, "gpu")
    assert study.steps % study.overrides["log_interval_steps"] == 0
    assert study.overrides["log_interval_steps"] // 4 % study.overrides["target_period_updates"]


def test_both_baselines_are_tuned_around_the_settings_of_the_comparison() -> None:
    study = definition.load("minatar-baselines", "gpu")
    periods = [v.changes["target_period_updates"] for v in study.variants if v.changes["target"] == "hard"]
    taus = [v.changes["tau"] for v in study.variants if v.changes["target"] == "polyak"]
    targets = definition.load("minatar-targets", "gpu")
    assert len(periods) == len(taus)
    assert targets.overrides["target_period_updates"] in periods[1:-1]
    assert targets.variant("polyak").changes["tau"] in taus[1:-1]


def test_recipes_for_replicate_differ_from_the_papers_in_what_their_names_say() -> None:
    study = definition.load("minatar-recipe", "gpu")
    changes = {v.name: {k: x for k, x in v.changes.items() if k != "target"} for v in study.variants}
    assert changes["paper"] == {}
    assert {len(change) for name, change in changes.items() if name not in ("hard", "paper")} == {1, 2}
    batches = {change["replicate_batch_size"] for change in changes.values() if "replicate_batch_size" in change}
    assert batches == {128, 512, 1024}


def test_the_targets_of_network_pairs_differ_in_shape_alone() -> None:
    study = definition.load("network-pairs", "gpu")
    shapes = [v.changes for v in study.variants if v.name not in ("same", "hard")]
    assert [sorted(change) for change in shapes] == [["target_network"]] * 5


# Sizes and subsets


def test_a_size_changes_what_it_names_and_keeps_the_rest(small: Path) -> None:
    laptop, gpu = definition.load(small), definition.load(small, "gpu")
    assert (laptop.size, laptop.seeds, laptop.steps, laptop.overrides) == ("laptop", 3, 8000, {"batch_size": 16})
    assert gpu.overrides == {"batch_size": 16, "learning_rate": 1e-5}
    assert [v.name for v in gpu.variants] == ["learned"]
    assert gpu.baseline == "learned"  # the first one that is left
    assert laptop.baseline == "hard"
    assert (laptop.name, laptop.title) == ("small", "small")
    assert laptop.variant("learned") == Variant("learned", "Learned", {"target": "replicate"})


def test_a_subset_keeps_the_studys_order_and_takes_short_names() -> None:
    study = definition.load("minatar-targets", "gpu")
    part = definition.narrow(
        study, environments=["freeway", "minatar/breakout"], variants=["polyak"], seeds=2, steps=400
    )
    assert part.environments == ("minatar/breakout", "minatar/freeway")
    assert ([v.name for v in part.variants], part.baseline, part.seeds, part.steps) == (["polyak"], "polyak", 2, 400)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"environments": ["brekout"]}, "environment 'brekout' is unknown: did you mean 'breakout'?"),
        ({"variants": ["soft"]}, "variant 'soft' is unknown: choose from hard, polyak, replicate-all, replicate-one"),
        ({"seeds": 0}, "seeds = 0: must be at least 1"),
        ({"steps": -4}, "steps = -4: must be at least 1"),
    ],
)
def test_a_subset_of_what_is_not_there_is_refused(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError) as refused:
        definition.narrow(definition.load("minatar-targets", "gpu"), **changes)
    assert expected in str(refused.value)


def test_more_of_a_study_can_be_asked_for_later_but_nothing_else() -> None:
    whole = definition.load("minatar-targets", "gpu")
    first = definition.narrow(whole, environments=["freeway"], variants=["hard"], seeds=5)
    second = definition.narrow(whole, environments=["breakout"], variants=["polyak"], seeds=3)
    both = definition.union(first, second, "here")
    assert both.environments == ("minatar/freeway", "minatar/breakout")
    assert ([v.name for v in both.variants], both.seeds, both.baseline) == (["hard", "polyak"], 5, "hard")
    assert definition.union(definition.narrow(whole, steps=400), whole, "here") == whole
    with pytest.raises(UserError, match="here holds a study with steps = 5120000, not 400: choose another --out"):
        definition.union(whole, definition.narrow(whole, steps=400), "here")
    with pytest.raises(UserError, match="name = minatar-targets, not minatar-kr"):
        definition.union(whole, definition.load("minatar-kr", "gpu"), "here")
    changed = dataclasses.replace(whole, variants=(Variant("hard", "Hard", {"target": "frozen"}),))
    with pytest.raises(UserError, match="whose variant 'hard' has other settings"):
        definition.union(whole, changed, "here")


def test_a_folder_takes_what_its_study_takes_by_name(tmp_path: Path) -> None:
    first = definition.narrow(definition.load("minatar-targets", "laptop"), variants=["hard"], seeds=1, steps=8_000)
    (tmp_path / "study.toml").write_text(definition.to_toml(first))
    assert choice.chosen(str(tmp_path)) == first
    more = choice.chosen(str(tmp_path), variants=["polyak"], seeds=4)
    assert ([v.name for v in more.variants], more.seeds, more.steps) == (["polyak"], 4, 8_000)
    assert more.environments == first.environments
    with pytest.raises(UserError, match="variant 'soft' is unknown"):
        choice.chosen(str(tmp_path), variants=["soft"])
    with pytest.raises(UserError, match="has no environment 'asterix': --size gpu has it, in a folder of its own"):
        choice.chosen(str(tmp_path), environments=["asterix"])


def test_a_part_of_another_size_is_said_with_the_size() -> None:
    with pytest.raises(UserError, match=r"^study minatar-targets, size laptop, has no environment 'asterix': --size"):
        choice.chosen("minatar-targets", environments=["asterix"])


# Files


def test_a_folder_may_have_the_name_of_a_built_in_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "minatar-kr").mkdir()
    mine = definition.narrow(definition.load("minatar-kr", "smoke"), seeds=1)
    (tmp_path / "minatar-kr" / "study.toml").write_text(definition.to_toml(mine))
    monkeypatch.chdir(tmp_path)
    assert definition.load(Path("minatar-kr")) == mine
    assert definition.load("minatar-kr", "smoke").seeds == 2


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("seeds = 2", "sedes = 2", "unknown entry 'sedes', did you mean 'seeds'?"),
        ("seeds = 2", "seeds = 0", "seeds = 0: must be at least 1"),
        ("seeds = 2", "seeds = true", "seeds = True: must be a whole number"),
        ("steps = 8000", "steps = '8000'", "steps = '8000': must be a whole number"),
        ("batch_size = 16", "batchsize = 16", "overrides: unknown entry 'batchsize', did you mean 'batch_size'?"),
        ("batch_size = 16", "agents = 16", "overrides: unknown entry 'agents'"),
        ('target = "hard"', 'taget = "hard"', "variants.hard: unknown entry 'taget', did you mean 'target'?"),
        ('target = "hard"', "agent = 3", "variants.hard: agent = 3: must be a string"),
        ("[variants.hard]", '[variants."a--b"]', "variant 'a--b': use letters and digits"),
        ("[variants.hard]", '[variants."../x"]', "variant '../x': use letters and digits"),
        ('"learned"]', '"lerned"]', "variant 'lerned' is unknown: did you mean 'learned'?"),
        ("[sizes.laptop]", "[sizes.laptop]\nsede = 1", "sizes.laptop: unknown entry 'sede', did you mean 'seeds'?"),
        ('["minatar/breakout"]', "[]", "environments: at least one is needed"),
        ('["minatar/breakout"]', '["a,b"]', "'a,b' is no name of an environment"),
        ('["minatar/breakout"]', '"minatar/breakout"', "environments = 'minatar/breakout': must be a list"),
        ("environments", "#", "'environments' is missing"),
        ("seeds = 2", 'kind = "guess"', "kind = 'guess': choose from training, exact"),
        ("seeds = 2", 'agent = "rainbo"', "agent 'rainbo' is unknown: did you mean 'rainbow'?"),
        ("seeds = 2", 'baseline = "soft"', "variant 'soft' is unknown"),
        ("seeds = 2", "seeds = ", "not readable as TOML"),
    ],
)
def test_a_wrong_entry_is_one_line_with_its_place(small: Path, before: str, after: str, expected: str) -> None:
    small.write_text(SMALL.replace(before, after, 1))
    with pytest.raises(UserError) as refused:
        definition.load(small, "gpu")
    assert expected in str(refused.value)
    assert str(refused.value).startswith(str(small))
    assert "\n" not in str(refused.value)


HUGE = "0x" + "f" * 6000  # TOML takes it, and Python does not print it


@pytest.mark.parametrize(
    ("before", "after", "entry"),
    [
        ("seeds = 2", f"seeds = {HUGE}", "seeds"),
        ("seeds = 2", f"title = {HUGE}", "title"),
        ("batch_size = 16", f"batch_size = {HUGE}", "overrides.batch_size"),
        ('target = "hard"', f"sweep = {{ kappa = [1, {HUGE}] }}", "variants.hard.sweep.kappa"),
        ("seeds = 2", f'kind = "exact"\nfigures = [[{HUGE}]]', "figures"),
    ],
)
def test_a_number_that_cannot_be_printed_is_one_line(small: Path, before: str, after: str, entry: str) -> None:
    small.write_text(SMALL.replace(before, after, 1))
    with pytest.raises(UserError) as refused:
        definition.load(small)
    assert str(refused.value) == f"{small}: {entry}: a whole number is too large: it has more than 100 digits"


def test_tables_in_tables_that_cannot_be_printed_are_one_line(small: Path) -> None:
    small.write_text(SMALL.replace("seeds = 2", f"title.{'a.' * 5000}b = 2", 1))
    with pytest.raises(UserError, match=r"^\S*small\.toml: title.*: not readable as TOML \(nested too deeply\)$"):
        definition.load(small)


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("minatar-target", None, "study 'minatar-target' is unknown: did you mean 'minatar-targets'?"),
        ("zzz", None, "study 'zzz' is unknown: choose from paper-55, "),
        ("no/such.toml", None, "no/such.toml: no such file"),
        ("minatar-targets", "huge", "size 'huge' is unknown: choose from smoke, laptop, gpu, full"),
        (".", None, ". is no study: it has no study.toml"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(
    name: str, size: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refused:
        definition.load(name, size)
    assert expected in str(refused.value)


def test_any_text_survives_the_file() -> None:
    nasty = '<script>alert("x")</script> \\ \t\n θ ≠ w 🦕 \'\'\' """'
    study = dataclasses.replace(
        definition.load("minatar-targets", "gpu"),
        title=nasty,
        question=nasty,
        environments=("my_envs:Corridor", "atari/Pong"),
        overrides={"learning_rate": 1e-07, "v_max": float("inf"), "prioritised": False, "network": nasty},
        variants=(Variant("a.b", nasty, {"agent": "dqn", "tau": 1.0}),),
        figures=(),
        baseline="a.b",
    )
    assert definition.from_toml(definition.to_toml(study)) == study
    controls = nasty + "\r\x00\x1b[2J\x1f\x7f\x9b"
    assert files.from_toml(toml.dumps({"a": controls}), "here") == {"a": controls}
    for field in ("title", "question"):  # which a terminal would obey
        with pytest.raises(UserError, match=rf"^study.toml: {field} = .*\\x1b\[2J.*: has control characters$"):
            definition.from_toml(definition.to_toml(dataclasses.replace(study, **{field: controls})))


# Sweeps


SWEPT = """
environments = ["minatar/breakout"]
baseline = "hard"
[variants.hard]
[variants.trust]
label = "KL"
method = "value-proximal"
sweep = { kappa = [0.1, 1.0], target_period_updates = [50, 100] }
[sizes.smoke]
variants = ["hard", "trust.kappa-0.1.target_period_updates-100"]
"""


def test_a_sweep_is_a_variant_for_every_combination() -> None:
    found = definition.from_toml(SWEPT)
    assert [(v.name, v.label) for v in found.variants[1:]] == [
        (
            f"trust.kappa-{kappa}.target_period_updates-{period}",
            f"KL, kappa = {kappa}, target_period_updates = {period}",
        )
        for kappa in ("0.1", "1")
        for period in (50, 100)
    ]
    assert found.variants[2].changes == {"method": "value-proximal", "kappa": 0.1, "target_period_updates": 100}
    assert definition.from_toml(definition.to_toml(found)) == found
    smoke = definition.from_toml(SWEPT, "smoke")
    assert [v.name for v in smoke.variants] == ["hard", "trust.kappa-0.1.target_period_updates-100"]


@pytest.mark.parametrize("wrong", ["3", "{ kappa = 0.1 }", "{ kappa = [] }"])
def test_a_sweep_that_is_no_table_of_lists_is_one_clear_line(wrong: str) -> None:
    text = re.sub(r"sweep = .*", f"sweep = {wrong}", SWEPT)
    with pytest.raises(UserError, match=r"variants\.trust: sweep = .*: must be a table of lists"):
        definition.from_toml(text)


def test_a_study_has_at_most_ten_thousand_variants() -> None:
    swept = f"sweep = {{ kappa = {list(range(1, 101))}, tau = {list(range(1, 101))} }}"
    alone = f'environments = ["minatar/breakout"]\n[variants.a]\n{swept}\n'
    assert len(definition.from_toml(alone).variants) == definition.MOST_VARIANTS
    with pytest.raises(UserError, match=r"variants\.b: sweep: has more combinations than the 0 variants that may be"):
        definition.from_toml(f"{alone}[variants.b]\n{swept}\n")
    four = swept.replace(" }", f", n_steps = {list(range(100))}, batch_size = {list(range(100))} }}")
    with pytest.raises(UserError, match=r"variants\.a: sweep: has more combinations than the 10,000 "):
        definition.from_toml(alone.replace(swept, four))
    many = ", ".join(f"s{number} = {list(range(100))}" for number in range(3000))  # 6,000 digits of combinations
    with pytest.raises(UserError, match="has more combinations"):
        definition.from_toml(alone.replace(swept, f"sweep = {{ {many} }}"))


def test_a_sweep_over_what_is_no_setting_is_refused() -> None:
    with pytest.raises(UserError, match="unknown entry 'kapa', did you mean 'kappa'"):
        definition.from_toml(SWEPT.replace("kappa =", "kapa ="))
