"""The audit of Theorem 1: its constants on a given problem, which assumption fails and by how much.

The certificate that does hold is in `certificate.py`; the argument why the audit can never pass is in
`docs/theory.md`. Symbols follow the paper; where its lemma and its proof disagree (A) the proof is used.
"""

from typing import NamedTuple

import numpy as np

from lookrep.exact.problems import Problem, linear_chain


class Requirement(NamedTuple):
    """`F_w > bound`, as the theorem asks. A bound of None is infinite."""

    name: str
    bound: float | None
    shortfall: float | None  # how much F_w is missing; 0 when it holds, None when infinite
    holds: bool


class TheoremSteps(NamedTuple):
    """The theorem's step sizes and contraction; None where its formula has no positive real value."""

    alpha: float
    beta_first: float | None  # β_0
    beta_later: float | None  # β_k for 1 ≤ k < K_R
    sigma: float | None


class Audit(NamedTuple):
    kappa1: float  # Lipschitz constant of v
    F_theta: float  # Lipschitz constant of ∇_w H in θ
    L: float  # Lipschitz constant of ∇_w H in w
    F_w: float  # strong convexity of H in w
    eta: float | None  # F_θ / F_w
    a: float  # (1 − F_w / L)_+^K_L
    zeta: float | None  # max(a, η² (1 − a))
    J: float | None  # 2 F_w (1 − ζ) / κ₁² − 2
    steps: TheoremSteps
    requirements: tuple[Requirement, ...]
    holds: bool
    why: str


def audit(problem: Problem, lookahead_updates: int, replicate_updates: int) -> Audit:
    """Exact constants for a Markov chain with linear value functions.

    >>> from lookrep.exact.builtin import tsitsiklis_van_roy
    >>> found = audit(tsitsiklis_van_roy(), 1, 1)
    >>> round(found.kappa1**2, 6), round(found.L, 6), round(found.F_w, 6), found.holds
    (5.0, 5.0, 5.0, False)
    """
    chain, online, target = linear_chain(problem)
    weights = problem.weighting[:, None]
    spread = np.linalg.svd(np.sqrt(weights) * online, compute_uv=False)
    full_rank = online.shape[1] <= online.shape[0] and spread[-1] > 1e-14 * spread[0]
    return audit_constants(
        kappa1=float(max(np.linalg.norm(online, 2), np.linalg.norm(target, 2))),
        F_theta=float(np.linalg.norm(2.0 * chain.discount * (weights * online).T @ chain.transition @ target, 2)),
        L=float(2.0 * spread[0] ** 2),
        F_w=float(2.0 * spread[-1] ** 2) if full_rank else 0.0,
        lookahead_updates=lookahead_updates,
        replicate_updates=replicate_updates,
    )


def audit_constants(
    kappa1: float, F_theta: float, L: float, F_w: float, lookahead_updates: int, replicate_updates: int
) -> Audit:
    """The theorem's derived constants and requirements from the four basic ones."""
    a = max(1.0 - F_w / L, 0.0) ** lookahead_updates if L > 0 else 1.0
    eta = F_theta / F_w if F_w > 0 else None
    zeta = max(a, _square(eta) * (1.0 - a)) if eta is not None else None
    J = 2.0 * F_w * (1.0 - zeta) / kappa1**2 - 2.0 if zeta is not None and kappa1 > 0 else None
    requirements = (
        _require("F_w > 0", F_w, 0.0),
        _require("F_w > F_θ", F_w, F_theta),
        _require("F_w > 7κ₁²", F_w, 7.0 * kappa1**2),
        _require("F_w > 4κ₁²/(1−ζ)", F_w, 4.0 * kappa1**2 / (1.0 - zeta) if zeta is not None and zeta < 1 else None),
    )
    return Audit(
        kappa1=kappa1,
        F_theta=F_theta,
        L=L,
        F_w=F_w,
        eta=eta,
        a=a,
        zeta=zeta,
        J=J,
        steps=_theorem_steps(kappa1, L, F_w, eta, a, J, replicate_updates),
        requirements=requirements,
        holds=all(requirement.holds for requirement in requirements),
        why=_explain(F_w, kappa1, requirements),
    )


def _square(value: float) -> float:
    """Infinite where Python's ** would raise; η is unbounded when F_w is tiny."""
    with np.errstate(over="ignore"):
        return float(np.square(np.float64(value)))


def _require(name: str, F_w: float, bound: float | None) -> Requirement:
    if bound is None:
        return Requirement(name, None, None, False)
    holds = F_w > bound
    return Requirement(name, bound, 0.0 if holds else bound - F_w, holds)


def _theorem_steps(
    kappa1: float, L: float, F_w: float, eta: float | None, a: float, J: float | None, replicate_updates: int
) -> TheoremSteps:
    alpha = 1.0 / L if L > 0 else float("inf")
    if eta is None or J is None:
        return TheoremSteps(alpha, None, None, None)
    A = 1.0 + _square(eta) * (1.0 - a)  # the proof's A (eq. defA); the lemma's statement drops the 1
    B = F_w / kappa1**2 - A
    beta_first = beta_later = sigma = None
    if B > 0 and B**2 >= 8.0 * A**2:
        x = (A - 1.0) / (B + np.sqrt(B**2 - 8.0 * A**2))
        beta_first = float(x / kappa1**2)
        # E and G bound squared norms, so the contraction of the norm is a root; the lemma forgets it.
        E = 8.0 * A * x**2 - 2.0 * B * x + A
        G = a * (8.0 * x**2 + 2.0 * x + 1.0)
        sigma = float(np.sqrt(max(E, G)))
    if J > 0 and J**2 >= 32.0:
        x = (3.0 * J + np.sqrt(J**2 - 32.0)) / 32.0
        beta_later = float(x / kappa1**2)
        if replicate_updates > 1 and sigma is not None:
            sigma = float(np.sqrt(1.0 - J * x + 8.0 * x**2))
    elif replicate_updates > 1:
        sigma = None
    return TheoremSteps(alpha, beta_first, beta_later, sigma)


def _explain(F_w: float, kappa1: float, requirements: tuple[Requirement, ...]) -> str:
    failing = [requirement for requirement in requirements if not requirement.holds]
    if not failing:
        return "every requirement of Theorem 1 holds"
    parts = []
    for requirement in failing:
        bound = requirement.name.removeprefix("F_w > ")
        if requirement.bound is None:
            parts.append(f"{bound} (which is unbounded)")
        elif requirement.bound > 0:
            parts.append(f"{bound} = {requirement.bound:.4g} (short by {requirement.shortfall:.4g})")
    flat = "H is not strongly convex in w, " if F_w == 0 else ""
    impossible = f"; no problem can pass, since F_w ≤ 2κ₁² = {2 * kappa1**2:.4g} always"
    return f"{flat}F_w = {F_w:.4g} must exceed {', '.join(parts)}{impossible}"
