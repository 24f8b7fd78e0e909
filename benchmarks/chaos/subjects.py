"""What is attacked: a run on MinAtar, one on Atari, a study, and a study whose variants share a program. All small."""

import json
from pathlib import Path

from chaos.world import Subject

STEPS, ROW_STEPS, SAVE_STEPS = 1600, 80, 160
SMALL = {
    "log_interval_steps": ROW_STEPS, "checkpoint_interval_steps": SAVE_STEPS, "warmup_steps": 400, "network": "mlp:8",
    "atoms": 5, "batch_size": 8, "replay_capacity_steps": 40_000, "target_period_updates": 30, "replicate_updates": 5,
    "replicate_batch_size": 8, "epsilon_decay_steps": 2000,
}  # fmt: skip
ATARI = SMALL | {
    "log_interval_steps": 40, "checkpoint_interval_steps": 80, "warmup_steps": 40, "batch_size": 4, "workers": 1,
    "replay_capacity_steps": 120, "target_period_updates": 4, "replicate_updates": 1, "replicate_batch_size": 4,
    "groups": 2, "agents": 2,
}  # fmt: skip
VARIANTS = {"hard": "hard", "learned": "replicate"}


def flags(settings: dict[str, object]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


def _go_on(out: Path) -> list[str]:
    return ["train", "--resume", str(out), "--quiet"]


def minatar(steps: int = STEPS) -> Subject:
    """Twenty rows and ten checkpoints, however long it is."""
    short = {"log_interval_steps": steps // 20, "checkpoint_interval_steps": steps // 10, "warmup_steps": steps // 4}
    words = ["train", "minatar/breakout", "--target=replicate", "--agents=2", f"--steps={steps}", "--seed=3", "--quiet"]
    return Subject(
        "MinAtar", lambda out: [*words, *flags(SMALL | short), "--out", str(out)], _go_on, lambda out: [out], alone=True
    )


def atari() -> Subject:
    words = ["train", "atari/Freeway", "--target=replicate", "--steps=480", "--seed=5", "--quiet"]
    return Subject(
        "Atari", lambda out: [*words, *flags(ATARI), "--out", str(out)], _go_on, lambda out: [out], alone=True
    )


def study(folder: Path, together: bool = False) -> Subject:
    """Two variants, at once in two processes, or in one program."""
    definition = folder / "two-targets.toml"
    lines = ['title = "Two targets"', 'environments = ["minatar/breakout"]', "seeds = 2", f"steps = {STEPS}"]
    lines += ["[overrides]", *(f"{name} = {json.dumps(value)}" for name, value in SMALL.items())]
    lines += [line for name, rule in VARIANTS.items() for line in (f"[variants.{name}]", f'target = "{rule}"')]
    definition.parent.mkdir(parents=True, exist_ok=True)
    definition.write_text("\n".join(lines) + "\n")
    how = ["--no-film", "--quiet", *(["--together=8"] if together else ["--jobs=2"])]
    return Subject(
        "joint program" if together else "study",
        lambda out: ["study", "run", str(definition), "--out", str(out), *how],
        lambda out: ["study", "run", str(out), *how],
        lambda out: [out / "populations" / f"minatar_breakout--{name}--0-1" for name in VARIANTS],
        alone=False,
    )
