"""What methods are as settings: how they add up, what is given beside them, and what goes with what."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from lookrep import config as configs
from lookrep import methods
from lookrep.cli import train
from lookrep.cli.parsing import parse
from lookrep.errors import UserError
from lookrep.studies import definition


def test_methods_add_up_and_contradictions_are_told() -> None:
    both = methods.named("minto+dqn-pro")
    assert (both.name, configs.preset("dqn", method=both).method.bootstrap) == ("minto+dqn-pro", "smaller")
    assert configs.preset("dqn", method=both).method.kappa == 5.0
    with pytest.raises(UserError, match="one sets replicate_updates = what follows from other settings, the other 1"):
        methods.named("paper-replicate+asymmetric")
    with pytest.raises(UserError, match=r"one sets bootstrap = 'smaller', the other 'online'"):
        methods.named("minto+functional")
    with pytest.raises(UserError, match=r"method 'mint' is unknown: did you mean 'minto'\?"):
        methods.named("mint")
    with pytest.raises(UserError, match=r"method 'own' sets target\.taux, which is no setting"):
        configs.preset("dqn", method=methods.Method("own", {"target": {"taux": 1.0}}))
    with pytest.raises(UserError, match=r"must be a name, or a method from lookrep\.methods"):
        configs.from_flat({"env": "minatar/breakout", "method": 3})


def test_flags_come_on_top_of_a_method_which_comes_on_top_of_a_preset() -> None:
    flat = {"env": "atari/Pong", "agent": "rainbow", "method": "paper-replicate", "replicate_batch_size": 7}
    config = configs.from_flat(flat)
    target, learning = config.settings.target, config.settings.learning
    assert (target.target, target.target_period_updates, target.replicate_updates) == ("replicate", 2_000, 200)
    assert (target.replicate_learning_rate, target.replicate_batch_size) == (learning.learning_rate, 7)
    assert config.settings.method.method == "paper-replicate"
    assert configs.from_json(configs.to_json(config)) == config
    # A file, or a variant of a study, that names a method and leaves out the rest.
    partly = {"env": "atari/Pong", "settings": {"method": {"method": "minto", "kappa": 2.0}}}
    found = configs.from_json(partly).settings.method
    assert (found.bootstrap, found.kappa) == ("smaller", 2.0)
    with pytest.raises(UserError, match=r"method 'mint' is unknown: did you mean 'minto'\?"):
        configs.from_json({"env": "atari/Pong", "settings": {"method": {"method": "mint"}}})
    own = configs.from_flat({"env": "atari/Pong", "method": methods.Method("mint", {"method": {"kappa": 3.0}})})
    assert configs.from_json(configs.to_json(own)) == own


def test_the_pages_agree_on_how_many_methods_there_are() -> None:
    root = Path(__file__).parents[2]
    for page in ("README.md", "CHANGELOG.md"):
        text = " ".join((root / page).read_text().split())
        assert re.findall(r"(\w+) ways to stabilise bootstrapping", text) == ["19"], page
    compared = {variant.name for variant in definition.load("minatar-methods", "full").variants}
    assert compared == set(methods.names()) - {"plain", "frozen", "recipe"}
    studies = (root / "docs/studies.md").read_text()
    assert f"which of nineteen methods (all {len(methods.names())} but" in studies
    assert len(compared) == 19


FOLLOWING = {"learning_rate": 1e-3, "batch_size": 64, "target_period_updates": 500, "discount": 0.9}


@pytest.mark.parametrize(
    ("method", "numbers"),
    [
        ("asymmetric", {"replicate_learning_rate": 1e-3, "replicate_batch_size": 64, "target_period_updates": 500}),
        ("symmetric", {"replicate_learning_rate": 1e-3, "replicate_batch_size": 64, "target_period_updates": 500}),
        ("paper-replicate", {"replicate_learning_rate": 1e-3, "replicate_batch_size": 64, "replicate_updates": 50}),
        ("recipe", {"replicate_learning_rate": 1e-2, "replicate_batch_size": 512, "replicate_updates": 50}),
    ],
)
def test_what_a_method_derives_from_settings_follows_those_given_beside_it(
    method: str, numbers: dict[str, Any], tmp_path: Path
) -> None:
    groups = configs.setting_groups()
    data: dict[str, Any] = {"env": "minatar/breakout", "settings": {"method": {"method": method}}}
    for name, value in FOLLOWING.items():
        data["settings"].setdefault(groups[name], {})[name] = value
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"env": "minatar/breakout", "settings": {"method": {"method": method}}}))
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in FOLLOWING.items()]
    found = [
        configs.from_flat({"env": "minatar/breakout", "method": method, **FOLLOWING}),
        configs.from_flat({"env": "minatar/breakout", "method": methods.named(method), **FOLLOWING}),
        configs.from_json(data),
        typed("--env=minatar/breakout", f"--method={method}", *flags),
        typed(f"--config={file}", *flags),
        typed(f"--config={file}", f"--method={method}", *flags),
    ]
    for config in found:
        assert {name: getattr(config.settings.target, name) for name in numbers} == numbers
        assert config.settings == found[0].settings
    own = {"replicate_learning_rate": 7.0, "replicate_batch_size": 7, "replicate_updates": 7}
    for config in (
        configs.from_flat({"env": "minatar/breakout", "method": method, **FOLLOWING, **own}),
        typed("--env=minatar/breakout", f"--method={method}", *flags, *(f"--{n.replace('_', '-')}=7" for n in own)),
    ):
        assert {name: getattr(config.settings.target, name) for name in own} == own


def typed(*words: str) -> configs.RunConfig:
    start = train.Arguments(run=train._base(list(words)))
    return parse(train.Arguments, words, "lookrep train", default=start, flat=True).run


def test_growing_periods_grow_by_the_discount_of_the_run() -> None:
    def growth(**given: Any) -> float:
        return configs.from_flat({"env": "a:b", "method": "growing", **given}).settings.target.target_period_growth

    assert (growth(), growth(discount=0.9)) == (0.99 ** (-2 / 3), 0.9 ** (-2 / 3))
    assert growth(discount=1.0, target_period_growth=1.5) == 1.5
    for discount in (0.0, 1.0, 1.5):
        with pytest.raises(UserError, match=rf"^method 'growing': .* discount = {discount} must be between 0 and 1$"):
            growth(discount=discount)


def test_a_wrong_number_is_named_and_not_what_follows_from_it() -> None:
    for given, words in (({"learning_rate": -1.0}, r"^learning_rate = -1\.0"), ({"batch_size": 0}, "^batch_size = 0")):
        with pytest.raises(UserError, match=words):
            configs.from_flat({"env": "minatar/breakout", "method": "paper-replicate", **given})
    with pytest.raises(UserError, match="learning_rate = 'fast': must be float"):
        configs.from_flat({"env": "minatar/breakout", "method": "paper-replicate", "learning_rate": "fast"})


@pytest.mark.parametrize("name", methods.names())
def test_every_method_says_what_it_does_and_goes_into_a_program_with_others_of_its_parts(name: str) -> None:
    assert (methods.BUILDERS[name].__doc__ or "").strip()
    runs = [configs.RunConfig("probes:Museum", settings=configs.preset("dqn", method=n)) for n in (name, "hard")]
    parts = [dataclasses.replace(run.settings.method, method="", kappa=0.0) for run in runs]
    alike = [run.settings.network for run in runs]
    assert (configs.shared(runs[0]) == configs.shared(runs[1])) == (parts[0] == parts[1] and alike[0] == alike[1])


@pytest.mark.parametrize("bootstrap", ["minto", "functional", "no-target"])
def test_networks_that_bootstrap_from_each_other_read_nothing_else(bootstrap: str) -> None:
    with pytest.raises(UserError, match=r"^(symmetric: each network bootstraps from the other|methods .* one sets)"):
        configs.from_flat({"env": "a:b", "agent": "dqn", "method": f"{bootstrap}+symmetric"})


@pytest.mark.parametrize("optimiser", ["reset-optimizer", "relative-adam"])
def test_an_optimiser_that_begins_anew_at_turns_needs_some_that_are_apart(optimiser: str) -> None:
    def read(rule: str, **given: Any) -> configs.RunConfig:
        return configs.from_flat({"env": "a:b", "agent": "dqn", "method": f"{rule}+{optimiser}", **given})

    for rule, words in (
        ("frozen", "--target frozen never has a turn"),
        ("polyak", "needs turns further apart than polyak_period_updates = 1"),
        ("asymmetric", "needs turns further apart than target_period_updates = 1"),
        ("symmetric", "needs turns further apart than target_period_updates = 1"),
    ):
        with pytest.raises(UserError, match=f"^optimizer_at_turn = '[a-z]+': {words}"):
            read(rule)
    read("polyak", polyak_period_updates=10)
    read("asymmetric", target_period_updates=10)
    read("growing", target_period_updates=1)
    read("hard", polyak_period_updates=1)
