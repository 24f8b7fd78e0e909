"""Every method the exact solver knows, as a row of parts. No JAX here: settings read it.

The online network descends H(θ, w) = ‖v_w − T v_θ‖²_D, or what `bootstrap` and `proximal` make of it; the target moves
with every online update (`update`), or after K_L of them (`turn`). `solver.py` runs the parts for any value function,
`maps.py` writes them as matrices in the linear case; neither knows a method's name.
"""

from dataclasses import dataclass
from typing import Literal

Method = Literal[
    "lr",
    "td",
    "hard",
    "polyak",
    "frozen",
    "growing",
    "averaged",
    "distilled",
    "functional",
    "dqn-pro",
    "value-proximal",
    "chain",
    "asymmetric",
    "symmetric",
    "minto",
    "residual",
]


@dataclass(frozen=True)
class Parts:
    """One method. Defaults are a frozen target."""

    title: str  # behind "solved by"
    source: str
    # Whose values T is applied to. "smaller": the smaller of both; "through": the online ones, with their gradient.
    bootstrap: Literal["target", "online", "smaller", "through"] = "target"
    # What is added to the online loss: κ‖v_w − v_θ‖²_D, κ‖w − θ‖², or κ‖v_w − v_w⁻‖²_D, w⁻ being w one update ago.
    proximal: Literal["none", "values", "parameters", "churn"] = "none"
    # "mix": Polyak; "track": a gradient step on ‖v_θ − v_w‖²_D; "mirror": the online update with θ and w swapped.
    update: Literal["none", "mix", "track", "mirror"] = "none"
    # "average": the mean of the last k online networks; "distil": Replicate to the mean of their values.
    turn: Literal["none", "copy", "replicate", "average", "distil"] = "none"
    grows: bool = False  # the number of online updates between two turns

    @property
    def single(self) -> bool:
        """One set of parameters: θ is w, from the start."""
        return self.bootstrap in ("online", "through") and self.proximal == "none"

    @property
    def one_class(self) -> bool:
        """Parameters are copied, mixed or compared, which is meaningless between different value functions."""
        return self.single or self.update == "mix" or self.turn in ("copy", "average") or self.proximal == "parameters"

    @property
    def descends_target(self) -> bool:
        """The target takes gradient steps of its own, of size β."""
        return self.update in ("track", "mirror") or self.replicates

    @property
    def replicates(self) -> bool:
        """K_R gradient steps at a turn."""
        return self.turn in ("replicate", "distil")

    @property
    def remembers(self) -> bool:
        """The last k online networks are kept."""
        return self.turn in ("average", "distil")

    @property
    def affine(self) -> bool:
        """A minimum of two values is piecewise linear: no single map, no certificate."""
        return self.bootstrap != "smaller"


# Names that training has for two of them.
ALIASES: dict[str, Method] = {"replicate": "lr", "no-target": "td"}

ASADI = "Asadi et al. 2024, Alg. 1"
OURS = "ours"

METHODS: dict[Method, Parts] = {
    "lr": Parts("Lookahead-Replicate", ASADI, turn="replicate"),
    "td": Parts("TD without a target", "Sutton 1988", bootstrap="online", turn="copy"),
    "hard": Parts("TD with a hard copy", "Mnih et al. 2015", turn="copy"),
    "polyak": Parts("TD with a Polyak average", "Lillicrap et al. 2016", update="mix"),
    "frozen": Parts("regression onto a frozen target", "a control"),
    "growing": Parts("hard copies ever further apart", "Weissmann et al. 2026", turn="copy", grows=True),
    "averaged": Parts("the mean of the last networks as target", "Anschel et al. 2017", turn="average"),
    "distilled": Parts("the last networks' mean, distilled into the target", OURS, turn="distil"),
    "functional": Parts(
        "functional regularisation", "Piché et al. 2021", bootstrap="online", proximal="values", turn="copy"
    ),
    "dqn-pro": Parts("a hard copy, kept near in parameters", "Asadi et al. 2022", proximal="parameters", turn="copy"),
    "value-proximal": Parts("a hard copy, kept near in values", OURS, proximal="values", turn="copy"),
    "chain": Parts("a hard copy, kept near to itself in values", "Tang & Berseth 2024", proximal="churn", turn="copy"),
    "asymmetric": Parts("asymmetric gradient tracking", "Park et al. 2025", update="track"),
    "symmetric": Parts("symmetric gradient tracking", "Park et al. 2025", proximal="values", update="mirror"),
    "minto": Parts("the smaller of both networks' values", "Hendawy et al. 2025", bootstrap="smaller", turn="copy"),
    "residual": Parts("the residual gradient", "Baird 1995", bootstrap="through", turn="copy"),
}
