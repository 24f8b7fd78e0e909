"""Final scores compared: Fig. 7 (each game against the baseline), performance profiles, probability of improvement."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from lookrep.analysis.aggregate import performance_profile, probability_of_improvement
from lookrep.analysis.bootstrap import Estimate, band, estimate
from lookrep.analysis.figures import notes, style
from lookrep.analysis.figures.per_game import Rows
from lookrep.analysis.results import Results
from lookrep.analysis.scores import final_scores, normalisation
from lookrep.analysis.statistics import FEW_SEEDS, EnvironmentScore, by_environment

BAR_ROW = 0.2  # inches
HEAVY = 4.0  # a largest bar so many times the typical one asks for a logarithmic scale beyond ±100 %
THRESHOLDS = 101
RESAMPLES = 10_000
BETTER: dict[str, Any] = {"facecolor": style.BLUE, "edgecolor": style.BLUE}
WORSE: dict[str, Any] = {"facecolor": "white", "edgecolor": style.VERMILION, "hatch": "//////"}
UNSURE: dict[str, Any] = {"facecolor": "0.85", "edgecolor": "0.45"}


def fig7(results: Results) -> tuple[Figure, Rows]:
    """Each environment's asymptotic score relative to the baseline's: a column of bars for each other variant."""
    study, rule = results.study, normalisation(results)
    every = {(score.env, score.variant): score for score in by_environment(results, rule)}
    others = [variant for variant in study.variants if variant.name != study.baseline]
    environments = sorted(rule.environments, key=lambda env: np.mean([_relative(every, env, v.name) for v in others]))
    baseline = study.variant(study.baseline).label
    columns = min(4, len(others))
    width = max(2.6, 5.6 / columns)
    formula = (
        "(score − baseline) / (max(human, baseline) − random)"
        if rule.kind == "human"
        else "(score − baseline) / baseline"
    )
    page = style.sheet(
        len(others),
        title=f"Final score relative to {baseline}",
        handles=[
            Patch(**BETTER, label="better"),
            Patch(**WORSE, label="worse"),
            Patch(**UNSURE, label="cannot tell"),
        ],
        notes=[
            f"Bars: {formula}, of final scores, each the mean of the last 10 % of training. Cannot tell: the "
            f"interval includes 0, or there are fewer than {FEW_SEEDS} seeds.",
            *notes.scores(results, rule)[1:],  # bars state their own rule
        ],
        columns=columns,
        size=(width, max(1.3, 0.6 + BAR_ROW * len(environments))),
    )
    for variant, axes in zip(others, page.panels, strict=True):
        axes.set_title(style.fit(style.short(variant.label), width - 0.2, style.PANEL_SIZE), fontsize=style.PANEL_SIZE)
        axes.sharex(page.panels[0])
        fewest = [min(every[env, name].runs for name in (study.baseline, variant.name)) for env in environments]
        _bars(axes, [every[env, variant.name].relative for env in environments], fewest)
        axes.set_yticks(range(len(environments)), [style.game(env) for env in environments])
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", labelleft=not page.panels.index(axes) % columns)
    sizes = np.abs([_relative(every, env, variant.name) for env in environments for variant in others])
    for axes in page.panels:
        if sizes.max() > HEAVY * max(1.0, float(np.median(sizes))):
            axes.set_xscale("symlog", linthresh=100.0, linscale=1.5)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+,.0f} %" if value else "0"))
    return page.figure, score_rows(every.values())


def score_rows(scores: Iterable[EnvironmentScore]) -> Rows:
    """The numbers behind Fig. 7, which are also those of the report's table of games."""
    return [
        {
            "environment": score.env,
            "variant": score.variant,
            "runs": score.runs,
            **notes.interval("final_score", score.score, "final_score_"),
            **notes.interval("relative_difference", score.relative, "relative_difference_"),
            **notes.interval("probability_of_improvement", score.improvement, "probability_of_improvement_"),
        }
        for score in scores
    ]


