"""Plans: every member in exactly one population, none larger than memory allows, at a cost known beforehand."""

import math
import re
from pathlib import Path
from typing import Any

import jax
import pytest

from lookrep import config as configs
from lookrep import envs
from lookrep.cli import train
from lookrep.cli.parsing import parse
from lookrep.config import RunConfig
from lookrep.envs.names import MINATAR_CHANNELS
from lookrep.errors import UserError
from lookrep.studies import cost, definition, exact_study, hardware, plan
from lookrep.studies.definition import Study
from lookrep.studies.execute import run as execute
from lookrep.studies.execute.run import Options
from lookrep.studies.hardware import GIGABYTE
from lookrep.studies.plan import MemberKey, PlannedPopulation
from lookrep.training.engines import make_engine


def everyone(study: Study) -> list[MemberKey]:
    return [
        MemberKey(env, variant.name, seed)
        for env in study.environments
        for variant in study.variants
        for seed in range(study.seeds)
    ]


# Packing


@pytest.mark.parametrize("gigabytes", [7.2, 20, 40, 111.2, math.inf])
@pytest.mark.parametrize("name", [name for name in definition.names() if name != "exact"])
def test_every_member_is_in_exactly_one_population_that_fits(name: str, gigabytes: float) -> None:
    study = definition.load(name, "full")
    found = plan.populations(study, gigabytes * GIGABYTE)
    assert sorted(key for population in found for key in population.members) == sorted(everyone(study))
    assert sum(population.agents for population in found) == len(everyone(study))
    assert max(cost.memory_bytes(plan.workload(study, p)) for p in found) <= gigabytes * GIGABYTE
    assert len({population.id for population in found}) == len(found)


def test_seeds_of_a_minatar_game_are_one_population_and_games_are_apart() -> None:
    study = definition.load("minatar-targets", "gpu")
    found = plan.populations(study, hardware.H200.usable_bytes)
    assert {population.agents for population in found} == {20}
    assert len(found) == 5 * 5
    assert [p.id for p in found[:6]] == [
        "minatar_breakout--hard--0-19", "minatar_breakout--polyak--0-19", "minatar_breakout--replicate-all--0-19",
        "minatar_breakout--replicate-one--0-19", "minatar_breakout--recipe--0-19", "minatar_asterix--hard--0-19",
    ]  # fmt: skip


def test_atari_games_share_a_population_with_all_their_seeds() -> None:
    study = definition.load("paper-55", "full")
    found = plan.populations(study, hardware.H200.usable_bytes)
    # A million frames of 84 × 84 bytes are 7.1 GB: 15 agents in four fifths of 139 GB, three games with five seeds.
    assert {p.seeds for p in found} == {5}
    assert {len(p.environments) for p in found} == {2, 3}
    assert len(found) == 2 * 19
    first = found[0]
    assert first.agents == 5 * len(first.environments)
    assert first.env == "atari/" + ",".join(env.removeprefix("atari/") for env in first.environments)


def test_seeds_are_split_evenly_where_not_all_fit() -> None:
    study = definition.load("paper-55", "full")
    found = plan.populations(definition.narrow(study, environments=["Pong"], variants=["lr"], seeds=7), 22 * GIGABYTE)
    assert [(p.first_seed, p.seeds) for p in found] == [(0, 2), (2, 2), (4, 3)]
    assert found[-1].id == "atari_Pong--lr--4-6"


def test_one_agent_that_does_not_fit_is_an_error_with_its_size() -> None:
    with pytest.raises(UserError, match=r"one agent on atari/Alien needs 7\.17 GB, and 4\.00 GB can be used"):
        plan.populations(definition.load("paper-55", "full"), 4 * GIGABYTE)


def test_what_is_done_is_not_planned_again() -> None:
    study = definition.narrow(definition.load("minatar-targets", "gpu"), environments=["breakout"], variants=["hard"])
    done = PlannedPopulation(("minatar/breakout",), "hard", 5, 10).members
    found = plan.populations(study, math.inf, done)
    assert [(p.first_seed, p.seeds) for p in found] == [(0, 5), (15, 5)]
    assert plan.populations(study, math.inf, everyone(study)) == ()


# Several in one program


