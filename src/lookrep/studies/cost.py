"""What a population costs in time, memory and disk, before it runs. Speeds are those of docs/performance.md.

Numbers that nobody has measured are marked as estimates, and so is everything computed from them. What to train,
and how it is cut into populations, is `lookrep.studies.plan`'s business.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

Suite = Literal["minatar", "atari", "own"]

MINATAR_CHANNELS = {"breakout": 4, "asterix": 4, "freeway": 7, "seaquest": 10, "space_invaders": 6}
MINATAR_CELLS = 100
ATARI_OBSERVATION_BYTES = 84 * 84
OWN_OBSERVATION_BYTES = 1_000  # of environments that only their authors know
FRAMES_SHRINK = 15  # on disk, in the game where they shrink least (of three tried)
ENTRY_BYTES = 10  # action, reward, flags, and a priority

PARAMETERS = {"minatar": 152_000, "atari": 4_400_000, "own": 152_000}  # of one network
METRICS_ROW_BYTES = 400
REPLICATE_UPDATE_COST = 0.9  # K_R/K_L = 0.1 takes 1.089 times as long as a hard copy
STARTUP_SECONDS = {"gpu": 25, "cpu": 12}  # starting a process, and compiling
CHECKPOINT_SECONDS = 180  # an interruption costs at most this …
CHECKPOINT_BYTES_PER_SECOND = 1e9
CHECKPOINT_SHARE = 0.03  # … unless saving so often would take more than this share of the time


class Speed(NamedTuple):
    """Agent steps per second in all, learning on."""

    suite: Suite
    kind: Literal["gpu", "cpu"]  # an NVIDIA H200, or two cores
    agents: int
    steps_per_second: float
    measured: bool = True


SPEEDS = (
    Speed("minatar", "gpu", 1, 31_000),
    Speed("minatar", "gpu", 16, 240_000),
    Speed("minatar", "gpu", 64, 900_000),
    Speed("minatar", "gpu", 512, 1_475_000),
    Speed("minatar", "cpu", 1, 2_000),
    Speed("atari", "gpu", 1, 870),
    Speed("atari", "gpu", 16, 7_500),
    Speed("atari", "cpu", 1, 60),
)


@dataclass(frozen=True)
class Workload:
    """What the cost of a population depends on."""

    environments: tuple[str, ...]
    agents: int
    steps: int  # of each agent
    replay_capacity_steps: int
    updates_ratio: float  # K_R/K_L under Replicate, else 0
    log_interval_steps: int


def suite(env: str) -> Suite:
    """
    >>> suite("minatar/breakout"), suite("atari/Pong"), suite("my_envs:Corridor")
    ('minatar', 'atari', 'own')
    """
    first = env.partition("/")[0]
    return "minatar" if first == "minatar" else "atari" if first == "atari" else "own"


def speed(suite: Suite, kind: Literal["gpu", "cpu"], agents: int) -> Speed:
    """Measured speeds, interpolated on a logarithmic scale; beyond the largest population they stay what they are.

    >>> round(speed("minatar", "gpu", 32).steps_per_second, -3)
    465000.0
    >>> speed("minatar", "gpu", 2048).steps_per_second, speed("atari", "gpu", 16).measured
    (1475000, True)
    """
    known = [row for row in SPEEDS if row.suite == ("minatar" if suite == "own" else suite) and row.kind == kind]
    measured = all(row.measured for row in known) and suite != "own"
    below = [row for row in known if row.agents <= agents][-1]
    above = next((row for row in known if row.agents > agents), None)
    if above is None or below.agents == agents:
        return Speed(suite, kind, agents, below.steps_per_second, measured)
    share = math.log(agents / below.agents) / math.log(above.agents / below.agents)
    found = below.steps_per_second * (above.steps_per_second / below.steps_per_second) ** share
    return Speed(suite, kind, agents, found, measured)


def seconds(work: Workload, kind: Literal["gpu", "cpu"]) -> float:
    """From its start to its end, alone on the device."""
    rate = speed(suite(work.environments[0]), kind, work.agents).steps_per_second
    return STARTUP_SECONDS[kind] + work.agents * work.steps / rate * (1 + REPLICATE_UPDATE_COST * work.updates_ratio)


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


def checkpoint_interval_steps(work: Workload, kind: Literal["gpu", "cpu"]) -> int:
    """Agent steps between checkpoints, a multiple of the log interval: they are made at rows of metrics."""
    rate = speed(suite(work.environments[0]), kind, work.agents).steps_per_second / work.agents
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
