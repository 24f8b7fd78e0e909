"""Published ways to stabilise bootstrapping, and ours: each a composition of parts with a name.

    lookrep.train("minatar/breakout", method=lookrep.methods.functional(kappa=0.5))
    lookrep train minatar/breakout --method functional --kappa 0.5 …

A method changes settings: the target's rule, whose values are bootstrapped from (`bootstrap`), a term in the online
loss (`regulariser`), what becomes of the optimiser's state at a turn, and the network. What the parts do is in
`lookrep.methods.bootstraps`, `.regularisers` and `.optimisers`, and in `lookrep.targets`. No JAX is imported here.

docs/methods.md has them in a table, with what we know of each.
"""

from lookrep.methods.composition import Method
from lookrep.methods.published import (
    BUILDERS,
    asymmetric,
    averaged,
    chain,
    distilled,
    dqn_pro,
    frozen,
    functional,
    growing,
    hard,
    is_named,
    minto,
    named,
    names,
    no_target,
    paper_replicate,
    plain,
    polyak,
    recipe,
    relative_adam,
    renewed,
    replicate,
    reset_optimizer,
    shared_trunk,
    symmetric,
    value_proximal,
)

__all__ = [
    "BUILDERS",
    "Method",
    "asymmetric",
    "averaged",
    "chain",
    "distilled",
    "dqn_pro",
    "frozen",
    "functional",
    "growing",
    "hard",
    "is_named",
    "minto",
    "named",
    "names",
    "no_target",
    "paper_replicate",
    "plain",
    "polyak",
    "recipe",
    "relative_adam",
    "renewed",
    "replicate",
    "reset_optimizer",
    "shared_trunk",
    "symmetric",
    "value_proximal",
]