def test_variants_that_differ_in_the_target_alone_are_bundled_as_far_as_agents_and_memory_go() -> None:
    runs = {
        f"{env}-{target}-{network}": configs.from_json(
            {"env": env, "agents": 10, "settings": {"target": {"target": target}, "network": {"network": network}}}
        )
        for env in ("minatar/breakout", "minatar/freeway")
        for target in ("hard", "polyak", "replicate")
        for network in ("mlp:8", "mlp:9")
    }  # fmt: skip
    start = dict.fromkeys(runs, 0)
    alike = [
        tuple(f"{env}-{target}-{network}" for target in ("hard", "polyak", "replicate"))
        for env in ("minatar/breakout", "minatar/freeway")
        for network in ("mlp:8", "mlp:9")
    ]
    assert plan.bundles(runs, start, 30, math.inf) == alike
    assert plan.bundles(runs, start, 29, math.inf) == sorted(
        [names[:2] for names in alike] + [names[2:] for names in alike], key=lambda names: list(runs).index(names[0])
    )
    freeway = {name: run for name, run in runs.items() if run.env == "minatar/freeway"}
    two = 30 * cost.agent_bytes("minatar/freeway", 100_000)  # and room for a copy of one of them
    assert max(map(len, plan.bundles(freeway, start, 1000, two))) == 2
    for alone in (plan.bundles(runs, start, 0, math.inf), plan.bundles(runs, start, 1000, 0)):
        assert alone == [(name,) for name in runs]
    assert plan.bundles(runs, start, 1000, math.inf, apart=runs) == [(name,) for name in runs]
    # Those at another step go on by themselves.
    found = plan.bundles(runs, start | {alike[0][1]: 500}, 30, math.inf)
    assert found[0] == (alike[0][0], alike[0][2])
    assert (alike[0][1],) in found


def test_on_a_gpu_25_variants_of_20_seeds_are_one_program_by_default() -> None:
    study = definition.from_toml(
        'name = "grid"\nenvironments = ["minatar/breakout"]\nsteps = 8000\nseeds = 20\n'
        "[variants.step]\nsweep = { learning_rate = [1e-4, 2e-4, 5e-4, 1e-3, 2e-3] }\n"
        '[variants.polyak]\ntarget = "polyak"\nsweep = { tau = [0.01, 0.02, 0.05, 0.1, 0.2] }\n'
        '[variants.replicate]\ntarget = "replicate"\n'
        "sweep = { replicate_updates = [10, 25, 50, 100, 250], kappa = [0.5, 1.0, 2.0] }\n"
    )
    found = plan.populations(study, hardware.H200.usable_bytes)
    runs = {p.id: plan.run_config(study, p) for p in found}
    together = Options().together_agents(hardware.H200)
    assert len(runs) == 25
    bundles = plan.bundles(runs, dict.fromkeys(runs, 0), together, hardware.H200.usable_bytes)
    assert list(map(len, bundles)) == [25]


def test_environments_on_the_host_are_never_bundled() -> None:
    for env in ("atari/Pong", "gym/CartPole-v1"):
        runs = {str(seed): RunConfig(env, seed=seed) for seed in range(2)}
        assert plan.bundles(runs, dict.fromkeys(runs, 0), 1000, math.inf) == [("0",), ("1",)]


# Configurations


def test_a_population_is_configured_as_lookrep_train_would_be() -> None:
    study = definition.narrow(definition.load("minatar-targets", "gpu"), environments=["freeway"])
    population = next(p for p in plan.populations(study, math.inf) if p.variant == "replicate-one")
    flags = [
        "--env=minatar/freeway", "--agent=rainbow", "--agents=20", "--steps=5120000", "--log-interval-steps=51200",
        "--target=replicate", "--checkpoint-interval-steps=0", "--replicate-actions=one",
        "--target-period-updates=125", "--replicate-updates=12", "--replicate-learning-rate=0.00025",
        "--precision=bf16",
    ]  # fmt: skip
    start = train.Arguments(run=RunConfig(env="", settings=configs.preset("rainbow")))
    expected = parse(train.Arguments, flags, "lookrep train", default=start, flat=True).run
    assert plan.run_config(study, population) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("tau = 2.0", "study own, variant a: tau = 2.0: must be in (0, 1]"),
        ('tau = "much"', "study own, variant a: target: tau = 'much': must be float"),
        ('target = "soft"', "target = 'soft': choose from hard, polyak, replicate, frozen"),
        ("warmup_steps = 4002", "warmup_steps = 4002: must be a multiple of steps_per_update = 4"),
        ("warmup_steps = 8000", "steps = 8000: all of it is warm-up"),
        ('checkpoint_interval_steps = "x"', "study own, variant a: checkpoint_interval_steps = 'x': must be int"),
        ("checkpoint_interval_steps = -1", "checkpoint_interval_steps = -1: must be at least 0"),
    ],
)
def test_a_setting_that_cannot_be_is_found_by_the_plan(change: str, expected: str) -> None:
    study = definition.from_toml(
        f'name = "own"\nenvironments = ["minatar/breakout"]\nsteps = 8000\n[variants.a]\n{change}\n'
    )
    with pytest.raises(UserError) as refused:
        plan.populations(study, math.inf)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ("minatar/brekout", "environment 'minatar/brekout' is unknown: did you mean minatar/breakout?"),
        ("Pong", "environment 'Pong' is unknown: did you mean atari/Pong?"),
    ],
)
def test_an_environment_that_is_not_there_is_found_by_the_plan(env: str, expected: str) -> None:
    study = definition.from_toml(f'name = "own"\nenvironments = ["{env}"]\nsteps = 8000\n[variants.a]\n')
    with pytest.raises(UserError) as refused:
        plan.populations(study, math.inf)
    assert expected in str(refused.value)


