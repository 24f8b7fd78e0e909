"""How bootstrapping is stabilised beyond the target's rule: the parts that `lookrep.methods` are composed of."""

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from lookrep.errors import UserError
from lookrep.importing import known_or_own

Bootstrap = Literal["target", "online", "smaller"]
Regulariser = Literal["none", "values", "function", "parameters", "churn"]
AtTurn = Literal["keep", "reset", "relative"]
MOST_NETWORKS = 100


@dataclass(frozen=True)
class MethodConfig:
    """What methods are composed of."""

    method: str = "plain"
    """a published method, as docs/methods.md lists them: settings for what follows and for the target; several: a+b"""
    bootstrap: Bootstrap | str = "target"
    """whose values are bootstrapped from: the target's, the online network's, for each action the smaller, or
    my_methods:mix"""
    regulariser: Regulariser | str = "none"
    """a term in the online loss: distance to the target in the chosen action's value, in function space (KL), in
    parameters; change since the last update on other states; or my_methods:term"""
    kappa: float = 1.0
    """the regulariser's weight"""
    optimizer_at_turn: AtTurn = "keep"
    """the online optimiser's state when the target has had a turn: kept, begun anew, or only Adam's clock set back"""
    averaged_networks: int = 1
    """the target is the mean of the online networks of so many turns: of copies (hard), or learned (replicate)"""
    shared_trunk: bool = False
    """of the target, only the last layer is its own; the others are the online network's"""
    symmetric: bool = False
    """with replicate, the target learns from rewards too, bootstrapping from the online network"""
    reset_period_updates: int | None = None
    """online updates after which the online network starts anew, and learns from the target first"""
    reset_updates: int = 1_000
    """… by so many steps of Replicate; 0: it learns from replayed rewards alone"""

    def __post_init__(self) -> None:
        known_or_own("bootstrap", self.bootstrap, get_args(Bootstrap))
        known_or_own("regulariser", self.regulariser, get_args(Regulariser))
        if not (self.kappa >= 0 and math.isfinite(self.kappa)):
            raise UserError(f"kappa = {self.kappa}: must be a number of at least 0")
        if not 1 <= self.averaged_networks <= MOST_NETWORKS:
            raise UserError(f"averaged_networks = {self.averaged_networks}: must be from 1 to {MOST_NETWORKS}")
        for name, least in (("reset_period_updates", 1), ("reset_updates", 0)):
            number = getattr(self, name)
            if number is not None and not least <= number < 2**31:
                raise UserError(f"{name} = {number}: must be at least {least}, and below 2³¹")


def check_together(method: MethodConfig, target: Any, target_network: str) -> None:
    """Refuse parts that do not go together."""
    several = method.averaged_networks > 1
    name = target.target
    if several and name not in ("hard", "replicate"):
        raise UserError(f"averaged_networks = {method.averaged_networks}: goes with --target hard or replicate")
    if several and name == "replicate" and target.replicate_start == "online":
        raise UserError("averaged_networks: a turn cannot begin with a copy of several networks, see replicate_start")
    if method.symmetric and name != "replicate":
        raise UserError(f"symmetric: a target that learns from rewards takes gradient steps, --target {name} does not")
    if method.symmetric and method.bootstrap != "target":
        said = f"bootstrap = '{method.bootstrap}'"
        raise UserError(f"symmetric: each network bootstraps from the other, so {said} does not go with it")
    if method.symmetric and several:
        raise UserError("symmetric: the target learns from rewards and one network, not from averaged_networks")
    if method.shared_trunk and (name not in ("hard", "polyak") or several):
        raise UserError("shared_trunk: goes with --target hard or polyak, and averaged_networks = 1")
    if method.shared_trunk and method.reset_period_updates is not None:
        raise UserError("shared_trunk: a new online network cannot learn from a target that has its own trunk")
    if method.optimizer_at_turn != "keep":
        _check_turns(method, target)
    apart = target_network != "same" or (several and name == "hard")
    for part, used in (("regulariser = 'parameters'", method.regulariser == "parameters"),
                       ("shared_trunk", method.shared_trunk)):  # fmt: skip
        if used and apart:
            raise UserError(f"{part}: needs a target with the online network's own shape")


def _check_turns(method: MethodConfig, target: Any) -> None:
    """Refuse an optimiser that waits for turns which never come, or come before it has made a second step."""
    said = f"optimizer_at_turn = '{method.optimizer_at_turn}'"
    if target.target == "frozen":
        raise UserError(f"{said}: --target frozen never has a turn")
    growing = target.target != "polyak" and target.target_period_growth > 1.0
    name = "polyak_period_updates" if target.target == "polyak" else "target_period_updates"
    if target.target in ("hard", "polyak", "replicate") and getattr(target, name) == 1 and not growing:
        raise UserError(f"{said}: needs turns further apart than {name} = 1, or Adam never knows two gradients")
