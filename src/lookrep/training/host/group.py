"""One group of agents whose environments are on the host: its arrays on the device, its buffers, its steps.

A step is `act`, then `observe` once the environments have played; `learn` makes the update that a finished cycle is
due. Which group is served next is decided in `lookrep.training.host.scheduler`; what the device computes is in
`lookrep.training.host.programs`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lookrep.config import RunConfig
from lookrep.envs.host import EnvPool, EnvSpec, VectorStep
from lookrep.replay.frames import HostFrames
from lookrep.runs.frame_log import FrameLog
from lookrep.targets import Schedule
from lookrep.training.host.buffers import ObservationBuffer, packet_row, pinned_buffer, write_packet
from lookrep.training.host.programs import DRAWN_STEPS, GroupPrograms, Snapshot, action_memory
from lookrep.training.host.stopwatch import Stopwatch


class ExplorationDraws(NamedTuple):
    """What exploration will do in some steps to come, drawn for all of them at once."""

    first_step: int
    explores: np.ndarray  # bool [DRAWN_STEPS, n]
    action: np.ndarray


class GroupRunner:
    """Steps one group. What it has to do with others is the pool, where its environments are group `number`.

    agents: which ones of the population
    schedule: when targets have their turns
    frames: the host's memory for frames, if they are not kept on the device; the snapshot says which ring is its own
    log: where frames are written that checkpoints leave out
    filled_from: the step at which its replay was empty
    """

    def __init__(
        self,
        *,
        number: int,
        agents: slice,
        config: RunConfig,
        spec: EnvSpec,
        schedule: Schedule,
        programs: GroupPrograms,
        snapshot: Snapshot,
        pool: EnvPool,
        watch: Stopwatch,
        frames: HostFrames | None = None,
        log: FrameLog | None = None,
        filled_from: int = 0,
    ) -> None:
        self._warm_at = filled_from + config.settings.replay.warmup_steps
        self.number, self.agents = number, agents
        self._settings, self._spec, self._schedule = config.settings, spec, schedule
        self._cycle_steps = config.settings.learning.steps_per_update
        self._programs, self._pool, self._watch = programs, pool, watch
        self._frames, self._log = frames, log
        row = packet_row(spec)
        self._packet, view = pinned_buffer((agents.stop - agents.start, row.itemsize))
        self._rows = view.view(row)[:, 0]  # of the packet, to write into
        self.load(snapshot)

    def load(self, snapshot: Snapshot) -> None:
        """Take over arrays, which are given away: at step 0, from a checkpoint, or changed ones of its own."""
        self.steps, self._updates = int(snapshot.agent_steps), int(snapshot.online_updates)
        self.update_due = False  # whether a cycle has ended that was not learnt from
        # Copies of what never changes: a compiled function that updates the state takes its arrays away.
        self._keys, self._legal = jax.tree.map(jnp.array, (snapshot.keys.act, snapshot.legal))
        self._draws: ExplorationDraws | None = None
        self._ring = None if self._frames is None else int(snapshot.replay.observation)
        self._copies = self._programs.copies(snapshot.learner)
        self._learner = self._programs.pack(snapshot.learner)
        self._buffer = ObservationBuffer.begin(snapshot.observation, self._spec, self._cycle_steps)
        self._greedy = jax.device_put(snapshot.greedy, action_memory())
        self._action = np.zeros(len(snapshot.greedy), np.int32)  # what its environments play
        # On the host, where it has a use for them: what is seen now, and what was seen in the cycle under way.
        self._frame = np.array(self._buffer.frames[-1]).reshape(len(self._action), -1)
        self._cycle: list[np.ndarray] = []

    def snapshot(self) -> Snapshot:
        """All its arrays, which the next step may take away."""
        learner = self._programs.unpack(self._learner)
        return Snapshot(*learner, observation=self._buffer.observation, greedy=self._greedy)

    def begin(self) -> None:
        """Show the networks the very first observation."""
        observation, nothing = self._pool.observation(self.number), np.zeros(len(self._action), np.float32)
        final = observation if self._spec.keeps_final else None
        self._show(VectorStep(observation, nothing, nothing > 0, nothing > 0, final, nothing > 0))

    def actions_ready(self) -> bool:
        """Whether `act` would not have to wait for the device."""
        greedy: Any = self._greedy
        return bool(greedy.is_ready())  # which JAX's type hints do not know

    def act(self) -> None:
        """Send the environments their actions: they are stepped from here on, until `observe`."""
        self._watch.start()
        self._action = self._chosen()
        self._watch.lap("waiting for actions")
        self._pool.send(self.number, self._action)
        if self._log is not None:
            self._log.add(self.agents.start, self._frame)
        self._watch.lap("sending them")

    def observe(self) -> None:
        """Receive what the actions led to, and show it to the networks."""
        if self._frames is not None:
            self._cycle.append(self._frame)
        self._watch.start()
        step = self._pool.receive(self.number)
        self._watch.lap("waiting for environments")
        self.steps += 1
        self._show(step)
        self._watch.lap("launching networks")
        self._pool.log(self.number)  # while the device computes
        self.update_due = self.steps % self._cycle_steps == 0

    def learn(self) -> None:
        """What follows a cycle, if one has just ended: an update, or none in the warm-up."""
        if not self.update_due:
            return
        self._watch.start()
        if self._frames is not None and self._ring is not None:
            # Nothing may be reading what is about to be overwritten.
            jax.block_until_ready(self._learner)
            position = (self.steps - len(self._cycle)) % self._settings.replay.replay_capacity_steps
            self._frames.store(self._ring, position, np.stack(self._cycle))
            self._cycle.clear()
        if self.steps <= self._warm_at:
            self._learner = self._programs.remember(self._learner, self._buffer)
        else:
            online, target = self._copies
            self._learner, online = self._programs.learn(self._learner, online, target, self._buffer)
            self._updates += self._settings.learning.updates_in_a_row
            if self._schedule.due(self._updates):
                self._learner, target = self._programs.follow(self._learner)
            self._copies = online, target
        self.update_due = False
        self._watch.lap("launching updates")

    def measure(self) -> dict[str, np.ndarray]:
        """A row of metrics per agent since the last one."""
        self._learner, row = self._programs.measure(self._learner)
        found: dict[str, np.ndarray] = jax.device_get(row)
        return found

    def close(self) -> None:
        if self._frames is not None and self._ring is not None:
            self._frames.drop(self._ring)

    def _chosen(self) -> np.ndarray:
        """Every agent's action in this step: what it thinks best, or what exploration drew."""
        if self._draws is None or not 0 <= self.steps - self._draws.first_step < DRAWN_STEPS:
            draws = self._programs.draw(self._keys, np.int32(self.steps), self._legal)
            self._draws = ExplorationDraws(self.steps, *jax.device_get(draws))
        now = self.steps - self._draws.first_step
        return np.where(self._draws.explores[now], self._draws.action[now], np.asarray(self._greedy))

    def _show(self, step: VectorStep) -> None:
        """The next `_greedy` is what the networks think best to do about this step."""
        # What was in the packet before has been read: the actions that followed from it are known.
        write_packet(self._rows, self._action, step)
        if self._log is not None or self._frames is not None:
            self._frame = step.observation.reshape(len(self._action), -1).copy()
        online, _ = self._copies
        noise = (self._keys, np.int32(self.steps)) if self._settings.network.noisy else None
        self._buffer, self._greedy = self._programs.observe(
            self._learner.online if online is None else online,
            self._buffer,
            self._greedy,
            self._packet,
            noise,
            self._legal,
        )
