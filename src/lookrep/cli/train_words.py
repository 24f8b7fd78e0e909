"""The words after `lookrep train`, put in order before flags are read: where the environment stands, and flags that
would have no effect. What they mean is `lookrep.cli.train`'s business."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, get_args

from lookrep.cli.parsing import Flag, Piece, spelt
from lookrep.config import RunConfig, TargetName, setting_groups
from lookrep.envs import on_host
from lookrep.errors import UserError

YES_OR_NO = ("yes", "true", "on", "1", "no", "false", "off", "0")


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


def settings_given(words: Sequence[str], arguments: type) -> dict[str, dict[str, Any]]:
    """The settings that flags name, group → field → value, where the value is of the right type: tyro refuses others.

    >>> settings_given(["--double", "--learning-rate", "1e-3", "--batch-size=64", "--agents", "2"], RunConfig)
    {'learning': {'double': True, 'learning_rate': 0.001, 'batch_size': 64}}
    """
    groups = setting_groups()
    found: dict[str, dict[str, Any]] = {}
    for piece in spelt(words, arguments, "lookrep train"):
        if piece.flag is None:
            continue
        name = piece.flag.name.removeprefix("--").replace("-", "_")
        if group := groups.get(name):
            with contextlib.suppress(ValueError):
                found.setdefault(group, {})[name] = _read(piece.flag, piece)
    return found


def _read(flag: Flag, piece: Piece) -> Any:
    if flag.switch:
        return not piece.words[0].startswith("--no-")
    (text,) = piece.values
    if text == "None" and type(None) in flag.options:
        return None
    kind: type = next((kind for kind in (int, float) if kind in flag.options), str)
    if kind is str and str not in flag.options and not any(text in get_args(choices) for choices in flag.options):
        raise ValueError(text)
    return kind(text)


def without_effect(words: Sequence[str], run: RunConfig) -> list[str]:
    """A line for each flag that nothing will look at.

    >>> without_effect(["--tau", "0.1"], RunConfig("minatar/breakout"))
    ['--tau has no effect with --target hard']
    """
    given = {word.partition("=")[0].removeprefix("--").replace("-", "_") for word in words if word.startswith("--")}
    given |= {name.removeprefix("no_") for name in given}
    found = []
    for name, reasons in WHY_NOT.items():
        why = next((why for reason in reasons if (why := reason(run))), None) if name in given else None
        if why:
            found.append(f"--{name.replace('_', '-')} has no effect {why}")
    return found


# What a flag has no effect with, in these settings; None where it has one.
Reason = Callable[[RunConfig], str | None]


def _of_target(*names: str) -> Reason:
    """What one's own rule looks at is not known."""

    def why(run: RunConfig) -> str | None:
        target = run.settings.target.target
        return f"with --target {target}" if target in get_args(TargetName) and target not in names else None

    return why


def _of_head(*names: str) -> Reason:
    def why(run: RunConfig) -> str | None:
        head = run.settings.learning.head
        return None if head in names else f"with --head {head}"

    return why


def _of_replicating(run: RunConfig) -> str | None:
    """Gradient steps on the target; a reset takes them, too."""
    return None if _resets(run) else _of_target("replicate")(run)


def _resets(run: RunConfig) -> bool:
    method = run.settings.method
    return method.reset_period_updates is not None and method.reset_updates > 0


def _of_adam_on_the_target(run: RunConfig) -> str | None:
    optimizer = run.settings.target.replicate_optimizer
    return None if optimizer == "adam" else f"with --replicate-optimizer {optimizer}"


def _of_adam(also: str) -> Reason:
    """Of the online network, and of the target's where it has no number of its own (`also`)."""

    def why(run: RunConfig) -> str | None:
        optimizer, target = run.settings.learning.optimizer, run.settings.target
        lent = getattr(target, also) is None and not (_of_replicating(run) or _of_adam_on_the_target(run))
        drawn = also == "replicate_learning_rate" and run.settings.method.regulariser == "parameters"
        return None if optimizer == "adam" or lent or drawn else f"with --optimizer {optimizer}"

    return why


