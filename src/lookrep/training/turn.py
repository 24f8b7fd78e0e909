"""What a group of agents whose environments are on the host does, step by step, seen from the host.

A `Group` lasts as long as a run is under way; a `Turn` is its part in one advance: `act`, `look`, and `learn` where an
update is due. Whose turn it is, and everything between two advances, is `lookrep.training.hosted`'s; what runs on the
device, `lookrep.training.group`'s.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from lookrep.hosted.workers import Seen, Workers
from lookrep.training.frame_log import FrameLog
from lookrep.training.group import CHANCES, TAIL, Copies, Eyes, GroupState, Packed, Parcel, Programs
from lookrep.training.host_frames import HostFrames
from lookrep.training.pieces import Pieces
from lookrep.training.stopwatch import Stopwatch
from lookrep.training.window import Window


class Chances(NamedTuple):
    """What exploration will do in some steps to come, drawn for all of them at once: [steps, n]."""

    explores: np.ndarray
    action: np.ndarray
    first_step: int


@dataclass
class Group:
    """A group under way. In an advance its state is the turn's, and `state` is not to be used."""

    state: GroupState
    act_keys: jax.Array  # of its state, which never change
    legal: jax.Array | None
    eyes: Eyes
    greedy: jax.Array
    frame: np.ndarray  # [n, cells], on the host: what is seen now, where the host has a use for it
    past: list[np.ndarray]  # … and before, in the cycle under way
    ring: int | None  # which of the host's rings has its frames
    copies: Copies
    chances: Chances
    log: FrameLog | None  # of frames, where checkpoints leave them out
    window: Window | None  # where the device sees frames; None: they are handed over


class Rules(NamedTuple):
    """What holds for all groups of a run."""

    draw_chances: Callable[..., Any]
    noisy: bool
    packs_frames: bool  # with what an action led to
    frames: HostFrames | None  # where they are kept, if not on the device
    capacity_steps: int
    steps_per_update: int
    warmup_steps: int
    target_period_updates: int | None
    watch: Stopwatch  # of the thread that advances


class Turn:
    """A group in one advance."""

    def __init__(self, rules: Rules, workers: Workers, number: int, group: Group, programs: Programs) -> None:
        self.steps = int(group.state.agent_steps)
        self._updates = int(group.state.online_updates)
        self.number, self.due = number, False  # whether a cycle has ended that was not learnt from
        self._rules, self._workers = rules, workers
        self._group, self._programs = group, programs
        self._packed: Packed = programs.pack(group.state)
        self._action = np.zeros(0, np.int32)  # what its environments play

    def has_decided(self) -> bool:
        """Whether `act` would not have to wait for the device."""
        greedy: Any = self._group.greedy
        return bool(greedy.is_ready())  # which JAX's type hints do not know

    def act(self) -> None:
        """Its environments play from here on, until the next look."""
        group, watch = self._group, self._rules.watch
        watch.start()
        self._action = self._choice()
        watch.lap("waiting for actions")
        self._workers.send(self.number, self._action)
        if group.log is not None:
            group.log.add(group.frame)
        watch.lap("sending them")

    def look(self) -> None:
        """At what its actions led to."""
        rules, group = self._rules, self._group
        if rules.frames is not None:
            group.past.append(group.frame)
        rules.watch.start()
        result = self._workers.receive(self.number)
        rules.watch.lap("waiting for environments")
        self.steps += 1
        network = group.copies.online or self._packed.online
        look_at(rules, group, self._programs, network, self._action, result, self.steps)
        rules.watch.lap("launching looks")
        self._workers.log(self.number)  # while the device is looking
        self.due = self.steps % rules.steps_per_update == 0

    def learn(self) -> None:
        """What follows a cycle, if one has just ended: an update, or none in the warm-up."""
        if not self.due:
            return
        rules, group, programs = self._rules, self._group, self._programs
        rules.watch.start()
        if rules.frames is not None and group.ring is not None:
            # Nothing may be reading what is about to be overwritten.
            jax.block_until_ready(self._packed)
            position = (self.steps - len(group.past)) % rules.capacity_steps
            rules.frames.store(group.ring, position, np.stack(group.past))
        group.past.clear()
        if self.steps <= rules.warmup_steps:
            self._packed = programs.remember(self._packed, group.eyes)
        else:
            online, target = group.copies
            self._packed, online = programs.learn(self._packed, online, target, group.eyes)
            self._updates += 1
            if rules.target_period_updates is not None and self._updates % rules.target_period_updates == 0:
                self._packed, target = programs.turn(self._packed)
            group.copies = Copies(online, target)
        self.due = False
        rules.watch.lap("launching updates")

    def end(self) -> None:
        """The group's state is whole again."""
        self._group.state = self._programs.unpack(self._packed)

    def _choice(self) -> np.ndarray:
        """Every agent's action in this step: what it thinks best, or what exploration drew."""
        group, step = self._group, self.steps
        if not 0 <= step - group.chances.first_step < CHANCES:
            draws = self._rules.draw_chances(group.act_keys, np.int32(step), group.legal)
            explores, random = jax.device_get(draws)
            group.chances = Chances(explores, random, step)
        now = step - group.chances.first_step
        return np.where(group.chances.explores[now], group.chances.action[now], np.asarray(group.greedy))


def look_at(
    rules: Rules, group: Group, programs: Programs, network: Pieces, action: np.ndarray, result: Seen, step: int
) -> None:
    """Show a group what its actions led to; what it thinks best to do about it will be in `greedy`."""
    parcel = _parcel(rules, group, action, result)
    noise = (group.act_keys, np.int32(step)) if rules.noisy else None
    group.eyes, group.greedy = programs.look(network, group.eyes, group.greedy, parcel, noise, group.legal)


def _parcel(rules: Rules, group: Group, action: np.ndarray, result: Seen) -> Parcel:
    """What travels to the device in each step. Frames go in one piece with what the actions led to: each costs."""
    observation = result.observation.reshape(len(action), -1)
    if not rules.packs_frames:
        outcome = np.stack([action, result.reward, result.terminated, result.truncated], axis=1, dtype=np.float32)
        return result.observation.copy(), outcome, _led_to(result)
    cells = observation.shape[1]
    # What was in the window has been read: the actions that followed from it are known.
    parcel = np.empty((len(action), cells + TAIL), np.uint8) if group.window is None else group.window.view
    parcel[:, :cells] = observation
    parcel[:, cells] = action
    parcel[:, cells + 1] = result.terminated
    parcel[:, cells + 2] = result.truncated
    parcel[:, cells + 4 :] = result.reward[:, None].view(np.uint8)
    if group.log is not None or rules.frames is not None:
        group.frame = observation.copy()
    return parcel if group.window is None else group.window.array


def _led_to(result: Seen) -> np.ndarray | None:
    """Where the actions led: the observation now, or the last one of the episode that ended."""
    if result.final_observation is None:
        return None
    led_to = result.observation.copy()
    ended = result.terminated | result.truncated
    led_to[ended] = result.final_observation[ended]
    return led_to
