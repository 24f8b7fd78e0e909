"""Studies on Ray: a real cluster with two workers, one of them killed, ends like a quiet run on one machine."""

import sys
from pathlib import Path

import pytest
from study_runs import POPULATIONS, completed, kill, rows, saved, start, wait_until, write_study

from lookrep.errors import UserError
from lookrep.studies import ray_backend, results

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_a_killed_worker_costs_nothing_but_time(tmp_path: Path, quick_compilation: dict[str, str]) -> None:
    pytest.importorskip("ray")
    definition = write_study(tmp_path)
    alone, cluster = tmp_path / "alone", tmp_path / "cluster"
    completed("run", definition, "--out", alone, "--no-film", environment=quick_compilation)

    flags = ("--no-film", "--backend", "ray", "--jobs", "2")
    process = start("run", definition, "--out", cluster, *flags, environment=quick_compilation)
    victim = cluster / "populations" / POPULATIONS[1]
    wait_until(lambda: bool(saved(victim)), process)
    killed = kill(victim)
    said, errors = process.communicate(timeout=180)

    assert process.returncode == 0, said + errors
    assert "finished: all 2 populations" in said
    assert (victim / ".lock").read_text() != f"process {killed}\n"  # another one took over
    for name in POPULATIONS:
        assert rows(cluster / "populations" / name) == rows(alone / "populations" / name)
        assert len(rows(cluster / "populations" / name)) == 2 * 30
    assert {member.status for member in results.load(cluster).members} == {"finished"}


def test_without_ray_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"--backend ray needs Ray: pip install -e '\.\[ray\]'"):
        with ray_backend.connected(None, 1):
            pass
