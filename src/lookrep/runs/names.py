"""Names of the files in a run's folder, and how to tell a study's. Nothing is imported here, so that everybody can."""

CONFIG = "config.json"
METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"
MANIFEST = "manifest.json"  # of a checkpoint, written last: one that has it is whole
FRAMES = "replay"  # emulators' frames, which checkpoints leave out
EVENTS = "events.out.tfevents.*"
WANDB = "wandb.id"  # of the run in Weights & Biases, where it is logged there
UNSAVED = ".unsaved"  # an error ended the run before its first checkpoint: it can only start again
LOCK = ".lock"  # held by the process that trains
STUDY, POPULATIONS = "study.toml", "populations"  # a study's folder has its runs in the second


def of_step(agent_steps: int) -> str:
    """The folder of a checkpoint, inside `CHECKPOINTS`."""
    return f"{agent_steps:012d}"
