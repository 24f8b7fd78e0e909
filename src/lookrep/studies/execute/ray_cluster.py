"""Running a study on a Ray cluster: each population is a task with its share of a GPU, results on a shared path.

A task whose worker or node dies is started again by Ray, and goes on from the population's last checkpoint. What a
task does is `lookrep.studies.execute.worker`. Ray is an optional extra, imported when it is asked for.
"""

import contextlib
import dataclasses
import os
import secrets
import time
from collections.abc import Iterator
from typing import Any

from lookrep.errors import UserError, missing
from lookrep.importing import in_short
from lookrep.runs.folder import Busy
from lookrep.studies import hardware
from lookrep.studies.execute import worker
from lookrep.studies.execute.sitting import Sitting
from lookrep.studies.execute.worker import TrainingJob
from lookrep.studies.hardware import Hardware

OLDEST = (2, 52)  # whose clusters ask for a token: Ray listens on every interface, and runs what it is sent
_TOKENS = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")  # the user's own choice
RETRIES = 5  # of a population whose worker or node died
BUSY_SECONDS = 120.0  # a file server may need this long to notice that the holder of a lock is gone
OBJECT_STORE_BYTES = 100 * 2**20  # nothing is passed through it; by default Ray takes a third of the memory

# Nothing is sent to anyone, and Ray's own views on accelerators of tasks without one are not needed.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0"}


@dataclasses.dataclass(frozen=True)
class Cluster:
    ray: Any
    hardware: Hardware  # of a worker
    gpus: float  # share of one that a population gets; 0 where there is none
    cpus: float


@contextlib.contextmanager
def connected(address: str | None, jobs: int) -> Iterator[Cluster]:
    """Join the cluster at `address`, or make one of this machine. `jobs` populations share a GPU; without GPUs, a
    cluster of this machine has `jobs` workers."""
    os.environ.update({name: value for name, value in _QUIET.items() if name not in os.environ})
    if address is None and not any(name in os.environ for name in _TOKENS):
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}  # for this study alone
    try:
        import ray  # only now: it reads these as it is imported
    except ImportError as error:
        raise missing("--backend ray", error, "ray") from None
    if tuple(map(int, ray.__version__.split(".")[:2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise UserError(f"Ray {ray.__version__} lets anyone use a cluster: 'ray>={wanted}' asks for a token")
    here = hardware.detect() if address is None else None
    settings: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False, "include_dashboard": False}
    if here is not None:
        settings |= {"num_cpus": jobs if here.kind == "cpu" else here.cores, "object_store_memory": OBJECT_STORE_BYTES}
        settings |= {"num_gpus": here.count if here.kind == "gpu" else 0, "_node_ip_address": "127.0.0.1"}
    else:
        settings |= {"address": address}
        del settings["include_dashboard"]
    try:
        ray.init(**settings)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        raise UserError(f"cannot reach a Ray cluster at {address or 'this machine'}: {in_short(error)}") from None
    try:
        yield _cluster(ray, jobs)
    finally:
        ray.shutdown()


def run(sitting: Sitting, jobs: list[TrainingJob], cluster: Cluster) -> None:
    """All populations, as many at once as the cluster has room for."""
    ray = cluster.ray
    # Workers do not start where the driver is, and environments of one's own are files beside the user.
    paths = [os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {"PYTHONPATH": os.pathsep.join(paths), **sitting.environment}
    if cluster.gpus:
        settings["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 * cluster.gpus:.3f}"
    task = ray.remote(
        num_gpus=cluster.gpus,
        num_cpus=cluster.cpus,
        max_retries=RETRIES,
        max_calls=1,  # a worker that has trained holds a device's memory: the next population gets a fresh one
        runtime_env={"env_vars": settings},
    )(_train)
    waiting = {}
    for job in jobs:
        for name in job.populations:
            sitting.begin(name)
        waiting[task.remote(dataclasses.asdict(job))] = tuple(job.populations)

    def ask_to_stop() -> None:
        for ref in waiting:
            ray.cancel(ref, force=False)  # Ctrl-C in the worker, which it takes as a request to stop

    stopping = False
    try:
        while waiting:
            if not stopping and sitting.over:
                stopping = True
                sitting.display.note("stopping: what is running saves its state first (Ctrl-C again: at once)")
                ask_to_stop()
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=0.5)
            for ref in done:
                result = _result(ray, ref)
                for name in waiting.pop(ref):
                    sitting.record(name, *result)
            sitting.display.tick()
    except Exception:  # such as a full disk here: what is running elsewhere saves its state
        ask_to_stop()
        if waiting:
            ray.wait(list(waiting), num_returns=len(waiting))
        raise


def _train(job: dict[str, Any]) -> tuple[int, str]:
    """In a Ray worker: the population to its end, as the exit status and the last words of `worker.main`."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return (worker.FINISHED if worker.train(TrainingJob(**job)) else worker.STOPPED), ""
        except Busy as error:
            if time.monotonic() > deadline:
                return worker.BUSY, str(error)
            time.sleep(2)
        except UserError as error:
            return worker.WRONG, str(error)
        except Exception as error:  # Ray would hide the line among its own
            return worker.FAILED, in_short(error)


def _cluster(ray: Any, jobs: int) -> Cluster:
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    shares = [node.get("CPU", 1) / (node["GPU"] * jobs) for node in nodes if node.get("GPU")]
    gpus = 1 / jobs if shares else 0
    cpus = max(1, int(min(shares))) if shares else 1
    # The devices of a worker, not of whoever started the study: that may be a laptop.
    found = ray.get(ray.remote(num_gpus=gpus, num_cpus=cpus)(hardware.detect).remote())
    return Cluster(ray, found, gpus, cpus)


def _result(ray: Any, ref: Any) -> tuple[int, str]:
    try:
        found: tuple[int, str] = ray.get(ref)
    except (ray.exceptions.TaskCancelledError, KeyboardInterrupt):
        return worker.STOPPED, ""
    except ray.exceptions.RayError as error:
        return worker.FAILED, in_short(error)
    return found
