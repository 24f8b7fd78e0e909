"""Problem files: what is right loads, and what is wrong is one line that names the field."""

from pathlib import Path

import numpy as np
import pytest

from lookrep.errors import UserError
from lookrep.exact import certify
from lookrep.exact.builtin import BUILDERS, SETTINGS
from lookrep.exact.naming import named_problem
from lookrep.exact.problem_file import load

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
def test_the_sample_files_load(path: Path) -> None:
    load(path)


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
        ("[solver]", "[solver", "is not TOML"),
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
