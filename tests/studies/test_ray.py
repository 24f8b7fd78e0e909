"""Studies on Ray: a real cluster with two workers, one of them killed, ends like a quiet run on one machine."""

import sys
from pathlib import Path

import pytest
from study_runs import POPULATIONS, completed, kill, rows, saved, start, wait_until, write_study

from lookrep.analysis import results
from lookrep.errors import UserError
from lookrep.studies.execute import ray_cluster as ray_backend

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
    trainer = int((victim / ".lock").read_text().split()[1])
    environment = dict(pair.split("=", 1) for pair in Path(f"/proc/{trainer}/environ").read_text().split("\0") if pair)
    assert environment["RAY_AUTH_MODE"] == "token"  # so that nobody else can send this cluster anything
    killed = kill(victim)
    said, errors = process.communicate(timeout=180)

    assert process.returncode == 0, said + errors
    assert "finished: all 2 populations" in said
    assert (victim / ".lock").read_text().split()[1] != str(killed)  # another one took over
    for name in POPULATIONS:
        assert rows(cluster / "populations" / name) == rows(alone / "populations" / name)
        assert len(rows(cluster / "populations" / name)) == 2 * 30
    assert {member.status for member in results.load(cluster).members} == {"finished"}


def test_a_version_without_tokens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "__version__", "2.51.1")
    with pytest.raises(UserError, match=r"Ray 2\.51\.1 lets anyone use a cluster: 'ray>=2\.52' asks for a token"):
        with ray_backend.connected(None, 1):
            pass


def test_without_ray_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"--backend ray needs more packages: pip install 'lookrep\[ray\]'"):
        with ray_backend.connected(None, 1):
            pass
