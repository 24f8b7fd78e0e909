"""The methods by name. Every docstring says what is done, in the paper's words, and which equation or code it follows.

In the letters of all of them: w is the online network, θ the target, y the bootstrap target, q the expected returns.
Losses are ½(y − q_w)² (Huber's) or the head's own, so that a term ½κ(…)² weighs as much against them as in the papers.
"""

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

from lookrep.errors import UserError, hint
from lookrep.methods.composition import Method


def _target(name: str, **fields: Any) -> dict[str, Any]:
    return {"target": {"target": name} | {field: value for field, value in fields.items() if value is not None}}


def _parts(**fields: Any) -> dict[str, Any]:
    return {"method": fields}


def _a_tenth_of_the_period(settings: Any) -> int:
    return max(1, settings.target.target_period_updates // 10)


def _growth(settings: Any) -> float:
    discount = settings.learning.discount
    if not 0.0 < discount < 1.0:
        raise UserError(f"method 'growing': periods grow by γ^(−2/3), so discount = {discount} must be between 0 and 1")
    return float(discount ** (-2 / 3))


AS_LARGE = {  # the target's steps as the online network's
    "replicate_learning_rate": lambda settings: settings.learning.learning_rate,
    "replicate_batch_size": lambda settings: settings.learning.batch_size,
}


def plain() -> Method:
    """The target's rule, as `--target` says, and nothing else."""
    return Method("plain", {}, "")


# Rules: how the target follows


def hard(every_updates: int | None = None) -> Method:
    """θ ← w every K_L updates (Mnih et al. 2015)."""
    return Method("hard", _target("hard", target_period_updates=every_updates), "Mnih et al. 2015")


def polyak(tau: float | None = None) -> Method:
    """θ ← (1 − τ)θ + τw after every update (Lillicrap et al. 2016)."""
    return Method("polyak", _target("polyak", tau=tau), "Lillicrap et al. 2016")


def frozen() -> Method:
    """θ never changes: a control."""
    return Method("frozen", _target("frozen"), "")


def replicate(every_updates: int | None = None, updates: int | None = None) -> Method:
    """K_R gradient steps on the distance of θ's function to w's, every K_L updates, with the preset's numbers (Asadi et
    al. 2024, Alg. 1).
    """
    changes = _target("replicate", target_period_updates=every_updates, replicate_updates=updates)
    return Method("replicate", changes, "Asadi et al., ICML 2024, Alg. 1")


def paper_replicate() -> Method:
    """Replicate with the paper's numbers: K_R = 0.1·K_L, steps and batches as large as the online network's."""
    changes = _target("replicate", replicate_updates=_a_tenth_of_the_period, **AS_LARGE)
    return Method("paper-replicate", changes, "Asadi et al., ICML 2024, App. C")


def recipe() -> Method:
    """Replicate as it works on MinAtar and, as far as it was run, on Atari: K_R = 0.1·K_L, steps ten times as large as
    the online network's, batches of 512 (docs/results/minatar.md; `--agent rainbow-lr` has these numbers).
    """
    changes = _target(
        "replicate",
        replicate_updates=_a_tenth_of_the_period,
        replicate_learning_rate=lambda settings: 10 * settings.learning.learning_rate,
        replicate_batch_size=512,
    )
    return Method("recipe", changes, "ours")


def growing(first_updates: int = 25, factor: float | None = None, most_updates: int = 2_500) -> Method:
    """Hard copies with periods that grow geometrically, K_n ∝ γ^(−2n/3) (Weissmann et al., arXiv 2602.03911). Without
    a `factor`, γ is the discount of a single step.
    """
    changes = _target(
        "hard",
        target_period_updates=first_updates,
        target_period_growth=_growth if factor is None else factor,
        target_period_most_updates=most_updates,
    )
    return Method("growing", changes, "Weissmann et al., arXiv 2602.03911")


def asymmetric() -> Method:
    """AGT2: after every update one gradient step of θ on (q_w(s, a) − q_θ(s, a))² (Park et al., arXiv 2503.16700).

    That is Replicate with K_L = K_R = 1 on the stored action, with the distance of the agent's head. Its batch is drawn
    anew, not the update's own. The paper's β, a factor on this loss, is `--replicate-learning-rate` relative to the
    online network's.
    """
    changes = _target("replicate", target_period_updates=1, replicate_updates=1, replicate_actions="one", **AS_LARGE)
    return Method("asymmetric", changes, "Park, Lee & Lee, arXiv 2503.16700")


def symmetric(kappa: float = 1.0) -> Method:
    """SGT2: both networks learn from rewards, each bootstrapping from the other, and are drawn to each other (Park et
    al., arXiv 2503.16700): L_w = ½(r + γ max q_θ(s′, ·) − q_w(s, a))² + ½κ(q_θ(s, a) − q_w(s, a))², L_θ with w and θ
    exchanged. κ is the paper's β. Ours is in turns: w's update, then θ's, on batches of their own.
    """
    changes = _target("replicate", target_period_updates=1, replicate_updates=1, **AS_LARGE)
    changes |= {"method": {"symmetric": True, "regulariser": "values", "kappa": kappa}}
    return Method("symmetric", changes, "Park, Lee & Lee, arXiv 2503.16700")


def averaged(networks: int = 5) -> Method:
    """Averaged-DQN: y = r + γ max Q^A(s′, ·), Q^A = 1/K Σ_k Q(·; θ_{i−k}), the networks of the last K turns (Anschel et
    al. 2017, Alg. 2). Of distributions, the probabilities are averaged; of quantiles, the quantiles.
    """
    return Method("averaged", _target("hard") | _parts(averaged_networks=networks), "Anschel et al., ICML 2017, Alg. 2")


def distilled(networks: int = 5) -> Method:
    """Averaged-DQN in function space: at a turn, Replicate draws one target to the mean function of the online networks
    of the last K turns. It takes the memory of K networks, and a bootstrap the time of one.
    """
    return Method("distilled", _target("replicate") | _parts(averaged_networks=networks))


def shared_trunk() -> Method:
    """Only the last layer lags: θ has w's other layers, as they are now, and a copy of its last layer, taken every K_L
    updates (iterated shared Q-learning with K = 1: Vincent et al., arXiv 2506.04398).
    """
    return Method("shared-trunk", _target("hard") | _parts(shared_trunk=True), "Vincent et al., arXiv 2506.04398")


def renewed(every_updates: int = 10_000, updates: int = 1_000) -> Method:
    """At intervals w starts anew, with a new optimiser, and learns first from θ by so many steps of Replicate. A target
    in parameter space would be pulled to the new parameters; one in function space knows only what they say.
    """
    changes = _target("replicate") | _parts(reset_period_updates=every_updates, reset_updates=updates)
    return Method("renewed", changes)


# Bootstrap: whose values are read


def minto() -> Method:
    """y = r + γ max_a min(q_θ(s′, a), q_w(s′, a)) (MINTO: Hendawy et al., arXiv 2510.02590).

    Of distributions, each action's is that of the network with the smaller mean.
    """
    return Method("minto", _parts(bootstrap="smaller"), "Hendawy et al., arXiv 2510.02590")


def no_target() -> Method:
    """y = r + γ max q_w(s′, ·), without a gradient, and LayerNorm before every ReLU: PQN's way (Gallici et al., ICLR
    2025), here with replay and without λ-returns. The target follows as ever, to be looked at.
    """
    changes = _parts(bootstrap="online") | {"network": {"layer_norm": True}}
    return Method("no-target", changes, "Gallici et al., ICLR 2025 (their network, with a replay)")


# Regularisers: a term in the online loss


def functional(kappa: float = 1.0) -> Method:
    """y = r + γ max q_w(s′, ·), without a gradient, and + ½κ(q_w(s, a) − q_θ(s, a))²; θ is a copy, as `--target` says
    (Piché et al., arXiv 2106.02613; the authors' fr_dqn_atari_jax.py).
    """
    changes = _parts(bootstrap="online", regulariser="values", kappa=kappa)
    return Method("functional", changes, "Piché et al., arXiv 2106.02613")


def value_proximal(kappa: float = 1.0) -> Method:
    """DQN Pro in function space: + κ·KL(p_w ‖ p_θ) on the batch's states, the mean over their actions. For values
    and quantiles it is ½(q_w − q_θ)², the divergence of two normal distributions.
    """
    return Method("value-proximal", _parts(regulariser="function", kappa=kappa))


def dqn_pro(kappa: float = 5.0) -> Method:
    """w ← (1 − α/c̃)w + (α/c̃)θ − α∇H(w; θ), κ = 1/c̃: the proximal term ‖w − θ‖²/2c̃, outside of Adam (Asadi et al.
    2022, arXiv 2112.05848; the authors' fast-rl-with-slow-updates).
    """
    return Method("dqn-pro", _parts(regulariser="parameters", kappa=kappa), "Asadi et al., NeurIPS 2022")


def chain(kappa: float = 100.0) -> Method:
    """+ ½κ(q_w(s̄, ·) − q_w⁻(s̄, ·))² on a second batch, w⁻ the online network one update ago: CHAIN's reduction of value
    churn (Tang & Berseth, NeurIPS 2024, arXiv 2409.04792; the authors' double_dqn_chain.py, with their 100).
    """
    return Method("chain", _parts(regulariser="churn", kappa=kappa), "Tang & Berseth, NeurIPS 2024")


# Optimiser: what becomes of its state at a turn


def reset_optimizer() -> Method:
    """The online optimiser starts anew whenever the target has had a turn (Asadi et al. 2023, arXiv 2306.17833)."""
    return Method("reset-optimizer", _parts(optimizer_at_turn="reset"), "Asadi et al., NeurIPS 2023")


def relative_adam() -> Method:
    """Adam's t counts from the target's last turn; its moments stay (Adam-Rel: Ellis et al. 2024, arXiv 2412.17113)."""
    return Method("relative-adam", _parts(optimizer_at_turn="relative"), "Ellis et al., NeurIPS 2024")


BUILDERS: dict[str, Callable[[], Method]] = {
    builder().name: builder
    for builder in (
        plain, hard, polyak, frozen, replicate, paper_replicate, recipe, growing, asymmetric, symmetric, averaged,
        distilled, shared_trunk, renewed, minto, no_target, functional, value_proximal, dqn_pro, chain, reset_optimizer,
        relative_adam,
    )
}  # fmt: skip


def names() -> tuple[str, ...]:
    """All of them."""
    return tuple(BUILDERS)


def is_named(text: str) -> bool:
    """Whether `named` knows it.

    >>> is_named("minto+chain"), is_named("mine")
    (True, False)
    """
    return all(name in BUILDERS for name in text.split("+"))


def named(text: str) -> Method:
    """The method of this name, with the numbers it has by itself; several are joined by `+`.

    >>> named("minto+relative-adam").changes
    {'method': {'bootstrap': 'smaller', 'optimizer_at_turn': 'relative'}}
    """
    for name in text.split("+"):
        if name not in BUILDERS:
            raise UserError(f"method '{name}' is unknown: {hint(name, BUILDERS)}")
    return reduce(add, (BUILDERS[name]() for name in text.split("+")))