def test_a_study_says_how_often_it_saves_unless_it_shall_not_save(tmp_path: Path) -> None:
    text = 'environments = ["minatar/breakout"]\nsteps = 8000\n[variants.usual]\n[variants.own]\n'
    study = definition.from_toml(f"{text}checkpoint_interval_steps = 4000\n")
    found = {}
    for checkpoints in (True, False):
        _, jobs = execute.work(study, tmp_path / "out", Options(checkpoints=checkpoints), hardware.H200)
        made = {name: config for job in jobs for name, config in job.populations.items()}
        for name, config in made.items():
            found[checkpoints, name.split("--")[1]] = config["checkpoint_interval_steps"]
    assert found[True, "own"] == 4000
    assert found[True, "usual"] > 8000  # minutes
    assert found[False, "own"] == found[False, "usual"] == 0


@pytest.mark.parametrize(("kind", "env"), [("training", "minatar/breakout"), ("exact", "two-state")])
def test_a_name_that_no_file_can_have_is_refused_before_there_are_files(kind: str, env: str, tmp_path: Path) -> None:
    study = definition.from_toml(
        f'name = "own"\nkind = "{kind}"\nenvironments = ["{env}"]\nsteps = 8000\n[variants.{"a" * 300}]\n'
    )
    run = exact_study.run if kind == "exact" else execute.run
    options = () if kind == "exact" else (Options(),)
    with pytest.raises(UserError, match=r"^study own: '.*….*' would be the name of a file, and has 3.. letters"):
        run(study, tmp_path / "out", *options, "lookrep study run")  # type: ignore[operator]
    assert not (tmp_path / "out").exists()


def test_an_environment_with_a_name_that_no_file_can_have_is_refused() -> None:
    text = f'environments = ["gym/{"x" * 300}"]\nsteps = 8000\n[variants.a]\n'
    with pytest.raises(UserError, match=r"'gym_xxx.*' would be the name of a file"):
        plan.populations(definition.from_toml(text), math.inf)


def test_ten_thousand_seeds_that_share_nothing_are_planned_in_seconds() -> None:
    study = definition.narrow(definition.load("minatar-targets", "laptop"), variants=["hard"], seeds=10_000)
    work = plan.workload(study, PlannedPopulation((study.environments[0],), "hard", 0, 1))
    found = plan.populations(study, 1.5 * cost.agent_bytes(study.environments[0], work.replay_capacity_steps))
    assert len(found) == 10_000 * len(study.environments)


def test_a_population_is_known_again_from_its_folder(tmp_path: Path) -> None:
    run = tmp_path / "populations" / "atari_Pong_and_1_more--lr--5-9"
    run.mkdir(parents=True)
    (run / "config.json").write_text('{"env": "atari/Pong,Alien", "agents": 10, "first_agent": 5, "steps": 4}')
    found = plan.existing(tmp_path)
    assert found == {run.name: PlannedPopulation(("atari/Pong", "atari/Alien"), "lr", 5, 5)}
    assert found[run.name].id == run.name


@pytest.mark.parametrize("name", [name for name in definition.names() if name != "exact"])
def test_every_variant_can_be_compared_with_others_that_might_share_its_program(name: str) -> None:
    for size in definition.SIZES:
        study = definition.load(name, size)
        for population in plan.populations(study, math.inf):
            config = plan.run_config(study, population)
            assert configs.target_code(config).target == config.settings.target.target
            if len(config.games) == 1:  # others have a program to themselves
                assert configs.shared(config).env == config.env


# Cost


def test_games_and_their_sizes_are_those_of_the_environments() -> None:
    assert {f"minatar/{game}" for game in MINATAR_CHANNELS} == set(envs.names.MINATAR)
    for game, channels in MINATAR_CHANNELS.items():
        assert envs.make(f"minatar/{game}").observation_shape == (10, 10, channels)


