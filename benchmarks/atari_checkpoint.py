"""What a checkpoint of an Atari run costs: seconds that training waits, and bytes written. One JSON object per line.

    python benchmarks/atari_checkpoint.py --agents 16 --steps 250000 --checkpoints 5

Agents play at random (a warm-up that does not end), so that the emulators set the pace; the networks, and with them the
arrays of a checkpoint, have their real size. `without_log` is the same play with no frames written; compare it
with the last row before it, and only on a quiet machine.
"""

import argparse
import dataclasses
import json
import tempfile
import time
from pathlib import Path

import jax

from lookrep.config import RunConfig, preset
from lookrep.runs import checkpoint, names
from lookrep.training.host.engine import HostEngine, HostState


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="Breakout")
    parser.add_argument("--agents", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20_000, help="agent steps between two checkpoints")
    parser.add_argument("--checkpoints", type=int, default=3)
    parser.add_argument("--capacity", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where to write; default: a temporary folder")
    words = parser.parse_args()

    settings = preset("dopamine-rainbow")
    replay = dataclasses.replace(settings.replay, replay_capacity_steps=words.capacity, warmup_steps=10**9)
    settings = dataclasses.replace(settings, replay=replay)
    config = RunConfig(
        f"atari/{words.game}", "dopamine-rainbow", words.agents, steps=10**9 + 4, settings=settings,
        checkpoint_interval_steps=words.steps,
    )  # fmt: skip
    engine = HostEngine(config)
    with tempfile.TemporaryDirectory(dir=words.folder) as name:
        folder = Path(name)
        state = engine.place(None, {}, folder)
        for number in range(1, words.checkpoints + 1):
            report(engine, state, folder, number * words.steps, words.steps)
        engine.close(state)
        del state  # a GPU has room for its replay once
        began = time.perf_counter()
        found = checkpoint.restore_latest(folder / names.CHECKPOINTS, engine.shapes())
        state = engine.place(found.tree, found.meta, folder)
        wait(state)
        print(json.dumps({"restore_seconds": round(time.perf_counter() - began, 3)}))
        engine.close(state)
        del found, state
    state = engine.init()
    state, seconds = played(engine, state, words.steps)
    print(json.dumps({"without_log": True, "agent_steps_per_second": round(words.agents * words.steps / seconds)}))
    engine.close(state)


def wait(state: HostState) -> None:
    jax.block_until_ready([group.snapshot() for group in state.groups])


def played(engine: HostEngine, state: HostState, until_steps: int) -> tuple[HostState, float]:
    began = time.perf_counter()
    state = engine.advance(state, until_steps)
    wait(state)
    return state, time.perf_counter() - began


def report(engine: HostEngine, state: HostState, folder: Path, until_steps: int, steps: int) -> None:
    """Play up to a checkpoint, make it, and say what it cost."""
    _, seconds = played(engine, state, until_steps)
    began = time.perf_counter()
    tree, meta = engine.saved(state, folder)
    flushed = time.perf_counter()
    path = checkpoint.save(folder / names.CHECKPOINTS, until_steps, tree, meta)
    ended = time.perf_counter()
    new = [segment for segment in meta["frames"] if segment.end_step > until_steps - steps]
    agents = engine.config.agents
    row = {
        "agents": agents,
        "agent_steps": until_steps,
        "agent_steps_per_second": round(agents * steps / seconds),
        "waits_for_frames_seconds": round(flushed - began, 3),
        "writes_arrays_seconds": round(ended - flushed, 3),
        "new_frames_bytes_per_agent": sum(one.bytes for one in new) // agents,
        "new_frames_bytes_per_agent_uncompressed": steps * 84 * 84,
        "arrays_bytes_per_agent": (path / checkpoint.ARRAYS).stat().st_size // agents,
        "manifest_bytes": (path / names.MANIFEST).stat().st_size,
        "frames_bytes_on_disk_per_agent": sum(file.stat().st_size for file in folder.glob("replay/*.seg")) // agents,
        "segments": len(list(folder.glob("replay/*.seg"))),
    }
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
