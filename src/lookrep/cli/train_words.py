"""The words after `lookrep train`, put in order before flags are read: where the environment stands, and flags that
would have no effect. What they mean is `lookrep.cli.train`'s business."""

from collections.abc import Sequence

from lookrep.cli.parsing import spelt
from lookrep.config import AgentConfig
from lookrep.errors import UserError

# Flags that only some targets or heads look at.
OF_TARGET = {
    "tau": ("polyak",),
    "polyak_period_updates": ("polyak",),
    "target_period_updates": ("hard", "replicate"),
    "replicate_updates": ("replicate",),
    "replicate_actions": ("replicate",),
    "replicate_batch_size": ("replicate",),
    "replicate_learning_rate": ("replicate",),
    "replicate_adam_epsilon": ("replicate",),
    "replicate_sampler": ("replicate",),
    "replicate_reset_optimizer": ("replicate",),
    "replicate_start": ("replicate",),
    "replicate_until_gap": ("replicate",),
    "replicate_max_updates": ("replicate",),
}
OF_HEAD = {"atoms": ("c51",), "v_min": ("c51",), "v_max": ("c51",), "quantiles": ("qr", "iqn")}
YES_OR_NO = ("yes", "true", "on", "1", "no", "false", "off", "0")
OURS = {"target": ("hard", "polyak", "replicate", "frozen"), "head": ("dqn", "c51", "qr", "iqn")}


def in_order(words: Sequence[str], arguments: type) -> list[str]:
    """The same words with the environment behind `--env`, and whole numbers written out.

    >>> from lookrep.config import RunConfig
    >>> in_order(["--agents", "2", "minatar/breakout", "--steps", "1e6"], RunConfig)
    ['--env', 'minatar/breakout', '--agents', '2', '--steps', '1000000']
    """
    environments: list[str] = []
    ordered: list[str] = []
    before = None
    for piece in spelt(words, arguments, "lookrep train"):
        flag, typed = piece.flag, piece.words
        if flag is None and before and typed[0].lower() in YES_OR_NO:
            raise UserError(f"{before} takes no value: write {before}, or --no-{before.removeprefix('--')} for no")
        before = flag.name if flag and flag.switch else None
        if flag is None and typed[0] not in ("-h", "--help"):
            environments += typed
        elif flag and flag.name == "--env":
            environments += piece.values
        else:
            ordered += typed
    if len(environments) > 1:
        raise UserError(f"train on one of {', '.join(environments)}: several Atari games are atari/Breakout,Freeway")
    return (["--env", *environments] if environments else []) + ordered


def without_effect(words: Sequence[str], settings: AgentConfig) -> list[str]:
    """A line for each flag that nothing will look at.

    >>> from lookrep.config import preset
    >>> without_effect(["--tau", "0.1"], preset("dqn"))
    ['--tau has no effect with --target hard']
    """
    given = {word.partition("=")[0].removeprefix("--").replace("-", "_") for word in words if word.startswith("--")}
    found = []
    for what, value, table in (
        ("target", settings.target.target, OF_TARGET),
        ("head", settings.learning.head, OF_HEAD),
    ):
        for name, wanted in table.items():
            if name in given and value in OURS[what] and value not in wanted:
                found.append(f"--{name.replace('_', '-')} has no effect with --{what} {value}")
    return found