@pytest.mark.parametrize("game", MINATAR_CHANNELS)
def test_memory_of_a_minatar_agent_is_what_the_engine_really_holds(game: str) -> None:
    study = definition.narrow(
        definition.load("minatar-targets", "gpu"), environments=[game], variants=["replicate-all"], seeds=3
    )
    (population,) = plan.populations(study, math.inf)
    shapes = make_engine(plan.run_config(study, population)).shapes()
    held = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    assert cost.memory_bytes(plan.workload(study, population)) == pytest.approx(held, rel=0.1)


PAGE, NOTES = (
    " ".join((Path(__file__).parents[2] / "docs" / name).read_text().split())
    for name in ("performance.md", "notes/speed-minatar.md")
)


def last_number(text: str) -> float:
    """
    >>> last_number("| 512 | breakout | 1.475 M |"), last_number("| 1 000 000 | **996**")
    (1475000.0, 996.0)
    """
    number, unit = re.findall(r"(\d+(?: \d{3})*(?:\.\d+)?)(?: (k|M|million)\b)?", text)[-1]
    return round(float(number.replace(" ", "")) * {"": 1, "k": 1e3}.get(unit, 1e6), 3)


@pytest.mark.parametrize("row", [*cost.TABLE["speeds"], cost.TABLE["replicate"]], ids=lambda row: row["on_page"])
def test_every_measured_number_stands_on_the_performance_page(row: dict[str, Any]) -> None:
    assert row["on_page"] in PAGE
    assert last_number(row["on_page"]) == row.get("steps_per_second", row.get("times"))


def test_replicate_slows_a_population_down_as_the_table_of_the_notes_has_it() -> None:
    hard, replicate = (
        last_number(re.findall(rf"\| 512 \| c51 \| {target}[^|]*\| bfloat16 \| breakout \|[^|]*\|", NOTES)[0])
        for target in ("hard", "replicate, K_R/K_L = 0.1")
    )
    ratio = [cost.seconds(cost.Workload(("minatar/breakout",), 512, 10**9, 1, r, 10**6), "gpu") for r in (0.0, 0.1)]
    assert ratio[1] / ratio[0] == pytest.approx(hard / replicate, abs=0.002)


def test_more_agents_are_never_slower_in_all() -> None:
    speeds = [cost.speed("minatar", "gpu", n) for n in range(1, 600)]
    assert speeds == sorted(speeds)


def test_an_interruption_costs_minutes_but_saving_never_much_of_the_time() -> None:
    small = cost.Workload(("minatar/breakout",), 20, 5_000_000, 100_000, 0.1, 50_000)
    per_agent = cost.speed("minatar", "gpu", 20) / 20
    every = cost.checkpoint_interval_steps(small, "gpu")
    assert every % 50_000 == 0
    assert every / per_agent <= 180
    large = cost.Workload(("my_envs:Corridor",), 512, 50_000_000, 1_000_000, 0.1, 1_000)
    seconds = cost.checkpoint_interval_steps(large, "gpu") / (cost.speed("own", "gpu", 512) / 512)
    assert seconds > 517 / 0.05  # 517 GB, at a GB a second, at most every twentieth second


def test_a_checkpoint_on_atari_does_not_wait_for_seven_gigabytes_an_agent() -> None:
    """Frames are on disk already; what is left are networks and ten bytes a step."""
    work = cost.Workload(("atari/Pong",), 15, 50_000_000, 1_000_000, 0.1, 1_000)
    per_agent = cost.speed("atari", "gpu", 15) / 15
    assert cost.checkpoint_interval_steps(work, "gpu") / per_agent == pytest.approx(180, abs=3)
    gigabytes = cost.disk_under_way_bytes(work) / 1e9
    assert 7 < gigabytes < 12  # two of 1.7, and 106 of frames, which shrink at least 15-fold


def test_the_hours_in_the_cluster_guide_are_the_models() -> None:
    guide = (Path(__file__).parents[2] / "docs/cluster.md").read_text()
    table = re.findall(r"^\| `([\w-]+)` \| (?:≈ )?([\d.]+) \| (?:≈ )?([\d.]+) \|$", guide, re.MULTILINE)
    assert {name for name, _, _ in table} == set(definition.names()) - {"exact"}
    for name, one, eight in table:
        study = definition.load(name, "full")
        found = plan.populations(study, hardware.H200.usable_bytes)
        hours = [cost.seconds(plan.workload(study, population), "gpu") / 3600 for population in found]
        busy = [0.0] * 8
        for needed in hours:  # each takes the GPU that is free first
            busy[busy.index(min(busy))] += needed
        assert float(one) == pytest.approx(sum(hours), rel=0.03)
        assert float(eight) == pytest.approx(max(busy), rel=0.08)


def test_the_hardware_of_this_machine_is_found_without_holding_it() -> None:
    here = hardware.detect()
    assert here.cores >= 1
    assert 0 < here.usable_bytes < here.memory_bytes
