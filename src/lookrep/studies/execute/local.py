"""Running a study on this machine: populations in processes, so many at once, until all are done.

A process gives its memory back, can crash without taking the study along, and lets several share a GPU. Most have one
population; on a GPU, those that can be trained in one program are in one process. What such a process does is
`lookrep.studies.execute.worker`; here they are started, watched and stopped.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lookrep.errors import printable
from lookrep.studies import folder as folders
from lookrep.studies.execute import worker
from lookrep.studies.execute.sitting import Sitting
from lookrep.studies.execute.worker import TrainingJob
from lookrep.studies.folder import plain
from lookrep.studies.hardware import Hardware

POLL_SECONDS = 0.2
FILM_STEPS = 200


@dataclass(frozen=True)
class Task:
    """A process to run: populations that share a program (with their job on stdin), or a film."""

    name: str
    command: tuple[str, ...]
    log: Path
    stdin: str = ""
    populations: tuple[str, ...] = ()
    saves: bool = True  # its state, when it is asked to stop


def training(folder: Path, job: TrainingJob) -> Task:
    command = (sys.executable, "-m", "lookrep.studies.execute.worker")
    names = tuple(job.populations)
    log = _log(folder, names[0])
    saves = any(not config or config["checkpoint_interval_steps"] for config in job.populations.values())
    return Task(names[0], command, log, json.dumps(dataclasses.asdict(job)), names, saves)


def films(folder: Path, env: str, populations: Mapping[str, str]) -> list[Task]:
    """Seed 0 of each variant at play, both networks' values beside it: `populations` is variant → folder's name."""
    found = []
    for variant, name in populations.items():
        video = folder / folders.VIDEOS / f"{plain(env)}--{variant}.gif"
        run = folder / folders.POPULATIONS / name
        flags = ("--trust", "--agent", "0", "--max-steps", str(FILM_STEPS))
        command = (sys.executable, "-m", "lookrep.cli", "play", str(run), "--video", str(video), *flags)
        if not video.exists():
            found.append(Task(f"film of {env}, {variant}", command, folder / folders.LOGS / f"{video.stem}.film.log"))
    return found


def run(sitting: Sitting, tasks: list[Task], *, jobs: int, here: Hardware) -> None:
    """Work through the tasks, `jobs` at a time."""
    queue = deque(tasks)
    running: dict[int, tuple[Task, subprocess.Popen[bytes], int]] = {}  # … and where its part of the log begins
    stopping = False
    try:
        while queue or running:
            if not stopping and sitting.over:
                stopping = True
                sitting.display.note(_stopping(task for task, _, _ in running.values()))
                queue.clear()
                for task, process, _ in running.values():
                    process.send_signal(signal.SIGTERM if task.saves else signal.SIGKILL)
            while queue and len(running) < jobs:
                slot = next(i for i in range(jobs) if i not in running)
                task = queue.popleft()
                before = task.log.stat().st_size if task.log.exists() else 0
                process = _started(sitting, task, _device_settings(slot, jobs, here))
                running[slot] = (task, process, before)
            time.sleep(POLL_SECONDS)
            for slot, (task, process, before) in list(running.items()):
                if process.poll() is not None:
                    del running[slot]
                    _share_log(sitting.folder, task, before)
                    _ended(sitting, task, process.returncode, stopping)
            sitting.display.tick()
    except KeyboardInterrupt:  # the second one
        for _, process, _ in running.values():
            process.kill()
        raise
    finally:  # also where something goes wrong here, a full disk say: what is running saves its state
        for task, process, _ in running.values():
            process.send_signal(signal.SIGTERM if task.saves else signal.SIGKILL)
        for _, process, _ in running.values():
            process.wait()


def _started(sitting: Sitting, task: Task, device: dict[str, str]) -> "subprocess.Popen[bytes]":
    for name in task.populations:
        sitting.begin(name)
    with open(task.log, "ab") as log:
        # Its own session: a Ctrl-C at the terminal comes here alone, and is passed on.
        process = subprocess.Popen(
            task.command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, **sitting.environment, **device},
            start_new_session=True,
        )
    assert process.stdin is not None
    process.stdin.write(task.stdin.encode())
    process.stdin.close()
    return process


def _device_settings(slot: int, jobs: int, here: Hardware) -> dict[str, str]:
    """Environment variables by which processes share the GPUs. Even alone, one needs more than XLA's default share.

    A share of the memory that the user has set is what all of them have together: others may use the same GPU.
    """
    if here.kind != "gpu":
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(here.count)))).split(",")
    sharing = -(-jobs // len(visible))
    share = float(os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION") or 0.9)
    settings = {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{share / sharing:.3f}"}
    if jobs > 1:
        settings["CUDA_VISIBLE_DEVICES"] = visible[slot % len(visible)]
    return settings


def _stopping(tasks: Iterable[Task]) -> str:
    if any(task.saves for task in tasks):
        return "stopping: what is running saves its state first (Ctrl-C again: at once)"
    return "stopping: without checkpoints there is nothing to save"


def _ended(sitting: Sitting, task: Task, status: int, stopping: bool) -> None:
    said = _last_line(task.log)
    if not task.populations:
        if status and not stopping:
            sitting.display.note(f"{task.name}: not made ({said})")
        return
    if stopping and status in (-signal.SIGTERM, -signal.SIGKILL):
        status = worker.STOPPED  # before it had begun to listen, or with nothing to save
    elif status < 0:
        memory = " (out of memory?)" if status == -signal.SIGKILL else ""
        said = f"{folders.KILLED}{signal.Signals(-status).name}{memory}"
    for name in task.populations:
        sitting.record(name, status, said)


def _share_log(folder: Path, task: Task, before: int) -> None:
    """Populations that shared a program have its words in all their logs."""
    said = task.log.read_bytes()[before:]
    for name in task.populations[1:]:
        with open(_log(folder, name), "ab") as log:
            log.write(said)


def _log(folder: Path, population: str) -> Path:
    return folder / folders.LOGS / f"{population}.log"


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return printable(lines[-1]).removeprefix("lookrep: ") if lines else "it said nothing"