def _of_one_architecture(run: RunConfig) -> str | None:
    """What `auto` is, is not known before the environment is."""
    network, target = run.settings.network.network, run.settings.network.target_network
    differ = target not in ("same", network) and "auto" not in (network, target)
    return f"with --target-network {target}, which cannot be a copy" if differ else None


def _unless(has_none: Callable[[RunConfig], bool], why: str) -> Reason:
    return lambda run: why if has_none(run) else None


def _of_suite(name: str, needed: Callable[[str], bool]) -> Reason:
    return lambda run: None if needed(run.env) else f"on {run.env}, only {name}"


ON_HOST = _of_suite("where environments run on the host (Atari, Gymnasium)", on_host)
ON_ATARI = _of_suite("on Atari", lambda env: env.startswith("atari/"))
GROWING = _unless(lambda run: run.settings.target.target_period_growth == 1.0, "without --target-period-growth")
TO_GAP = _unless(lambda run: run.settings.target.replicate_until_gap is None, "without --replicate-until-gap")
FIXED = _unless(lambda run: run.settings.target.replicate_until_gap is not None, "with --replicate-until-gap")
SYMMETRIC = _unless(lambda run: run.settings.method.symmetric, "with --symmetric, which takes the stored actions")
PRIORITISED = _unless(lambda run: not run.settings.replay.prioritised, "without --prioritised")
RESETTING = _unless(lambda run: run.settings.method.reset_period_updates is None, "without --reset-period-updates")
WEIGHED = _unless(
    lambda run: run.settings.method.regulariser == "none" and not run.settings.method.symmetric, "without --regulariser"
)
# The same function chooses and is read; noise and fractions, drawn anew, would make it two.
ALREADY_DOUBLE = _unless(
    lambda run: (
        run.settings.method.bootstrap == "online"
        and not run.settings.network.noisy
        and run.settings.learning.head != "iqn"
    ),
    "with --bootstrap online",
)
FALLING = _unless(
    lambda run: run.settings.exploration.epsilon_start == run.settings.exploration.epsilon_end,
    "where --epsilon-start is --epsilon-end",
)

# Flags that do not always have an effect: the first reason that holds is told. All others do, or are refused.
WHY_NOT: dict[str, tuple[Reason, ...]] = {
    "workers": (ON_HOST,),
    "groups": (ON_HOST,),
    "replay_memory": (ON_ATARI,),
    "sticky_actions": (ON_ATARI,),
    "life_loss_terminal": (ON_ATARI,),
    "double": (ALREADY_DOUBLE,),
    "learning_rate": (_of_adam("replicate_learning_rate"),),
    "adam_epsilon": (_of_adam("replicate_adam_epsilon"),),
    "atoms": (_of_head("c51"),),
    "v_min": (_of_head("c51"),),
    "v_max": (_of_head("c51"),),
    "quantiles": (_of_head("qr", "iqn"),),
    "epsilon_decay_steps": (FALLING,),
    "tau": (_of_target("polyak"),),
    "polyak_period_updates": (_of_target("polyak"),),
    "target_period_updates": (_of_target("hard", "replicate"),),
    "target_period_growth": (_of_target("hard", "replicate"),),
    "target_period_most_updates": (_of_target("hard", "replicate"), GROWING),
    "replicate_updates": (_of_target("replicate"), FIXED),
    "replicate_spread_updates": (_of_target("replicate"),),
    "replicate_actions": (_of_target("replicate"), SYMMETRIC),
    "replicate_batch_size": (_of_replicating,),
    "replicate_learning_rate": (_of_replicating, _of_adam_on_the_target),
    "replicate_adam_epsilon": (_of_replicating, _of_adam_on_the_target),
    "replicate_sampler": (_of_replicating, PRIORITISED),
    "replicate_reset_optimizer": (_of_target("replicate"),),
    "replicate_start": (_of_target("replicate"),),
    "replicate_until_gap": (_of_target("replicate"),),
    "replicate_max_updates": (_of_target("replicate"), TO_GAP),
    "replicate_optimizer": (_of_replicating,),
    "target_init": (_of_one_architecture,),
    "kappa": (WEIGHED,),
    "optimizer_at_turn": (_of_target("hard", "polyak", "replicate"),),
    "reset_updates": (RESETTING,),
}
