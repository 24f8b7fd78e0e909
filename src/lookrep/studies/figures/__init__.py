"""Figures by name: each is drawn from a study's results, together with the numbers it shows.

>>> figure, rows = draw("fig8", None)
>>> [round(rows[-1][f"value_target_{state}"], 4) for state in (1, 2)]
[2.0, 2.0]
"""

import difflib

from matplotlib.figure import Figure

from lookrep.errors import UserError
from lookrep.studies.figures import aggregates, comparisons, exact_examples, measures, per_game, style
from lookrep.studies.figures.per_game import PART, Rows
from lookrep.studies.results import Results
from lookrep.studies.scores import Axis, normalisation

NAMES: dict[str, str] = {
    "fig1": "the paper's first example: paths of both networks in value and parameter space (needs no study)",
    "fig2": "learning curves of every variant, a panel for each environment",
    "fig3": "aggregate learning curves, a panel for each K_R of a sweep",
    "fig4": "area under the aggregate learning curve against K_R",
    "fig5": "parameter norms of both networks over time, mean over environments",
    "fig6": "aggregate learning curves by frames, and by gradient steps of both networks",
    "fig7": "final score of each environment relative to the baseline",
    "fig8": "the paper's second example: two spaces of parameters (needs no study)",
    "fig9": f"learning curves of every environment, part I: the first {PART}",
    "fig10": "learning curves of every environment, part II: the rest",
    "profiles": "performance profiles: share of runs above each score",
    "improvement": "probability that a run beats a run of the baseline",
    "gap": "function gap and parameter distance between the networks over time",
    "residual": "Bellman residual over time",
}
_FINAL = ("fig3", "fig4", "fig6", "fig7", "profiles", "improvement")  # need final scores to normalise by
_COMPARE = ("fig7", "improvement")


def draw(name: str, results: Results | None, *, axis: Axis | None = None) -> tuple[Figure, Rows]:
    """The figure and the rows of its CSV. Without an axis: frames for Atari, agent steps otherwise, both in fig6."""
    check_name(name)
    if name in exact_examples.PROBLEMS:
        return exact_examples.draw(name)
    if results is None:
        raise UserError(f"{name} is drawn from a study: give its folder")
    reason = why_not(name, results)
    if reason:
        raise UserError(f"{name} cannot be drawn from this study: {reason}")
    time = axis or default_axis(results)
    environments, title = results.study.environments, results.study.title
    if name == "fig2":
        return per_game.draw(results, time, environments, title)
    if name in ("fig9", "fig10"):
        parts = (environments[:PART], environments[PART:])
        part = parts[name == "fig10"]
        which = f" (part {'II' if name == 'fig10' else 'I'})" if parts[1] else ""
        return per_game.draw(results, time, part, f"Learning curves of {len(environments)} environments{which}")
    if name == "fig3":
        return aggregates.fig3(results, time)
    if name == "fig4":
        return aggregates.fig4(results)
    if name == "fig6":
        return aggregates.fig6(results, (axis,) if axis else (time, "gradient-steps"))
    if name == "fig5":
        title = "Parameter norms of both networks"
        return measures.draw(results, time, measures.NORMS, title, apart=False, level=True)
    if name == "gap":
        return measures.draw(results, time, measures.GAP, "How far the target is from the online network")
    if name == "residual":
        return measures.draw(results, time, measures.RESIDUAL, "Bellman residual")
    drawer = {"fig7": comparisons.fig7, "profiles": comparisons.profiles, "improvement": comparisons.improvement}
    return drawer[name](results)


def suitable(results: Results) -> tuple[str, ...]:
    """The figures worth drawing: those the study names, or all where it names none, as far as there are numbers."""
    study = results.study
    few = len(study.environments) <= PART
    asked = study.figures or tuple(name for name in NAMES if not (few and name in ("fig9", "fig10")))
    exact = study.kind == "exact"
    return tuple(
        name for name in asked if name in NAMES and exact == (name in exact_examples.PROBLEMS)
        and (exact or why_not(name, results) is None)
    )  # fmt: skip


def why_not(name: str, results: Results) -> str | None:
    """What a study lacks for a figure, in words; None if nothing."""
    study = results.study
    if name in exact_examples.PROBLEMS:
        return None
    if study.kind == "exact":
        return "it has exact problems only"
    if not any(member.columns for member in results.members):
        return "none of its runs has metrics yet"
    if name == "fig10" and len(study.environments) <= PART:
        return f"it has {len(study.environments)} environments, and fig9 shows the first {PART}"
    if name in ("fig3", "fig4") and not style.sweep(results):
        return "it has no Replicate variants that differ in replicate_updates (K_R)"
    if name in _COMPARE and len(study.variants) < 2:
        return "there is only one variant, nothing to compare it with"
    if name in _FINAL:
        rule = normalisation(results)
        if not rule.environments:
            reason = rule.left_out[0]
            return f"no environment can be compared, {reason.env} for example: {reason.reason}"
    return None


def default_axis(results: Results) -> Axis:
    """Frames where that is what people count, agent steps elsewhere."""
    return "frames" if all(env.startswith("atari/") for env in results.study.environments) else "agent-steps"


def check_name(name: str) -> None:
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(NAMES)}"
        raise UserError(f"unknown figure '{name}': {hint}")