def profiles(results: Results) -> tuple[Figure, Rows]:
    """Share of runs above each score (run-score distributions): higher curves are better everywhere."""
    study, rule, looks = results.study, normalisation(results), style.looks(results)
    variants = [variant.name for variant in study.variants]
    scores = {name: rule.apply(final_scores(results, name, rule.environments)) for name in variants}
    pooled = np.concatenate([values.ravel() for values in scores.values()])
    lowest, typical, highest = (float(np.nanpercentile(pooled, share)) for share in (0, 95, 100))
    top = highest if highest <= 2 * typical else typical  # a few games far above human would leave no room
    thresholds = np.linspace(min(0.0, lowest), top * 1.02, THRESHOLDS)
    page = style.sheet(
        1,
        title=f"Performance profiles, {len(rule.environments)} environments".replace("1 environments", "1 environment"),
        handles=style.legend_lines(results, variants),
        notes=[
            *notes.scores(results, rule),
            "The highest 5 % of scores lie beyond the right edge." if top < highest else "",
        ],
    )
    axes = page.panels[0]
    rows: Rows = []
    for name in variants:
        found = band(lambda values: performance_profile(values, thresholds), scores[name])
        style.curve(axes, looks[name], thresholds, found, label=name)
        rows += [
            {"variant": name, "threshold": notes.number(t), **notes.interval("share_of_runs_above", edges)}
            for t, *edges in zip(thresholds, *found, strict=True)
        ]
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(style.fit(f"final {rule.name}, τ", 5.0, style.LABEL_SIZE), fontsize=style.LABEL_SIZE)
    axes.set_ylabel("share of runs with a score above τ", fontsize=style.LABEL_SIZE)
    return page.figure, rows


def improvement(results: Results) -> tuple[Figure, Rows]:
    """How likely a run of each variant beats a run of the baseline: over all environments, and on each."""
    study, rule, looks = results.study, normalisation(results), style.looks(results)
    others = [variant for variant in study.variants if variant.name != study.baseline]
    scores = {v.name: rule.apply(final_scores(results, v.name, rule.environments)) for v in study.variants}
    baseline = study.variant(study.baseline).label
    many = len(rule.environments) > 1
    grey: dict[str, Any] = {"linestyle": "none", "color": "0.3"}
    every = by_environment(results, rule)
    runs = {v.name: min(s.runs for s in every if s.variant == v.name and s.env in rule.environments)
            for v in study.variants}  # fmt: skip
    few = {name for name in runs if min(runs[name], runs[study.baseline]) < FEW_SEEDS}
    handles: list[Artist] = []
    if many:
        handles += [
            Line2D([], [], marker="o", markersize=7, **grey, label="mean over environments, with its interval"),
            Line2D([], [], marker="o", markersize=5, markerfacecolor="none", **grey, label="one environment"),
        ]
    if few:
        handles.append(Patch(**UNSURE, label="too few seeds to tell"))
    page = style.sheet(
        1,
        title=f"Probability that a run beats a run of {baseline}",
        handles=handles,
        notes=["Final scores; ties count half. Right of the line at 0.5: better than the baseline.",
               *notes.scores(results, rule)[1:]],
        size=(5.6, 0.75 + 0.36 * len(others)),
    )  # fmt: skip
    axes = page.panels[0]
    axes.axvline(0.5, color="0.35", linewidth=1.0, linestyle=":")
    apart = {(s.env, s.variant): s.improvement for s in every if s.improvement}
    rows: Rows = []
    for place, variant in enumerate(reversed(others)):
        look = looks[variant.name]
        color = UNSURE["edgecolor"] if variant.name in few else look.color
        whole = estimate(probability_of_improvement, scores[variant.name], scores[study.baseline], resamples=RESAMPLES)
        each = {env: apart[env, variant.name] for env in rule.environments}
        rows += [
            {"variant": variant.name, "environment": env, **notes.interval("probability", found)}
            for env, found in {"(all)": whole, **each}.items()
        ]
        if many:
            axes.plot([found.value for found in each.values()], np.full(len(each), place - 0.2), linestyle="none",
                      marker="o", markersize=4.5, markerfacecolor="none", color=color, alpha=0.8)  # fmt: skip
        axes.plot([whole.low, whole.high], [place, place], color=color, linewidth=2.4)
        axes.plot([whole.value], [place], marker=look.marker, markersize=7, color=color, label=variant.name)
    axes.set_yticks(
        range(len(others)),
        [style.fit(style.short(variant.label), 2.0, style.SMALLEST_SIZE) for variant in reversed(others)],
    )
    axes.set_ylim(-0.55, len(others) - 0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("probability of improvement", fontsize=style.LABEL_SIZE)
    return page.figure, rows


def _relative(every: dict[tuple[str, str], EnvironmentScore], env: str, variant: str) -> float:
    found = every[env, variant].relative
    return found.value if found else float("nan")


def _bars(axes: Axes, found: list[Estimate | None], seeds: list[int]) -> None:
    values = np.array([change or (np.nan,) * 3 for change in found]) * 100.0
    for place, ((value, low, high), runs) in enumerate(zip(values, seeds, strict=True)):
        kind = UNSURE if runs < FEW_SEEDS else BETTER if low > 0 else WORSE if high < 0 else UNSURE
        axes.barh(place, value, height=0.72, linewidth=0.8, **kind)
    sure = ~np.isnan(values[:, 1])
    axes.hlines(np.flatnonzero(sure), values[sure, 1], values[sure, 2], color="0.1", linewidth=1.0)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_ylim(-0.6, len(values) - 0.4)
