"""EnvPool fail loudly, never linger, and leave nothing behind."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lookrep.envs.host import EnvPool
from lookrep.errors import UserError

NOT_RIGHT, RIGHT = np.array([1, 1, 1]), np.array([1, 1, 2])  # in a Walk: stay, stay, and one to the right


def three(name: str, processes: int = 2, groups: list[slice] | None = None) -> EnvPool:
    names = [f"toys:{name}"] * 3
    return EnvPool(names, [10, 11, 12], 0, groups=groups or [slice(0, 3)], processes=processes)


def children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("processes", [0, 2])
def test_an_environment_that_raises_is_one_clear_line(processes: int) -> None:
    with three("Faulty", processes) as pool:
        pool.send(0, NOT_RIGHT)
        pool.receive(0)
        pool.send(0, RIGHT)
        with pytest.raises(UserError) as error:
            pool.receive(0)
    assert str(error.value).startswith(
        "toys:Faulty failed for agent 12 in episode 0 (ZeroDivisionError: the right side is not built yet; "
    )
    assert "toys.py:" in str(error.value)
    assert "\n" not in str(error.value)


def test_an_environment_that_cannot_be_made_in_a_worker_is_one_clear_line() -> None:
    before = children()
    with pytest.raises(UserError, match=r"toys:Stillborn.*OSError: no such display"):
        three("Stillborn")
    assert children() == before


def test_a_worker_that_is_killed_is_noticed_by_every_group() -> None:
    with three("Doomed", processes=3, groups=[slice(0, 2), slice(2, 3)]) as pool:
        pool.send(1, np.array([2]))
        line = r"^the worker process of toys:Doomed ended unexpectedly \(SIGKILL\)$"
        with pytest.raises(UserError, match=line):
            pool.receive(1)
        pool.send(0, np.array([2, 1]))
        with pytest.raises(UserError, match=line):
            pool.receive(0)


def test_who_waits_for_any_group_hears_of_a_killed_worker() -> None:
    with three("Doomed", processes=3, groups=[slice(0, 2), slice(2, 3)]) as pool:
        pool.send(0, np.array([1, 2]))
        pool.wait_for_any([0])
        assert pool.first_ready([0]) == 0
        with pytest.raises(UserError, match="SIGKILL"):
            pool.receive(0)


@pytest.mark.parametrize("spin_s", [0.0, 0.5])
def test_a_group_is_ready_when_all_its_agents_have_acted(spin_s: float) -> None:
    """Sleepers take as long as their action says."""
    names, groups = ["toys:Sleeper"] * 3, [slice(0, 2), slice(2, 3)]
    with EnvPool(names, [10, 11, 12], 0, groups=groups, processes=3, spin_s=spin_s) as pool:
        pool.send(0, np.array([0, 2]))
        pool.send(1, np.array([1]))
        assert pool.first_ready([0]) is None
        pool.wait_for_any([0, 1])
        assert [pool.first_ready(groups) for groups in ([0], [1], [0, 1], [])] == [None, 1, 1, None]
        pool.nap()
        pool.receive(1)
        pool.wait_for_any([0])
        assert pool.first_ready([0]) == 0
        pool.receive(0)


def test_workers_are_light_and_deaf_to_ctrl_c() -> None:
    with three("Witness", processes=3) as pool:
        pids, has_jax, blocks_sigint = pool.observation(0).T.copy()
        for pid in pids:
            os.kill(int(pid), signal.SIGINT)
            os.kill(int(pid), signal.SIGTERM)
        pool.send(0, NOT_RIGHT)
        pool.receive(0)
    assert len(set(pids)) == 3
    assert not has_jax.any()
    assert blocks_sigint.all()


def test_closing_leaves_no_process_no_pipe_and_no_memory() -> None:
    def maps() -> int:
        return Path("/proc/self/maps").read_text().count("lookrep-workers")

    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    gc.collect()  # what earlier tests left unreachable must not go in the middle of this one
    before = children(), files(), maps()
    pool = three("Walk", processes=3)
    assert len(children()) == len(before[0]) + 3
    assert maps() == before[2] + 1
    pool.send(0, NOT_RIGHT)
    pool.close()
    pool.close()
    del pool
    assert (children(), files(), maps()) == before


PARENT = """
import time
import numpy as np
from lookrep.envs.host import EnvPool

pool = EnvPool(["toys:Witness"] * 2, [0, 1], 0, groups=[slice(0, 2)], processes=2)
print(*pool.observation(0)[:, 0].astype(int), flush=True)
time.sleep(600)
"""


def test_workers_are_gone_when_the_parent_was_killed() -> None:
    """The script is not guarded by `if __name__ == "__main__"`: a worker does not import it."""
    path = os.pathsep.join(sys.path)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert parent.stdout
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    assert all(is_alive(pid) for pid in pids)
    parent.kill()
    _, noise = parent.communicate()
    deadline = time.monotonic() + 20
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(is_alive(pid) for pid in pids)
    assert noise == b""


def test_the_package_needs_neither_jax_nor_gymnasium_to_be_imported() -> None:
    code = (
        "import sys, lookrep.envs.host; print([m for m in ('jax', 'gymnasium', 'ale_py', 'cv2') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"[]"
