"""`lookrep exact` as its users meet it: the table, the one JSON object, the figure, and one line for a mistake."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookrep.cli import main

KEYS = {
    "target",
    "online",
    "value_target",
    "value_online",
    "value_true",
    "function_gap",
    "bellman_residual",
    "membership",
    "certificate",
}
QUICK = ["--outer-iterations", "30", "--lookahead-updates", "20", "--replicate-updates", "5"]


def strict_json(text: str) -> Any:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_is_the_only_thing_printed_and_has_exactly_the_published_keys() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lookrep.cli", "exact", "two-state", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = strict_json(done.stdout)
    assert set(found) == KEYS
    assert set(found["membership"]) == {"single", "pair", "value"}
    certificate = {"rate", "converges", "limit_target", "limit_online", "measured_rate", "missing"}
    assert set(found["certificate"]) == certificate
    np.testing.assert_allclose(found["target"], [0.663636, 0.445455, 0.445455], atol=1e-6)
    np.testing.assert_allclose(found["online"], [-0.236364, 0.745455, 0.745455], atol=1e-6)
    np.testing.assert_allclose(found["certificate"]["limit_target"], found["target"], atol=1e-9)
    assert found["value_true"] == [2.0, 2.0]
    assert found["membership"] == {"single": True, "pair": False, "value": True}
    assert found["certificate"]["converges"] is True
    assert found["certificate"]["measured_rate"] == pytest.approx(found["certificate"]["rate"], rel=0.01)
    assert found["certificate"]["missing"] is None


def test_theorem_1_is_audited_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exact", "two-state", *QUICK, "--audit", "--json"]) == 0
    found = strict_json(capsys.readouterr().out)
    assert set(found) == KEYS | {"assumptions"}
    assert set(found["assumptions"]) == {"kappa1", "F_theta", "L", "F_w", "zeta", "holds", "why"}
    assert found["assumptions"]["holds"] is False
    assert found["assumptions"]["zeta"] is None
    assert main(["exact", "two-state", *QUICK, "--audit"]) == 0
    assert "Theorem 1 applies" in capsys.readouterr().out
    assert main(["exact", "two-state", *QUICK]) == 0
    assert "Theorem" not in capsys.readouterr().out


def test_a_method_without_a_certificate_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["exact", "two-state", *QUICK, "--method", "minto"]
    assert main([*words, "--json"]) == 0
    certificate = strict_json(capsys.readouterr().out)["certificate"]
    assert certificate["converges"] is None
    assert "smaller of two values" in certificate["missing"]
    assert 0 < certificate["measured_rate"] < 1
    assert main(words) == 0
    assert "certificate                       none: 'minto' reads" in capsys.readouterr().out


@pytest.mark.parametrize(("trained", "name"), [("replicate", "lr"), ("no-target", "td")])
def test_names_of_training_are_understood(trained: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for method in (trained, name):
        assert main(["exact", "two-state", *QUICK, "--method", method]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_what_overflows_is_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exact", "baird", "--method", "td", "--outer-iterations", "200", "--json"]) == 0
    found = strict_json(capsys.readouterr().out)
    assert found["target"] == [None] * 8
    assert found["function_gap"] is None
    assert found["certificate"]["converges"] is False
    assert found["certificate"]["limit_target"] is None
    assert found["membership"] == {"single": False, "pair": False, "value": False}


@pytest.mark.parametrize(
    "words",
    [
        ["two-state"],
        ["two-state-two-spaces"],
        ["baird", "--method", "td", "--outer-iterations", "100"],
        ["boyan", "--method", "residual", "--outer-iterations", "30"],
        ["random:30,2", *QUICK, "--method", "averaged", "--networks", "3"],
    ],
    ids=" ".join,
)
def test_the_table_fits_in_80_columns(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exact", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for word in ("true value", "function gap", "Bellman residual", "F_value", "certificate"):
        assert word in text


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_figure_lands_in_a_folder_that_is_made_for_it(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out" / f"figure1.{kind}"
    assert main(["exact", "two-state", *QUICK, "--figure", str(path), "--json"]) == 0
    assert path.stat().st_size > 5_000
    strict_json(capsys.readouterr().out)


def test_flags_override_the_problems_own_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # One state, reward 1, discount ½, features 1 and 2, starts 0 and 1: by hand in tests/exact/test_solver.py.
    path = tmp_path / "one.toml"
    path.write_text(
        "transition = [[1.0]]\nreward = [1.0]\ndiscount = 0.5\nfeatures_online = [[1.0]]\nfeatures_target = [[2.0]]\n"
        "target_init = [1.0]\n"
    )
    words = ["--outer-iterations", "1", "--lookahead-updates", "2", "--replicate-updates", "2"]
    sizes = ["--lookahead-step-size", "0.1", "--replicate-step-size", "0.05", "0.1"]
    assert main(["exact", str(path), *words, *sizes, "--json"]) == 0
    found = strict_json(capsys.readouterr().out)
    np.testing.assert_allclose(found["online"], [0.72])
    np.testing.assert_allclose(found["target"], [0.4368])
    np.testing.assert_allclose(found["bellman_residual"], abs(0.72 - (1 + 0.5 * 2 * 0.4368)))
    np.testing.assert_allclose(found["function_gap"], abs(2 * 0.4368 - 0.72))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["two-sate"], "did you mean 'two-state'"),
        (["random:5"], "random:N,SEED"),
        (["missing.toml"], "does not exist"),
        (["two-state", "--method", "sarsa"], "sarsa"),
        (["two-state-two-spaces", "--method", "td"], "different value functions; choose from"),
        (["two-state", "--figure", "figure.gif"], ".png, .pdf, .svg"),
        (["two-state", "--outer-iterations", "0"], "outer_iterations: 0"),
        (["two-state", "--outer-iterations", "many"], "many"),
        (["two-state", "--lookahead-step-size", "nan"], "lookahead_step_size: nan"),
        (["two-state", "--replicate-step-size", "0.1", "0.2"], "replicate_step_size: 2 entries"),
        (["two-state", "--kappa", "-1", "--method", "functional"], "kappa: -1.0 is not a number"),
        (["two-state", "--batch-size", "8", "--method", "residual"], "two independent successors"),
        (["two-state", "--batch-size", "0"], "batch_size: 0"),
        (["two-state", "--tau", "2", "--method", "polyak"], "tau: 2.0 is outside (0, 1]"),
        (["two-state", "--tolerance", "-1"], "tolerance: -1.0"),
        ([], "required"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_status_2(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["exact", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("lookrep: ")
    assert complaint in printed.err


def test_a_run_that_settles_in_spite_of_its_certificate_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """From equal networks `symmetric` never lets them part: the mode that diverges is not excited."""
    steps = ["--lookahead-step-size", "4.7", "--replicate-step-size", "4.7"]
    assert main(["exact", "boyan", "--method", "symmetric", *steps]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "does not converge; rate" in said
    assert "this start seems to be one of the few that settle" in said
    assert main(["exact", "baird", "--method", "td"]) == 0
    assert "settle" not in capsys.readouterr().out
