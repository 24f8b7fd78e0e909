"""Record what short runs of every kind write, and compare later code with it to the bit.

    python benchmarks/golden.py record out/golden          # on the code to keep
    python benchmarks/golden.py compare out/golden         # on the changed code, same machine and versions

Each run goes through the `lookrep train` command in a process of its own. Metrics are compared as text, column by
column, without speeds; new columns are allowed and named. A resumed run is stopped at half of its steps by `--steps`.
Bits hold on one machine and one version of JAX, so the record is not part of the repository.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MINATAR = (
    "--agents 2 --steps 3_000 --warmup-steps 600 --replay-capacity-steps 2_000 --log-interval-steps 1_000 "
    "--epsilon-decay-steps 1_000 --target-period-updates 100 --network cnn4:16"
)
HOST = "--steps 2_000 --warmup-steps 400 --replay-capacity-steps 1_000 --log-interval-steps 500 --agents 2"
ATARI = (
    "--steps 600 --warmup-steps 200 --replay-capacity-steps 400 --log-interval-steps 200 --target-period-updates 25 "
    "--network nature:32 --agent rainbow"
)
LR = "--target replicate --replicate-updates 20 --replicate-batch-size 32 --replicate-learning-rate 0.00025"
RUNS: dict[str, str] = {
    "dqn-hard": f"minatar/breakout --agent dqn {MINATAR}",
    "double-dqn-polyak": f"minatar/freeway --agent double-dqn --target polyak {MINATAR}",
    "c51-polyak-4": f"minatar/asterix --agent c51 --target polyak --polyak-period-updates 4 {MINATAR}",
    "qr-frozen": f"minatar/space_invaders --agent qr-dqn --target frozen {MINATAR}",
    "iqn-replicate": f"minatar/breakout --agent iqn {LR} {MINATAR}",
    "rainbow-replicate-one": f"minatar/breakout --agent rainbow {LR} --replicate-actions one {MINATAR}",
    "rainbow-replicate-summed": f"minatar/seaquest --agent rainbow {LR} --replicate-actions all-summed {MINATAR}",
    "rainbow-until-gap": f"minatar/breakout {LR} --replicate-until-gap 0.05 --replicate-max-updates 30 "
    f"--replicate-sampler uniform {MINATAR}",
    "rainbow-from-online": f"minatar/breakout {LR} --replicate-start online --replicate-reset-optimizer {MINATAR}",
    "full-rainbow-bf16": f"minatar/breakout --agent full-rainbow --precision bf16 {MINATAR}",
    "other-network": f"minatar/breakout {LR} --target-network mlp:16 {MINATAR}",
    "gym-dqn-hard": f"gym/CartPole-v1 --agent dqn {HOST}",
    "gym-c51-replicate": f"gym/CartPole-v1 --agent c51 {LR} --target-period-updates 50 --groups 2 {HOST}",
    "gym-full-rainbow": f"gym/CartPole-v1 --agent full-rainbow --precision bf16 {HOST}",
    "atari-hard": f"atari/Breakout {ATARI}",
    "atari-games": f"atari/Breakout,Freeway --agents 2 {LR.replace('0.00025', '6.25e-5')} {ATARI}",
    "atari-groups-bf16": f"atari/Pong --agents 4 --groups 2 --workers 2 --target polyak --precision bf16 {ATARI}",
}
RESUMED = {"rainbow-replicate-one": 1_000, "gym-c51-replicate": 1_000, "atari-groups-bf16": 400}
SPEEDS = {"steps_per_second"}
SAME = "the same"


def main() -> int:
    action, folder = sys.argv[1], Path(sys.argv[2])
    chosen = sys.argv[3:] or list(RUNS)
    if action == "record":
        for name in chosen:
            rows = trained(name, RUNS[name])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.json").write_text(json.dumps(rows))
            print(f"{name}: {len(rows)} rows", flush=True)
        return 0
    answers: dict[str, str] = {}
    for name in chosen:
        wanted = json.loads((folder / f"{name}.json").read_text())
        for what, stop_at_steps in ((name, None), (f"{name}, resumed", RESUMED.get(name))):
            if what == name or stop_at_steps is not None:
                answers[what] = compared(wanted, trained(name, RUNS[name], stop_at_steps))
                print(f"{what}: {answers[what]}", flush=True)
    same = sum(answer.startswith(SAME) for answer in answers.values())
    print(f"{same} of {len(answers)} the same")
    return 0 if same == len(answers) else 1


def trained(name: str, flags: str, stop_at_steps: int | None = None) -> list[dict[str, object]]:
    """The rows that a run writes."""
    with tempfile.TemporaryDirectory() as temporary:
        out = str(Path(temporary) / name)
        words = flags.split()
        if stop_at_steps is None:
            lookrep("train", *words, "--out", out)
        else:
            at = words.index("--steps") + 1
            lookrep("train", *words[:at], str(stop_at_steps), *words[at + 1 :], "--out", out)
            lookrep("train", "--resume", out, "--steps", words[at])
        lines = (Path(out) / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in SPEEDS} for line in lines]


def lookrep(*words: str) -> None:
    command = [sys.executable, "-m", "lookrep.cli", *words, "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")


def compared(wanted: list[dict[str, object]], found: list[dict[str, object]]) -> str:
    """Whether all is the same; if not, every column that is not, with its rows and the first two values."""
    if len(wanted) != len(found):
        return f"{len(found)} rows instead of {len(wanted)}"
    different: dict[str, list[str]] = {}
    for number, (old, new) in enumerate(zip(wanted, found, strict=True), 1):
        for column, value in old.items():
            now = new.get(column, "missing")
            if now != value:
                values = "" if column in different else f" ({now} instead of {value})"
                different.setdefault(column, []).append(f"{number}{values}")
    if different:
        return "; ".join(f"{column} in rows {', '.join(rows)}" for column, rows in different.items())
    extra = [column for column in found[0] if column not in wanted[0]] if found else []
    return f"{SAME}, and new columns {', '.join(extra)}" if extra else SAME


if __name__ == "__main__":
    sys.exit(main())
