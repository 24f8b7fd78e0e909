"""Figures by name: each is drawn from a study's results, together with the numbers it shows.

>>> figure, rows = draw("fig8", None)
>>> [round(rows[-1][f"value_target_{state}"], 4) for state in (1, 2)]
[2.0, 2.0]
"""

from collections.abc import Collection

from matplotlib.figure import Figure

from lookrep.analysis import curve
from lookrep.analysis.figures import aggregates, comparisons, exact_examples, measures, per_game, style
from lookrep.analysis.figures.captions import CAPTIONS
from lookrep.analysis.figures.exact_examples import PROBLEMS
from lookrep.analysis.figures.per_game import PART, Rows
from lookrep.analysis.results import Results
from lookrep.analysis.scores import Axis, normalisation
from lookrep.errors import UserError, hint

NAMES = tuple(CAPTIONS)
_FINAL = ("fig3", "fig4", "fig6", "fig7", "profiles", "improvement")  # need final scores to normalise by
_COMPARE = ("fig7", "improvement")
_WORDS = {"study": "study", "run": "run", "logs": "log"}
_OF_ONE_RUN = ("curve", "fig5", "gap", "agreement", "residual")  # one variant: aggregates would say the same again
_OVER_GAMES = ("fig3", "fig6")  # of one game they are its learning curves again, in other units
_MEASURED = {"fig5": "norm_online", "gap": "function_gap", "residual": "bellman_residual"}  # in lookrep's metrics alone


def draw(
    name: str, results: Results | None, *, axis: Axis | None = None, beside: Collection[str] = ()
) -> tuple[Figure, Rows]:
    """The figure and the rows of its CSV. Without an axis: frames for Atari, agent steps otherwise, both in fig6. What
    the figures `beside` it show is not drawn again."""
    check_name(name)
    if name in PROBLEMS:
        return exact_examples.draw(name)
    if results is None:
        raise UserError(f"{name} is drawn from a study, a run or logs: give its folder")
    reason = why_not(name, results)
    if reason:
        raise UserError(f"{name} cannot be drawn from this {_WORDS[results.source]}: {reason}")
    if axis == "gradient-steps" and results.source == "logs":
        raise UserError("--axis gradient-steps: other software's logs do not count them")
    time = axis or default_axis(results)
    environments, title = results.study.environments, results.study.title
    if name == "curve":
        found = [dict(zip(m.columns, row, strict=True), env=m.env, agent=m.seed)
                 for m in results.members for row in zip(*m.columns.values(), strict=True)]  # fmt: skip
        return curve.figure_of(found, title, gap="gap" not in beside), found
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
        both: tuple[Axis, ...] = (time,) if results.source == "logs" else (time, "gradient-steps")
        return aggregates.fig6(results, (axis,) if axis else both)
    if name == "fig5":
        title = "Parameter norms of both networks"
        return measures.draw(results, time, measures.NORMS, title, apart=False, level=True)
    if name == "gap":
        return measures.draw(results, time, measures.GAP, "How far the target is from the online network")
    if name == "agreement":
        return measures.draw(results, time, measures.AGREEMENT, "Agreement of target and online network")
    if name == "residual":
        return measures.draw(results, time, measures.RESIDUAL, "Bellman residual")
    drawer = {"fig7": comparisons.fig7, "profiles": comparisons.profiles, "improvement": comparisons.improvement}
    return drawer[name](results)


def suitable(results: Results) -> tuple[str, ...]:
    """The figures worth drawing: those the study names, or all where it names none, as far as there are numbers."""
    study = results.study
    few = len(study.environments) <= PART
    again = ("fig9", "fig10") if few else ("fig2",)  # the same panels, in one part or two
    asked = study.figures or tuple(name for name in NAMES if name not in again)
    exact = study.kind == "exact"
    if results.source == "run":
        asked = _OF_ONE_RUN
    if len(study.environments) == 1 and {"fig2", "fig9"} & set(asked):
        asked = tuple(name for name in asked if name not in _OVER_GAMES)
    return tuple(
        name for name in asked if name in NAMES and exact == (name in PROBLEMS)
        and (exact or why_not(name, results) is None)
    )  # fmt: skip


def why_not(name: str, results: Results) -> str | None:
    """What a study lacks for a figure, in words; None if nothing."""
    study = results.study
    if name in PROBLEMS:
        return None
    if study.kind == "exact":
        return "it has exact problems only"
    if not any(member.columns for member in results.members):
        return "none of its runs has metrics yet"
    if name == "curve" and results.source != "run":
        return "it is not one run; fig2 shows learning curves"
    column = _MEASURED.get(name)
    if column and not all(column in member.columns for member in results.members if member.columns):
        return f"its logs have no {column}"
    if name == "agreement" and not all("argmax_agreement" in m.columns for m in results.members if m.columns):
        return "some of its runs did not measure it"
    if name == "fig10" and len(study.environments) <= PART:
        return f"it has {len(study.environments)} environments, and fig9 shows the first {PART}"
    if name in ("fig3", "fig4") and len(style.sweep(results)) < 2:
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
        raise UserError(f"unknown figure '{name}': {hint(name, NAMES)}")
