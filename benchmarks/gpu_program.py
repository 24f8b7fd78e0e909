"""What XLA makes of an Atari agent's programs for a GPU, without one: seconds to compile, and every kernel with its
bytes. Needs JAX with its CUDA plugin (`pip install 'jax[cuda13]'`), and a description of the GPU.

    JAX_PLATFORMS=cpu python benchmarks/gpu_program.py benchmarks/gpu/h200.pbtxt learn --agents 4 --precision bf16

A description is written by XLA where there is such a GPU: XLA_FLAGS=--xla_dump_to=FOLDER, *.gpu_target_config.pbtxt. It
belongs to that version of JAX; an older one says which lines it does not know. Products are not timed in variants here,
so their kernels may differ from those of a real run.
"""

import argparse
import dataclasses
import math
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from lookrep.config import RunConfig, preset
from lookrep.envs.host import check
from lookrep.training.host import programs
from lookrep.training.host.buffers import ObservationBuffer, packet_row
from lookrep.training.population import Population, agent_key

BYTES = {"f32": 4, "bf16": 2, "u8": 1, "s32": 4, "u32": 4, "pred": 1}
NOTHING_TO_DO = ("parameter", "bitcast", "constant", "tuple", "get-tuple-element")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpu", type=Path, help="description of the GPU")
    parser.add_argument("program", choices=("observe", "learn", "follow"))
    parser.add_argument("--agents", type=int, default=1)
    parser.add_argument("--agent", default="dopamine-rainbow", help="preset")
    parser.add_argument("--game", default="Breakout")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--least-megabytes", type=float, default=0.0, help="leave out what moves less")
    words = parser.parse_args()

    lowered = lower(words)
    began, worked = time.perf_counter(), time.process_time()
    text = lowered.compile().as_text()
    seconds, of_a_core = time.perf_counter() - began, time.process_time() - worked
    rows = kernels(text)
    for row in rows:
        if row["megabytes"] >= words.least_megabytes:
            print("{megabytes:9.2f} MB  {kind:8} {shape:44.44} {name:38.38} {source}".format(**row))
    moved = sum(row["megabytes"] for row in rows)
    print(f"{len(rows)} kernels, {moved:.0f} MB at most; compiled in {seconds:.1f} s ({of_a_core:.1f} of a core)")


def lower(words: argparse.Namespace) -> Any:
    """The program with arguments that are on that GPU, as far as the compiler knows."""
    described = topologies.get_topology_desc("", "cuda", target_config=words.gpu.read_text(), topology="1x1x1")
    place = SingleDeviceSharding(described.devices[0])
    name, spec, settings = f"atari/{words.game}", check(f"atari/{words.game}"), preset(words.agent)
    network = dataclasses.replace(settings.network, precision=words.precision)
    replay = dataclasses.replace(settings.replay, replay_capacity_steps=4000, warmup_steps=1000)
    settings = dataclasses.replace(settings, network=network, replay=replay)
    config = RunConfig(name, words.agent, words.agents, steps=10**6, settings=settings)
    # What is asked of the backend decides how networks are built. There is no host memory to pin here.
    jax.default_backend = lambda: "gpu"
    programs.action_memory = lambda: None
    functions = programs.GroupFunctions(Population(config, spec, words.agents, spec.frame_stack), spec)
    numbers = jnp.arange(words.agents, dtype=jnp.uint32)
    snapshot = jax.eval_shape(lambda: functions.new(jax.vmap(partial(agent_key, 0))(numbers), None))
    compiled = programs.compiler(functions, snapshot.learner)()
    learner, copies = (jax.eval_shape(f, snapshot.learner) for f in (compiled.pack, compiled.copies))
    buffer = jax.eval_shape(
        lambda seen: ObservationBuffer.begin(seen, spec, functions.cycle_steps), snapshot.observation
    )
    packet = jax.ShapeDtypeStruct((words.agents, packet_row(spec).itemsize), jnp.uint8)
    arguments = {
        "observe": (copies[0] or learner.online, buffer, snapshot.greedy, packet, None, None),
        "learn": (learner, *copies, buffer),
        "follow": (learner,),
    }[words.program]
    placed = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place), arguments)
    return getattr(compiled, words.program).lower(*placed)


def kernels(text: str) -> list[dict[str, Any]]:
    """What is launched, in this order, with the bytes of all that goes in and out, used or not."""
    shapes: dict[str, str] = {}
    found = []
    for line in text[text.index("\nENTRY") :].splitlines():
        match = re.match(r"\s+(?:ROOT )?%([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)", line)
        if match is None:
            continue
        name, shape, kind, rest = match.groups()
        shapes[name] = shape
        if kind in NOTHING_TO_DO:
            continue
        inputs = re.findall(r"%([\w.\-]+)", rest.split("), ")[0])
        moved = nbytes(shape) + sum(nbytes(shapes.get(one, "")) for one in inputs)
        source = re.search(r'op_name="[^"]*?([^/"]*/[^/"]*)"', line)
        kind = kind if kind != "fusion" else re.findall(r"kind=(\w+)", line)[0]
        where = source[1] if source else ""
        found.append({"name": name, "kind": kind, "shape": shape, "megabytes": moved / 1e6, "source": where})
    return found


def nbytes(shape: str) -> int:
    """Of an array, or of a tuple of them, as HLO writes it.

    >>> nbytes("(f32[2,3]{1,0}, u8[5]{0}, s32[])")
    33
    """
    parts = re.findall(r"\b(\w+)\[([\d,]*)\]", shape)
    return sum(BYTES[dtype] * math.prod(map(int, filter(None, sides.split(",")))) for dtype, sides in parts)


if __name__ == "__main__":
    main()
