"""Problem files: what is right loads, and what is wrong is one line that names the field."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lookrep.errors import UserError
from lookrep.exact import certify, solve_sampled, true_value
from lookrep.exact.builtin import BUILDERS, SETTINGS
from lookrep.exact.naming import named_problem
from lookrep.exact.problem_file import load
from lookrep.exact.problems import same_class
from lookrep.exact.solution import solution

EXAMPLES = Path(__file__).parents[2] / "examples" / "problems"
GOOD = """
transition = [[0.6, 0.4], [0.2, 0.8]]
reward = [1, 1]
discount = 0.5
features_online = [[1, 2], [2, 1]]
features_target = [[1, 2, 1], [1, 1, 2]]
weighting = [0.25, 0.75]
online_init = [0.3, 0.6]
target_init = [1.2, 0.0, 0.3]
[solver]
outer_iterations = 10
lookahead_updates = 4
replicate_updates = 2
lookahead_step_size = 0.1
replicate_step_size = [0.1, 0.05]
"""


CONTROL = """
transition = [[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]
reward = [[1, 2], [3, 4]]
discount = 0.5
policy = [[0.25, 0.75], [1, 0]]
weighting = [0.25, 0.75]
features_online = [[1, 0], [0, 1]]
features_target = [[1, 0], [0, 1]]
"""
OWN = """
transition = [[0.6, 0.4], [0.2, 0.8]]
reward = [1, 1]
discount = 0.5
value_online = "values_of_a_test:cubes"
value_target = "values_of_a_test:cubes"
online_init = [1.0, 2.0]
target_init = [0.5, 0.5]
[solver]
lookahead_step_size = 0.01
replicate_step_size = 0.01
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "problem.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_field_arrives(tmp_path: Path) -> None:
    task, settings = load(write(tmp_path, GOOD))
    np.testing.assert_array_equal(task.process.transition, [[0.6, 0.4], [0.2, 0.8]])
    np.testing.assert_array_equal(task.weighting, [0.25, 0.75])
    np.testing.assert_array_equal(task.target.features, [[1, 2, 1], [1, 1, 2]])
    np.testing.assert_array_equal(task.online_init, [0.3, 0.6])
    np.testing.assert_array_equal(task.target_init, [1.2, 0.0, 0.3])
    assert (settings.outer_iterations, settings.lookahead_updates, settings.replicate_updates) == (10, 4, 2)
    assert settings.lookahead_step_size == 0.1
    assert settings.replicate_step_size == (0.1, 0.05)


def test_optional_fields_default_to_the_stationary_weighting_and_zero_starts(tmp_path: Path) -> None:
    lines = [line for line in GOOD.splitlines() if not line.startswith(("weighting", "online_init", "target_init"))]
    task, settings = load(write(tmp_path, "\n".join(lines[: lines.index("[solver]")])))
    np.testing.assert_allclose(task.weighting, [1 / 3, 2 / 3])
    np.testing.assert_array_equal(task.target_init, [0, 0, 0])
    assert settings.lookahead_step_size == "auto"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_the_sample_files_are_solved(path: Path) -> None:
    found = solution(str(path), {})
    assert found.settings.outer_iterations >= 300
    if path.name in ("machine.toml", "own_function.toml"):
        assert found.certificate is None
        assert found.membership.value
        np.testing.assert_allclose(found.trace.value_target[-1], found.truth, atol=1e-6)
    else:
        assert found.certificate is not None
        assert found.certificate.converges
        near = 0.1 if found.settings.batch_size else 1e-6
        np.testing.assert_allclose(found.trace.target[-1], found.certificate.limit_target, atol=near)
        assert (found.measured_rate is None) == (found.settings.batch_size is not None)


def test_actions_and_a_policy_make_a_chain(tmp_path: Path) -> None:
    task, _ = load(write(tmp_path, CONTROL))
    # By hand: state 1 runs action 1 a quarter of the time, state 2 always.
    np.testing.assert_allclose(task.process.transition, [[0.25 * 0.5 + 0.75, 0.125], [0.0, 1.0]])
    np.testing.assert_allclose(task.process.reward, [0.25 * 1 + 0.75 * 3, 2.0])
    chosen, _ = load(write(tmp_path, CONTROL.replace("[[0.25, 0.75], [1, 0]]", "[2, 1]")))
    np.testing.assert_allclose(chosen.process.transition, [[1.0, 0.0], [0.0, 1.0]])
    one_reward, _ = load(write(tmp_path, CONTROL.replace("[[1, 2], [3, 4]]", "[5, 6]")))
    np.testing.assert_allclose(one_reward.process.reward, [5.0, 6.0])


def test_the_optimality_operator_takes_the_better_action(tmp_path: Path) -> None:
    task, _ = load(write(tmp_path, CONTROL.replace("[[0.25, 0.75], [1, 0]]", '"optimal"')))
    np.testing.assert_allclose(task.process.backup(np.array([10.0, 20.0])), [8.5, 12.0])
    # Action 2 everywhere leads to state 1 and pays 3 there for ever: 6, and 4 + 0.5 · 6 = 7 from state 2.
    np.testing.assert_allclose(true_value(task.process), [6.0, 7.0])


def test_sampled_runs_are_asked_for_in_the_file_and_differ_by_seed(tmp_path: Path) -> None:
    path = str(write(tmp_path, GOOD.replace("[solver]", "[solver]\nbatch_size = 4\nseed = 7")))
    same, again, other = (solution(path, changes) for changes in ({}, {"seed": 7}, {"seed": 8}))
    assert same.settings.batch_size == 4
    np.testing.assert_array_equal(same.trace.target, again.trace.target)
    assert not np.array_equal(same.trace.target, other.trace.target)
    expected = solve_sampled(same.problem, replace(same.settings, batch_size=None), 4, 7)
    np.testing.assert_array_equal(same.trace.online, expected.online)


def test_a_function_of_ones_own_lies_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "values_of_a_test.py").write_text("number = 3\ndef cubes(params):\n    return params**3\n")
    task, _ = load(write(tmp_path, OWN))
    np.testing.assert_allclose(task.online(task.online_init), [1.0, 8.0])
    assert same_class(task)  # so that methods which copy may solve it
    for old, new, complaint in (
        (
            "_of_a_test:cubes",
            "_of_a_test:squares",
            "value_online: .* has no class or function 'squares'",
        ),
        ("_of_a_test:cubes", "_of_a_test:number", "value_online: value function .* is a int, not a function"),
        (
            "values_of_a_test:cubes",
            "no_such_module:cubes",
            "value_online: .* cannot import no_such_module",
        ),
        ("values_of_a_test:cubes", "cubes", "value_online: 'cubes' should be 'module:function'"),
        ("online_init = [1.0, 2.0]\n", "", "online_init: needed, because the value function is not linear"),
        ("[1.0, 2.0]", "[1.0]", r"online_init: its value function gives shape \[1\], should be \[states\] = \[2\]"),
        ("[1.0, 2.0]", "{a = 1.0}", "online_init: its value function fails on it"),
        ("[1.0, 2.0]", "{a = true}", "online_init.a: True is not a number"),
        ("[1.0, 2.0]", "[[1.0], [1.0, 2.0]]", "online_init: rows should be equally long"),
        ("reward =", "features_online = [[1], [2]]\nreward =", "features_online: give one of both"),
    ):
        with pytest.raises(UserError, match=complaint) as caught:
            load(write(tmp_path, OWN.replace(old, new, 1)))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("policy = [[0.25, 0.75], [1, 0]]", "", "policy: missing; the transition has one matrix per action"),
        ("[[0.25, 0.75], [1, 0]]", '"greedy"', "policy: 'greedy' is unknown; give \"optimal\""),
        ("[[0.25, 0.75], [1, 0]]", "[[0.25, 0.7], [1, 0]]", "policy: row 1 sums to 0.95, not 1"),
        ("[[0.25, 0.75], [1, 0]]", "[[1, 0]]", r"policy: shape \[1, 2\], should be \[states, actions\] = \[2, 2\]"),
        ("[[0.25, 0.75], [1, 0]]", "[1, 3]", "policy: entry 2 is 3; actions are 1 to 2"),
        ("[[0.25, 0.75], [1, 0]]", "[1]", "policy: 1 entries for 2 states; give one action per state"),
        ("[[1.0, 0.0], [1.0, 0.0]]", "[[1.0, 0.0], [1.0, 0.1]]", "transition of action 2: row 2 sums to 1.1"),
        ("[[1.0, 0.0], [1.0, 0.0]]", "[[1.0, 0.0]]", "transition: should be one matrix per action"),
        ("[[1, 2], [3, 4]]", "[[1, 2]]", r"reward: shape \[1, 2\], should be \[actions, states\] = \[2, 2\]"),
        ("[[1, 2], [3, 4]]", "[1]", r"reward: shape \[2, 1\], should be \[actions, states\]"),
    ],
)
def test_a_mistake_in_control_is_one_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in CONTROL
    with pytest.raises(UserError, match=complaint) as caught:
        load(write(tmp_path, CONTROL.replace(old, new, 1)))
    assert "\n" not in str(caught.value)


