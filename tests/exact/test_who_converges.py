"""The sweep over all methods: it knows every method, runs, and the pages say what its tables do."""

import csv
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from lookrep.exact.methods import METHODS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("who_converges")


def test_every_method_has_a_row_in_the_theory_and_all_but_the_control_are_swept(script: Any) -> None:
    table = (ROOT / "docs/theory.md").read_text().partition("## The methods\n")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == sorted(METHODS)
    assert {method for method, _ in script.ROWS.values()} == set(METHODS) - {"frozen"}
    assert {row for row, _ in script.LINES.values()} <= set(script.ROWS)


def test_a_sweep_of_a_few_chains_writes_tables_and_figure(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(script, "STEPS", (1.0,))
    monkeypatch.setattr(script, "MEASURED_UPDATES", 20)
    kept = {row: script.ROWS[row] for row in ("residual", "td", "chain", "lr, K_R = 1")}
    kept["minto (measured)"] = ("minto", script.COPIES[:1])
    monkeypatch.setattr(script, "ROWS", kept)
    assert script.main(["--chains", "4", "--out", str(tmp_path)]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "sweep.csv", "who_converges.csv", "who_converges.png", "who_converges.svg",
    ]  # fmt: skip
    found, published = rows(tmp_path / "sweep.csv"), rows(ROOT / "docs/results/exact/sweep.csv")
    assert {row["method"] for row in found} == set(kept)
    # Of problems that are not drawn, the numbers are those that were published.
    keys = ("method", "problem", "step", *script.KNOBS)
    known = {tuple(row[key] for key in keys): row for row in published}
    for row in found:
        if row["problems"] == "1" and row["method"] != "minto (measured)" and "policy" not in row["problem"]:
            same = known[tuple(row[key] for key in keys)]
            assert row["converging"] == same["converging"]
            assert float(row["rate_per_update"]) == pytest.approx(float(same["rate_per_update"]), rel=1e-6)


def rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


def test_the_numbers_on_the_page_are_those_of_its_tables(script: Any) -> None:
    page = (ROOT / "docs/results/exact.md").read_text()
    table = {(row["method"], row["problem"]): row for row in rows(ROOT / "docs/results/exact/who_converges.csv")}
    lines = re.findall(r"^\| (`[^|]*) \| ([\d.]+) \| ([\d.]+) \| ([^|]*) \| ([^|]*) \|$", page, re.MULTILINE)
    assert len(lines) == len(script.ROWS)
    for name, wide, tall, *speeds in lines:
        method = name.replace("`", "").replace("minto, measured", "minto (measured)")
        for column, share in (("off-policy, wide", wide), ("off-policy, tall", tall)):
            assert 100 * float(table[method, column]["best_share"]) == pytest.approx(float(share), abs=0.051)
        for column, said in zip(("Baird", "Boyan"), speeds, strict=True):
            best = table[method, column]["best_updates_per_digit"]
            if said == "diverges":
                assert best == ""
            else:
                number, *knobs = re.findall(r"[\d.]+", said.replace(",", ""))
                assert float(number) == pytest.approx(float(best), rel=0.02)
                assert [float(knob) for knob in knobs] == [
                    float(table[method, column][f"best_{knob}"])
                    for knob, sign in (("lookahead_updates", "K_L"), ("tau", "τ"), ("kappa", "κ"), ("networks", "k ="))
                    if sign in said
                ]
    shares = page.partition("| of all settings, % |")[2].partition("\n\n")[0].splitlines()[2:]
    columns = ("paper, one space", "paper, two spaces", "Boyan", "Baird", "w → 2w", "on-policy", "off-policy, wide",
               "off-policy, tall")  # fmt: skip
    assert len(shares) == len(script.ROWS)
    for line in shares:
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        method = name.replace("`", "").replace("minto, measured", "minto (measured)")
        for column, cell in zip(columns, cells, strict=True):
            if cell == "–":
                assert (method, column) not in table
            else:
                assert 100 * float(table[method, column]["share"]) == pytest.approx(float(cell), abs=0.51)
    assert f"all {len(rows(ROOT / 'docs/results/exact/sweep.csv')):,} rows" in page
