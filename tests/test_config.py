"""Configuration: what each preset is, what is refused and how it is said, and that JSON gives back what it got."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from lookrep import config as configs
from lookrep.config import (
    AgentConfig,
    ExplorationConfig,
    LearningConfig,
    MethodConfig,
    NetworkConfig,
    ReplayConfig,
    RunConfig,
    TargetConfig,
)
from lookrep.errors import UserError


def complaint(error: pytest.ExceptionInfo[UserError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("agent", "head", "double", "n_steps", "prioritised", "dueling", "noisy", "epsilons"),
    [
        ("dqn", "dqn", False, 1, False, False, False, (1.0, 0.01)),
        ("double-dqn", "dqn", True, 1, False, False, False, (1.0, 0.01)),
        ("c51", "c51", False, 1, False, False, False, (1.0, 0.01)),
        ("qr-dqn", "qr", False, 1, False, False, False, (1.0, 0.01)),
        ("iqn", "iqn", False, 1, False, False, False, (1.0, 0.01)),
        ("rainbow", "c51", False, 3, True, False, False, (1.0, 0.01)),  # Dopamine's: neither double, dueling nor noisy
        ("full-rainbow", "c51", True, 3, True, True, True, (0.0, 0.0)),
    ],
)
def test_what_an_agents_name_stands_for(
    agent: str,
    head: str,
    double: bool,
    n_steps: int,
    prioritised: bool,
    dueling: bool,
    noisy: bool,
    epsilons: tuple[float, float],
) -> None:
    settings = configs.preset(agent)
    learning, network, exploration = settings.learning, settings.network, settings.exploration
    assert (learning.head, learning.double, learning.n_steps) == (head, double, n_steps)
    assert settings.replay.prioritised == prioritised
    assert (network.dueling, network.noisy) == (dueling, noisy)
    assert (exploration.epsilon_start, exploration.epsilon_end) == epsilons
    # All else is the same for all: a comparison of two agents compares what their names say.
    same = dataclasses.replace(
        settings,
        learning=dataclasses.replace(learning, head="dqn", double=False, n_steps=1),
        network=dataclasses.replace(network, dueling=False, noisy=False),
        replay=dataclasses.replace(settings.replay, prioritised=False),
        exploration=dataclasses.replace(exploration, epsilon_start=1.0, epsilon_end=0.01),
    )
    assert same == configs.preset("dqn")


@pytest.mark.parametrize(
    ("env", "step", "turn"), [("minatar/breakout", 2.5e-3, (125, 12)), ("atari/Breakout", 6.25e-4, (2000, 200))]
)
def test_our_replicate_takes_a_tenth_of_the_steps_but_ten_times_as_large(
    env: str, step: float, turn: tuple[int, int]
) -> None:
    ours, rainbow = configs.preset("rainbow-lr", env), configs.preset("rainbow", env)
    target = ours.target
    assert (target.target, target.replicate_batch_size) == ("replicate", 512)
    assert (target.target_period_updates, target.replicate_updates) == turn
    assert target.replicate_learning_rate == pytest.approx(step)
    assert dataclasses.replace(ours, target=rainbow.target) == rainbow


def test_the_list_of_agents_is_the_list_of_presets() -> None:
    assert len(configs.AGENTS) == 12
    for agent in configs.AGENTS:
        configs.preset(agent)
    with pytest.raises(UserError, match=r"agent 'rainbo' is unknown: did you mean 'rainbow'\?"):
        configs.preset("rainbo")
    with pytest.raises(UserError, match="agent 'sarsa' is unknown: choose from dqn, double-dqn"):
        configs.preset("sarsa")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_steps": 0}, "n_steps = 0: must be at least 1"),
        ({"batch_size": -3}, "batch_size = -3: must be at least 1"),
        ({"steps_per_update": 0}, "steps_per_update = 0: must be at least 1"),
        ({"atoms": 1}, "atoms = 1: must be at least 2"),
        ({"quantiles": 0}, "quantiles = 0: must be at least 1"),
        ({"discount": 1.1}, "discount = 1.1: must be between 0 and 1"),
        ({"discount": float("nan")}, "discount = nan: must be between 0 and 1"),
        ({"learning_rate": 0.0}, "learning_rate = 0.0: must be a positive number"),
        ({"learning_rate": float("inf")}, "learning_rate = inf: must be a positive number"),
        ({"adam_epsilon": -1.0}, "adam_epsilon = -1.0: must be a positive number"),
        ({"replicate_adam_epsilon": 0.0}, "replicate_adam_epsilon = 0.0: must be a positive number"),
        ({"v_min": 5.0, "v_max": 5.0}, "v_min = 5.0 must be below v_max = 5.0"),
        ({"v_max": float("inf")}, "v_max = inf: must be a finite number"),
        ({"v_min": float("-inf")}, "v_min = -inf: must be a finite number"),
        ({"replay_capacity_steps": 0}, "replay_capacity_steps = 0: must be at least 1"),
        ({"replay_capacity_steps": 1002}, "replay_capacity_steps = 1002: must be a multiple of steps_per_update = 4"),
        ({"replay_capacity_steps": 4, "n_steps": 3}, "replay_capacity_steps = 4: must be at least n_steps + steps_per"),
        ({"warmup_steps": 1002}, "warmup_steps = 1002: must be a multiple of steps_per_update = 4"),
        ({"warmup_steps": 0}, "warmup_steps = 0: at least n_steps + 1 = 2 are needed before anything can be sampled"),
        ({"epsilon_start": 1.5}, "epsilon_start = 1.5: must be between 0 and 1"),
        ({"epsilon_end": -0.5}, "epsilon_end = -0.5: must be between 0 and 1"),
        ({"epsilon_decay_steps": -1}, "epsilon_decay_steps = -1: must be at least 0"),
        ({"tau": 2.0}, "tau = 2.0: must be in (0, 1]"),
        ({"tau": 0.0}, "tau = 0.0: must be in (0, 1]"),
        ({"target_period_updates": 0}, "target_period_updates = 0: must be at least 1"),
        ({"polyak_period_updates": 0}, "polyak_period_updates = 0: must be at least 1"),
        ({"replicate_updates": 0}, "replicate_updates = 0: must be at least 1"),
        ({"replicate_batch_size": 0}, "replicate_batch_size = 0: must be at least 1"),
        ({"replicate_max_updates": 0}, "replicate_max_updates = 0: must be at least 1"),
        ({"replicate_learning_rate": 0.0}, "replicate_learning_rate = 0.0: must be a positive number"),
        ({"replicate_until_gap": -1.0}, "replicate_until_gap = -1.0: must be at least 0"),
        ({"target_period_growth": 0.5}, "target_period_growth = 0.5: must be a number of at least 1"),
        (
            {"target_period_growth": 2.0, "target_period_most_updates": 9},
            "target_period_most_updates = 9: must be",
        ),
        ({"kappa": -1.0}, "kappa = -1.0: must be a number of at least 0"),
        ({"averaged_networks": 0}, "averaged_networks = 0: must be from 1 to 100"),
        ({"averaged_networks": 2, "target": "polyak"}, "averaged_networks = 2: goes with --target hard or replicate"),
        ({"averaged_networks": 2, "target": "replicate", "replicate_start": "online"}, "cannot begin with a copy of"),
        ({"symmetric": True}, "takes gradient steps, --target hard does not"),
        (
            {"symmetric": True, "target": "replicate", "averaged_networks": 2},
            "symmetric: the target learns from rewards",
        ),
        ({"shared_trunk": True, "target": "replicate"}, "shared_trunk: goes with --target hard or polyak"),
        ({"shared_trunk": True, "reset_period_updates": 9}, "shared_trunk: a new online network cannot learn from"),
        ({"regulariser": "parameters", "averaged_networks": 2}, "regulariser = 'parameters': needs a target with"),
        ({"regulariser": "entropy"}, "regulariser = 'entropy': choose from none, values, function, parameters, churn"),
        ({"bootstrap": "targets"}, "bootstrap = 'targets': did you mean 'target'?"),
        ({"reset_period_updates": 0}, "reset_period_updates = 0: must be at least 1"),
        ({"agents": 0}, "agents = 0: must be at least 1"),
        ({"first_agent": -1}, "first_agent = -1: must be at least 0"),
        ({"seed": -1}, "seed = -1: must be at least 0"),
        ({"seed": 2**32}, "seed = 4294967296: must be below 4294967296"),  # to JAX it would be seed 0 again
        ({"first_agent": 2**32}, "first_agent = 4294967296: must be below 4294967296"),
        ({"steps": 2**31}, "steps = 2147483648: must be below 2147483648"),
        ({"epsilon_decay_steps": 10**10}, "epsilon_decay_steps = 10000000000: must be below 2147483648"),
        ({"steps": 5000}, "steps = 5000: all of it is warm-up (warmup_steps = 5000); nothing would be learned"),
        ({"steps": 9999}, "steps = 9999: must be a multiple of steps_per_update = 4"),
        ({"log_interval_steps": 10}, "log_interval_steps = 10: must be a multiple of steps_per_update = 4"),
        ({"checkpoint_interval_steps": -1}, "checkpoint_interval_steps = -1: must be at least 0"),
        ({"agents": 3, "devices": 2}, "agents = 3: must be a multiple of devices = 2"),
        ({"agent": "sarsa"}, "agent 'sarsa' is unknown"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_name(changes: dict[str, Any], words: str) -> None:
    groups = {
        "network": NetworkConfig,
        "learning": LearningConfig,
        "replay": ReplayConfig,
        "exploration": ExplorationConfig,
        "target": TargetConfig,
        "method": MethodConfig,
    }

    def of(kind: Any) -> dict[str, Any]:
        return {f.name: changes[f.name] for f in dataclasses.fields(kind) if f.name in changes}

    def build() -> RunConfig:
        settings = AgentConfig(**{name: kind(**of(kind)) for name, kind in groups.items()})
        return RunConfig("minatar/breakout", settings=settings, **of(RunConfig))

    with pytest.raises(UserError) as caught:
        build()
    assert words in complaint(caught)


# Presets at Atari's scale, and several games


def test_dopamines_rainbow_has_dopamines_values() -> None:
    # dopamine/jax/agents/rainbow/configs/rainbow.gin, in updates instead of agent steps where the names say so
    agent = configs.preset("dopamine-rainbow")
    learning, replay, target = agent.learning, agent.replay, agent.target
    assert (learning.head, learning.n_steps, learning.discount, learning.atoms) == ("c51", 3, 0.99, 51)
    assert (learning.v_min, learning.v_max, learning.double, learning.clip_rewards) == (-10.0, 10.0, False, True)
    assert (learning.learning_rate, learning.adam_epsilon, learning.batch_size) == (6.25e-5, 1.5e-4, 32)
    assert (replay.replay_capacity_steps, replay.warmup_steps, replay.prioritised) == (1_000_000, 20_000, True)
    assert (learning.steps_per_update, target.target, target.target_period_updates) == (4, "hard", 8_000 // 4)
    assert (agent.exploration.epsilon_end, agent.exploration.epsilon_decay_steps) == (0.01, 250_000)
    assert (agent.network.network, agent.network.dueling, agent.network.noisy) == ("nature:512", False, False)


def test_the_papers_lr_is_dopamines_rainbow_with_a_learned_target() -> None:
    rainbow, lr = configs.preset("dopamine-rainbow"), configs.preset("paper-lr")
    # The paper names no step size or batch for the target: the online network's.
    theirs = {
        "target": "replicate",
        "replicate_learning_rate": None,
        "replicate_batch_size": rainbow.learning.batch_size,
    }
    assert lr == dataclasses.replace(rainbow, target=dataclasses.replace(rainbow.target, **theirs))
    assert (lr.target.target_period_updates, lr.target.replicate_updates) == (2000, 200)
    assert lr.target.replicate_actions == "all"


@pytest.mark.parametrize("agent", [agent for agent in configs.AGENTS if agent not in ("paper-lr", "fork-lr")])
@pytest.mark.parametrize("env", ["minatar/breakout", "gym/CartPole-v1", "atari/Breakout"])
def test_elsewhere_replicate_takes_ten_times_the_online_networks_steps(agent: str, env: str) -> None:
    settings = configs.preset(agent, env)
    assert settings.target.replicate_learning_rate == pytest.approx(10 * settings.learning.learning_rate)


def test_an_agents_name_stands_for_the_suites_scale() -> None:
    assert configs.preset("rainbow", "atari/Breakout") == configs.preset("dopamine-rainbow")
    assert configs.preset("rainbow", "minatar/breakout") == configs.preset("rainbow")
    assert configs.from_json({"env": "atari/Pong"}).settings == configs.preset("dopamine-rainbow")


def test_agents_are_numbered_within_their_game() -> None:
    config = RunConfig("atari/Breakout,Freeway", agents=6, first_agent=4)
    assert config.games == ("atari/Breakout", "atari/Freeway")
    assert config.numbers == (4, 5, 6, 4, 5, 6)
    with pytest.raises(UserError, match=r"agents = 3: must be a multiple of the 2 games"):
        RunConfig("atari/Breakout,Freeway", agents=3)
    with pytest.raises(UserError, match=r"a game is named twice"):
        RunConfig("atari/Pong,Pong", agents=2)
    with pytest.raises(UserError, match=r"agents = 4: must be a multiple of groups = 3"):
        RunConfig("atari/Pong", agents=4, groups=3)


# JSON


def everything_changed() -> RunConfig:
    settings = AgentConfig(
        NetworkConfig("mlp:8", "mlp:16", dueling=True, noisy=True, layer_norm=True, precision="bf16"),
        LearningConfig(
            head="iqn",
            double=True,
            n_steps=5,
            clip_rewards=True,
            discount=0.9,
            batch_size=16,
            learning_rate=1e-3,
            adam_epsilon=1e-8,
            steps_per_update=2,
            updates_in_a_row=3,
            atoms=11,
            v_min=-1.0,
            v_max=1.0,
            quantiles=7,
            optimizer="opt:make",
        ),
        ReplayConfig(2000, 100, True, "host"),
        ExplorationConfig(0.9, 0.1, 10),
        TargetConfig(
            target="replicate",
            target_period_updates=7,
            target_period_growth=1.5,
            target_period_most_updates=99,
            tau=0.1,
            polyak_period_updates=3,
            replicate_updates=9,
            replicate_actions="one",
            replicate_batch_size=4,
            replicate_learning_rate=2e-3,
            replicate_adam_epsilon=1e-8,
            replicate_sampler="uniform",
            replicate_reset_optimizer=True,
            replicate_start="online",
            replicate_until_gap=0.5,
            replicate_max_updates=77,
            target_init="independent",
            replicate_optimizer="opt:make",
        ),
        MethodConfig("mine", "online", "function", 0.5, "reset", reset_period_updates=7, reset_updates=8),
    )
    return RunConfig("probes:Museum", "iqn", 4, 3, 2000, 5, 200, 400, 2, 1, 2, settings)


NOT_WITH_OTHERS = ("averaged_networks", "shared_trunk", "symmetric", "replicate_spread_updates", "atari")


def changed_fields(config: Any, default: Any) -> int:
    names = [f.name for f in dataclasses.fields(config) if f.name not in NOT_WITH_OTHERS]
    pairs = [(getattr(config, name), getattr(default, name)) for name in names]
    assert all(a != b for a, b in pairs)
    return sum(changed_fields(a, b) if dataclasses.is_dataclass(a) else 1 for a, b in pairs)


def test_json_gives_back_every_setting() -> None:
    config = everything_changed()
    assert changed_fields(config, RunConfig("", settings=AgentConfig())) == 64
    assert configs.from_json(json.loads(json.dumps(configs.to_json(config)))) == config


def test_whole_numbers_will_do_for_floats() -> None:
    data = configs.to_json(RunConfig("minatar/breakout"))
    data["settings"]["learning"]["v_max"] = 10
    loaded = configs.from_json(data)
    assert loaded.settings.learning.v_max == 10.0
    assert isinstance(loaded.settings.learning.v_max, float)


def test_1e6_is_a_whole_number() -> None:
    config = configs.from_flat({"env": "minatar/breakout", "steps": 1e6, "workers": 2.0, "discount": 1})
    assert (config.steps, config.workers, config.settings.learning.discount) == (1_000_000, 2, 1.0)
    assert isinstance(config.steps, int)


def test_what_a_file_leaves_out_is_what_its_agent_stands_for() -> None:
    assert configs.from_json({"env": "a:b", "agent": "iqn"}).settings == configs.preset("iqn")
    partly = configs.from_json({"env": "a:b", "agent": "full-rainbow", "settings": {"learning": {"batch_size": 7}}})
    preset = configs.preset("full-rainbow")
    assert partly.settings == dataclasses.replace(preset, learning=dataclasses.replace(preset.learning, batch_size=7))
    assert configs.from_json({"env": "a:b"}) == RunConfig("a:b", "rainbow", settings=configs.preset("rainbow"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("env"), "config: field 'env' is missing"),
        (lambda d: d.update(agnets=3), "config: unknown field 'agnets', did you mean 'agents'?"),
        (lambda d: d.update(agents="3"), "config: agents = '3': must be int"),
        (lambda d: d.update(agents=2.5), "config: agents = 2.5: must be int"),
        (lambda d: d.update(agents=True), "config: agents = True: must be int"),
        (lambda d: d.update(agents=None), "config: agents = None: must be int"),
        (lambda d: d.update(agent="rainbo"), "agent 'rainbo' is unknown: did you mean 'rainbow'?"),
        (lambda d: d.update(agent=3), "config: agent = 3: must be str"),
        (lambda d: d.update(settings=[]), "config: settings: expected an object, got []"),
        (lambda d: d["settings"].update(target="hard"), "config: settings: target: expected an object, got 'hard'"),
        (lambda d: d["settings"]["target"].update(target="soft"), "target = 'soft': choose from hard, polyak"),
        (lambda d: d["settings"]["target"].update(target=[]), "target = []: must be str"),
        (lambda d: d["settings"]["target"].update(tau=2), "tau = 2.0: must be in (0, 1]"),
        (lambda d: d["settings"]["learning"].update(double=1), "double = 1: must be bool"),
        (lambda d: d["settings"]["learning"].update(discount="high"), "discount = 'high': must be float"),
    ],
)
def test_a_wrong_file_is_refused_with_the_field_and_what_would_be_right(change: Any, words: str) -> None:
    data = configs.to_json(RunConfig("minatar/breakout"))
    change(data)
    with pytest.raises(UserError) as caught:
        configs.from_json(data)
    assert words in complaint(caught)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not readable as JSON"),
        (b"[1]", "must hold one JSON object"),
        (b"\xff\xfe", "not readable as JSON"),
        (b"", "not readable as JSON"),
        (None, "no such file"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_with_its_name(
    content: bytes | None, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError) as caught:
        configs.load(file)
    assert str(file) in complaint(caught)
    assert words in complaint(caught)


def test_a_run_folder_stands_for_the_configuration_in_it(tmp_path: Path) -> None:
    config = everything_changed()
    (tmp_path / "config.json").write_text(json.dumps(configs.to_json(config) | {"versions": {"jax": "1"}}))
    assert configs.load(tmp_path) == configs.load(tmp_path / "config.json") == config


def test_what_runs_in_one_program_share_does_not_depend_on_how_environments_on_the_host_are_grouped() -> None:
    run = RunConfig("my_envs:Corridor", agents=4, groups=2, workers=3)
    assert configs.shared(run) == configs.shared(RunConfig("my_envs:Corridor", agents=6))


def test_settings_that_are_left_out_are_what_the_agent_stands_for() -> None:
    assert RunConfig("minatar/breakout", agent="dqn").settings == configs.preset("dqn")
    assert RunConfig("atari/Pong", agent="rainbow").settings == configs.preset("rainbow", "atari/Pong")


def test_ones_own_parts_are_named_by_module_and_a_misspelt_one_of_ours_is_refused() -> None:
    assert LearningConfig(head="my_heads:head").head == "my_heads:head"
    with pytest.raises(UserError, match=r"head = 'c52': did you mean 'c51'\?"):
        AgentConfig(learning=LearningConfig(head="c52"))
    with pytest.raises(UserError, match=r"optimizer = 'sgd': choose from adam, or write my_module:thing"):
        AgentConfig(learning=LearningConfig(optimizer="sgd"))


def test_runs_that_differ_in_numbers_and_targets_alone_share_a_program() -> None:
    one = RunConfig("minatar/breakout", agent="rainbow")
    numbers = dataclasses.replace(one.settings.learning, learning_rate=1e-3, adam_epsilon=1e-8, discount=0.9)
    target = TargetConfig("replicate", replicate_updates=7)
    other = configs.replace(one, settings=dataclasses.replace(one.settings, learning=numbers, target=target))
    assert configs.shared(one) == configs.shared(other)
    deeper = dataclasses.replace(one.settings, learning=dataclasses.replace(one.settings.learning, n_steps=5))
    assert configs.shared(one) != configs.shared(configs.replace(one, settings=deeper))


@pytest.mark.parametrize("spread", [3, 250])
def test_turns_that_are_spread_share_code_whatever_their_steps(spread: int) -> None:
    """The default number of steps is no multiple of these."""
    once, twice = (
        configs.from_flat(
            {"env": "minatar/breakout", "target": "replicate", "replicate_updates": steps}
            | {"replicate_spread_updates": spread},
            "test",
        )
        for steps in (spread, 2 * spread)
    )
    assert once.settings.target.replicate_updates == spread
    assert configs.target_code(once) == configs.target_code(twice)
    assert configs.shared(once) == configs.shared(twice)
