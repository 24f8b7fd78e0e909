"""What a population costs in time, memory and disk, before it runs.

All of it is an estimate, from the speeds in `speeds.toml`, which says where and when each was measured: Rainbow and C51
on Breakout, on two machines. What to train, and how it is cut into populations, is `plan`'s business.
"""

import math
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

from lookrep.envs.names import MINATAR_CHANNELS

Suite = Literal["minatar", "atari", "gym", "own"]
Kind = Literal["gpu", "cpu"]

MINATAR_CELLS = 100
ATARI_OBSERVATION_BYTES = 84 * 84
OWN_OBSERVATION_BYTES = 1_000  # of environments that only their authors know
FRAMES_SHRINK = 15  # on disk, in the game where they shrink least (of three tried)
ENTRY_BYTES = 10  # action, reward, flags, and a priority

PARAMETERS = {"minatar": 152_000, "atari": 4_400_000, "gym": 152_000, "own": 152_000}  # of one network
TIMED_AS = {"gym": "atari", "own": "minatar"}  # stepped by the host, or on the device: speeds of others alike
METRICS_ROW_BYTES = 400
TIMED_UPDATES_PER_STEP = 0.25  # what the speeds were measured with; learning is most of the time
STARTUP_SECONDS = {"gpu": 25, "cpu": 12}  # starting a process, and compiling: typical, not measured anew
CHECKPOINT_SECONDS = 180  # an interruption costs at most this …
CHECKPOINT_BYTES_PER_SECOND = 1e9
CHECKPOINT_SHARE = 0.03  # … unless saving so often would take more than this share of the time

TABLE: dict[str, Any] = tomllib.loads((resources.files("lookrep.studies") / "speeds.toml").read_text())


@dataclass(frozen=True)
class Workload:
    """What the cost of a population depends on."""

    environments: tuple[str, ...]
    agents: int
    steps: int  # of each agent
    replay_capacity_steps: int
    updates_ratio: float  # K_R/K_L under Replicate, else 0
    log_interval_steps: int
    updates_per_step: float = TIMED_UPDATES_PER_STEP


def suite(env: str) -> Suite:
    """
    >>> suite("minatar/breakout"), suite("gym/CartPole-v1"), suite("my_envs:Corridor")
    ('minatar', 'gym', 'own')
    """
    match env.partition("/")[0]:
        case "minatar" | "atari" | "gym" as name:
            return name
    return "own"


def speed(suite: Suite, kind: Kind, agents: int) -> float:
    """Agent steps per second in all. Between two rows of the table it is interpolated on a logarithmic scale; beyond
    the largest population it stays what it is.

    >>> round(speed("minatar", "gpu", 32), -3), speed("minatar", "gpu", 2048)
    (481000.0, 1475000.0)
    """
    wanted = (TIMED_AS.get(suite, suite), kind)
    known = {row["agents"]: row["steps_per_second"] for row in TABLE["speeds"] if (row["suite"], row["kind"]) == wanted}
    low = max(count for count in known if count <= agents)
    high = min((count for count in known if count > agents), default=low)
    if high == low or low == agents:
        return float(known[low])
    share = math.log(agents / low) / math.log(high / low)
    return float(known[low] * (known[high] / known[low]) ** share)


def seconds(work: Workload, kind: Kind) -> float:
    """From its start to its end, alone on the device."""
    rate, replicate = speed(suite(work.environments[0]), kind, work.agents), TABLE["replicate"]
    slower = 1 + (replicate["times"] - 1) * work.updates_ratio / replicate["ratio"]
    slower *= max(1.0, work.updates_per_step / TIMED_UPDATES_PER_STEP)
    return STARTUP_SECONDS[kind] + work.agents * work.steps / rate * slower


def agent_bytes(env: str, replay_capacity_steps: int) -> int:
    """One agent's state: mostly replay. Then two networks, and Adam's moments of both.

    >>> agent_bytes("atari/Pong", 1_000_000) / 1e9
    7.1716
    """
    networks = PARAMETERS[suite(env)] * 4 * 6
    return replay_capacity_steps * (_observation_bytes(env) + ENTRY_BYTES) + networks


def memory_bytes(work: Workload) -> int:
    each = [agent_bytes(env, work.replay_capacity_steps) for env in work.environments]
    return sum(each) * work.agents // len(each)


def disk_bytes(work: Workload) -> int:
    """What is left of a finished population: metrics, and both networks of every agent."""
    rows = -(-work.steps // work.log_interval_steps)
    return work.agents * (rows * METRICS_ROW_BYTES + 2 * 4 * PARAMETERS[suite(work.environments[0])])


def disk_under_way_bytes(work: Workload) -> int:
    """Two checkpoints, and the log of frames that both look back on."""
    written = _checkpoint_bytes(work)
    return 2 * written + (memory_bytes(work) - written) // FRAMES_SHRINK


def checkpoint_interval_steps(work: Workload, kind: Kind) -> int:
    """Agent steps between checkpoints, a multiple of the log interval: they are made at rows of metrics."""
    rate = speed(suite(work.environments[0]), kind, work.agents) / work.agents
    writing = _checkpoint_bytes(work) / CHECKPOINT_BYTES_PER_SECOND
    every = max(CHECKPOINT_SECONDS, writing / CHECKPOINT_SHARE) * rate
    return max(1, int(every / work.log_interval_steps)) * work.log_interval_steps


def _checkpoint_bytes(work: Workload) -> int:
    """Emulators' frames are written as they come, beside the training: no checkpoint waits for them."""
    logged = suite(work.environments[0]) == "atari"
    return memory_bytes(work) - logged * work.agents * work.replay_capacity_steps * ATARI_OBSERVATION_BYTES


def _observation_bytes(env: str) -> int:
    match suite(env):
        case "minatar":
            channels = MINATAR_CHANNELS[env.removeprefix("minatar/")]
            return -(-MINATAR_CELLS * channels // 8)
        case "atari":
            return ATARI_OBSERVATION_BYTES
        case _:
            return OWN_OBSERVATION_BYTES