def test_the_optimality_operator_needs_a_weighting(tmp_path: Path) -> None:
    text = CONTROL.replace("[[0.25, 0.75], [1, 0]]", '"optimal"').replace("weighting = [0.25, 0.75]\n", "")
    with pytest.raises(UserError, match="weighting: a decision process has no stationary distribution"):
        load(write(tmp_path, text))


def test_the_first_sample_is_the_papers_example() -> None:
    task, settings = load(EXAMPLES / "two_state.toml")
    expected = BUILDERS["two-state"]()
    np.testing.assert_array_equal(task.target_init, expected.target_init)
    np.testing.assert_array_equal(task.online_init, expected.online_init)
    np.testing.assert_array_equal(task.online.features, expected.online.features)
    assert settings == SETTINGS["two-state"]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("[0.6, 0.4]", "[0.6, 0.3]", "transition: row 1 sums to 0.9, not 1"),
        ("[0.2, 0.8]", "[-0.2, 1.2]", r"transition: entry \(2, 1\) is -0.2"),
        ("[0.2, 0.8]", "[0.2]", "transition: should be a list of equally long rows"),
        ("[[0.6, 0.4], [0.2, 0.8]]", "[[0.6, 0.4]]", "transition: 1 rows of 2 entries; should be square"),
        ("[[0.6, 0.4], [0.2, 0.8]]", "[]", "transition: should be"),
        ("[[0.6, 0.4], [0.2, 0.8]]", "[[nan, 1], [0, 1]]", r"transition: entry \(1, 1\) is not a finite number"),
        ("reward = [1, 1]", 'reward = [1, "1"]', "reward: '1' is not a number"),
        ("reward = [1, 1]", "reward = [1, true]", "reward: True is not a number"),
        ("reward = [1, 1]", "reward = [1, inf]", r"reward: entry \(2\) is not a finite number"),
        ("reward = [1, 1]", "reward = [1]", "reward: 1 entries for 2 states"),
        ("reward = [1, 1]", "", "reward: missing"),
        ("reward = [1, 1]", f"reward = [1, 1{'0' * 400}]", "reward: a whole number is too large"),
        ("discount = 0.5", "discount = 1.0", r"discount: 1.0 is outside \[0, 1\)"),
        ("discount = 0.5", "discount = -0.1", r"discount: -0.1 is outside \[0, 1\)"),
        ("discount = 0.5", "discount = nan", r"discount: nan is outside \[0, 1\)"),
        ("discount = 0.5", "discount = [0.5]", r"discount: \[0.5\] is outside"),
        ("[[1, 2], [2, 1]]", "[[1, 2]]", "features_online: 1 rows for 2 states"),
        ("[[1, 2], [2, 1]]", "[[1e200, 2], [2, 1]]", r"features_online: has a number larger than 1e\+100"),
        ("[[1, 2], [2, 1]]", "[[], []]", "features_online: "),
        ("[[1, 2, 1], [1, 1, 2]]", "[[1, 2, 1]]", "features_target: 1 rows for 2 states"),
        ("features_online = [[1, 2], [2, 1]]\n", "", "features_online: missing; or give value_online"),
        ("reward = [1, 1]", "reward = [1, 1]\npolicy = [1, 1]", "policy: the transition is of one chain already"),
        ("outer_iterations = 10", "batch_size = 0", "solver.batch_size: 0 is not a whole number from 1"),
        ("outer_iterations = 10", "kappa = -1", "solver.kappa: -1 is not a number of at least 0"),
        ("[0.25, 0.75]", "[0.25, 0.7]", "weighting: sums to 0.95, not 1"),
        ("[0.25, 0.75]", "[1.25, -0.25]", "weighting: entry 2 is negative"),
        ("[0.25, 0.75]", "[1.0]", "weighting: 1 entries for 2 states"),
        ("[0.3, 0.6]", "[0.3]", r"online_init: 1 entries for 2 features \(features_online\)"),
        ("[1.2, 0.0, 0.3]", "[1.2, nan, 0.3]", r"target_init: entry \(2\) is not a finite number"),
        ("reward =", "rewards =", "rewards: unknown key; did you mean 'reward'"),
        ("outer_iterations", "iterations", "solver.iterations: unknown key; did you mean 'solver.outer_iterations'"),
        ("outer_iterations = 10", "outer_iterations = 1.5", "solver.outer_iterations: 1.5 is not a whole number"),
        ("outer_iterations = 10", "outer_iterations = true", "solver.outer_iterations: True"),
        ("lookahead_step_size = 0.1", "lookahead_step_size = [0.1]", "solver.lookahead_step_size: should be a number"),
        ("lookahead_step_size = 0.1", 'lookahead_step_size = "fast"', "solver.lookahead_step_size: 'fast'"),
        ("lookahead_step_size = 0.1", "lookahead_step_size = 0", "solver.lookahead_step_size: 0.0 is not a positive"),
        ("[0.1, 0.05]", "[0.1]", "solver.replicate_step_size: 1 entries for replicate_updates = 2"),
        ("iterations = 10", f"iterations = 0x{'f' * 6000}", "solver.outer_iterations: a whole number is too large: it"),
        ("discount = 0.5", f"discount = 0x{'f' * 6000}", "discount: a whole number is too large: it has more than 100"),
        ("[solver]", "[solver", "not readable as TOML"),
    ],
)
def test_a_mistake_is_one_line_that_names_file_and_field(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(UserError, match=complaint) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_chain_that_falls_apart_needs_a_weighting(tmp_path: Path) -> None:
    text = GOOD.replace("[[0.6, 0.4], [0.2, 0.8]]", "[[1, 0], [0, 1]]").replace("weighting = [0.25, 0.75]", "")
    with pytest.raises(UserError, match="weighting: the chain has more than one stationary distribution"):
        load(write(tmp_path, text))


def test_states_that_are_left_for_ever_get_exactly_no_weight(tmp_path: Path) -> None:
    text = GOOD.replace("[[0.6, 0.4], [0.2, 0.8]]", "[[0.6, 0.4], [0, 1]]").replace("weighting = [0.25, 0.75]", "")
    task, settings = load(write(tmp_path, text))
    assert task.weighting.tolist() == [0.0, 1.0]
    assert certify(task, settings).converges


def test_missing_folders_and_unreadable_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        load(tmp_path / "nothing.toml")
    with pytest.raises(UserError, match="cannot be read"):
        load(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        load(binary)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("two-sate", "did you mean 'two-state'"),
        ("qwerty", "choose from two-state"),
        ("random", "random:N,SEED"),
        ("random:5", "random:N,SEED"),
        ("random:5,x", "random:N,SEED"),
        ("random:-5,1", "random:N,SEED"),
        ("random:0,1", "N = 0 states is outside 1 to 100"),
        ("random:101,1", "N = 101 states is outside"),
        ("none/such.toml", "problem file 'none/such.toml' does not exist"),
    ],
)
def test_a_name_that_means_nothing_is_explained(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        named_problem(text)


def test_a_random_chain_is_its_seed() -> None:
    first, again, other = (named_problem(text)[0] for text in ("random:6,3", "random:6,3", "random:6,4"))
    np.testing.assert_array_equal(first.process.transition, again.process.transition)
    assert not np.array_equal(first.process.transition, other.process.transition)
    np.testing.assert_allclose(first.weighting @ first.process.transition, first.weighting, atol=1e-12)
