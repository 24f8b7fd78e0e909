"""Figures and tables of docs/results/minatar.md, from a folder of study folders.

python benchmarks/minatar_results.py STUDIES --out docs/results/minatar

A study that is not there is left out; runs that are not finished are not counted, and the first table says what is
there. What is compared with what: here; the numbers: minatar_numbers.py; the drawing: minatar_figures.py.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import minatar_figures as draw
import numpy as np
from minatar_numbers import (
    RESAMPLES,
    complete,
    finished,
    mean_of,
    measured,
    parameters,
    rank_correlation,
    ratio_of,
    reach,
    relative,
    target_steps,
    transitions,
)  # fmt: skip

from lookrep.analysis import results as results_files
from lookrep.analysis.aggregate import Floats, environment_means, iqm, probability_of_improvement
from lookrep.analysis.bootstrap import Estimate, estimate
from lookrep.analysis.figures import notes
from lookrep.analysis.figures.style import game
from lookrep.analysis.results import Results
from lookrep.analysis.scores import counts, curves, final_scores, target_settings
from lookrep.analysis.statistics import headline
from lookrep.errors import UserError
from lookrep.files import write_whole

MEASURES = {
    "function_gap": "function gap",
    "parameter_distance": "parameter distance",
    "bellman_residual": "Bellman residual",
    "norm_online": "norm, online network",
    "norm_target": "norm, target network",
}
CHANGES = {  # what a variant of the recipe changes → the group it is in
    "replicate_updates": "more steps",
    "replicate_learning_rate": "larger steps",
    "replicate_batch_size": "larger batch",
    "replicate_start": "start or end of a turn",
    "replicate_until_gap": "start or end of a turn",
    "replicate_max_updates": "start or end of a turn",
    "replicate_sampler": "details left open",
    "replicate_reset_optimizer": "details left open",
    "target_init": "details left open",
}
WIDTHS = {"narrow": 0.25, "half": 0.5, "same": 1.0, "wide": 2.0}  # of network-pairs' targets
FOUND_ON = ("asterix", "space invaders")  # the games of minatar-recipe, where the recipe was the best of 17
SATURATED = ("freeway",)
PHASES = 5  # rows of minatar-main that meet a turn at 0, 25, 50, 75 and 100 of its 125 updates
SWEEP_STEPS = 1_024_000  # where minatar-kr ends
TUNING_SEEDS = 10  # of minatar-baselines and minatar-recipe
RECIPE_STEPS = 512_000  # where minatar-recipe ends: the tuned baselines' scores there are for comparison
ABOUT = """\
Made by `benchmarks/minatar_results.py`. In brackets: 95 % bootstrap intervals over seeds. Final: mean over the last
10 % of the steps. A dash: not finished. IQM: interquartile mean of final scores, each divided by the baseline's mean
on the same game. Intervals of an IQM hold that mean fixed, which makes them a little too short, unless the table says
that it is resampled too. Relative: ratio of means, both resampled."""
Table = list[str]


def main(studies: Path, out: Path, ends: dict[str, int]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Results] = {}
    for folder in sorted(path for path in studies.iterdir() if path.is_dir()):
        try:
            found[folder.name] = results_files.load(folder, ends.get(folder.name))
        except UserError as error:
            print(f"left out: {error}")
    sections: dict[str, list[Callable[[Results, Path], Table]]] = {
        "minatar-main": [robust, comparison, pairs, by_game, over_time, rising, early, gaps, networks, pictures],
        "minatar-targets": [comparison, by_game, over_time, rising, networks],
        "minatar-baselines": [tuning],
        "minatar-kr": [robust, comparison, by_game, ratios, networks],
        "minatar-recipe": [comparison, by_game, recipe, details, explanations],
        "minatar-width": [comparison, by_game, widths, networks],
        "network-pairs": [comparison, by_game, shapes, networks],
    }
    text = ["# MinAtar: all numbers", ABOUT, *coverage({name: found[name] for name in sections if name in found})]
    for name, parts in sections.items():
        if name in found and any(map(counts, found[name].members)):
            study = found[name].study
            text += [f"## {name}: {study.title}", f"{study.steps:,} agent steps, n = {study.seeds} seeds a cell."]
            text += [line for part in parts for line in part(found[name], out)]
    write_whole(out / "tables.md", "\n\n".join(text) + "\n")
    print(*sorted(path.name for path in out.iterdir()))


def cell(found: Estimate | None, digits: int = 2) -> str:
    if found is None or np.isnan(found.value):
        return "–"
    interval = f" [{found.low:.{digits}f}, {found.high:.{digits}f}]" if found.has_interval else ""
    return f"{found.value:.{digits}f}{interval}".replace("-", "−")


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    lines = [head, ["---"] * len(head), *rows]
    return [f"### {title}", "\n".join("| " + " | ".join(line) + " |" for line in lines)]


def coverage(found: dict[str, Results]) -> Table:
    rows = []
    for name, results in found.items():
        study, whole = results.study, ", ".join(map(game, complete(results)))
        done = [finished(results, env, [variant.name]) for env in study.environments for variant in study.variants]
        rows.append([name, f"{sum(done)} of {len(done)}", whole or "none", str(study.seeds), f"{study.steps:,}"])
    return table("What is there", ["study", "populations finished", "games complete", "seeds", "agent steps"], rows)


def comparison(results: Results, _: Path) -> Table:
    found = headline(results, resamples=RESAMPLES)
    over = ", ".join(map(game, found.environments)) or "none is complete"
    head = ["variant", "runs", f"IQM relative to {found.baseline} (its mean fixed)", "probability of improvement"]
    rows = [[v.label, str(v.runs), cell(v.iqm), cell(v.improvement)] for v in found.variants]
    return table(f"Over games: {over}", head, rows)


def robust(results: Results, _: Path) -> Table:
    """The comparison once more, with the baseline's mean resampled too, and without a game that all have learned."""
    study, envs, rows = results.study, complete(results), []
    fewer = [env for env in envs if game(env) not in SATURATED]
    for variant in (v for v in study.variants if v.name != study.baseline and fewer):
        scores = [[final_scores(results, name, group) for name in (variant.name, study.baseline)]
                  for group in (envs, fewer)]  # fmt: skip
        shares = [estimate(lambda x, y: iqm(_divided(x, y)), *both, resamples=RESAMPLES) for both in scores]
        lead = estimate(lambda x, y: iqm(_divided(x, y)) - iqm(_divided(y, y)), *scores[0], resamples=RESAMPLES)
        chance = _improvement(results, variant.name, study.baseline, fewer)
        rows.append([variant.label, cell(shares[0]), cell(lead, 3), cell(shares[1]), cell(chance)])
    without = f"without {', '.join(SATURATED)}"
    head = ["variant", "IQM", f"IQM minus {study.baseline}'s", f"IQM, {without}", f"probability, {without}"]
    over = ", ".join(map(game, envs))
    return table(f"Over games: {over}, with {study.baseline}'s mean resampled too", head, rows)


def pairs(results: Results, _: Path) -> Table:
    """Who beats whom; also on the games, and with the seeds, that had no part in tuning and choosing."""
    envs, rows = complete(results), []
    groups = {"all": envs, "games it was not found on": [env for env in envs if game(env) not in FOUND_ON]}
    groups |= {game(env): [env] for env in envs}
    for ours, theirs in (("recipe", "hard"), ("recipe", "polyak"), ("polyak", "hard"), ("replicate-all", "hard")):
        found = [_improvement(results, ours, theirs, group) for group in groups.values()]
        found.append(_improvement(results, ours, theirs, envs, TUNING_SEEDS))
        rows.append([*(results.study.variant(name).label for name in (ours, theirs)), *map(cell, found)])
    head = ["first", "second", *groups, f"all, without seeds 0–{TUNING_SEEDS - 1}"]
    return table("Probability that the first ends above the second", head, rows)


def by_game(results: Results, _: Path) -> Table:
    study = results.study
    raw, shares = [], []
    for v in study.variants:
        raw.append([v.label, *(cell(mean_of(final_scores(results, v.name, [env])), 1) for env in study.environments)])
        if v.name != study.baseline:
            shares.append([v.label, *(cell(relative(results, v.name, env)) for env in study.environments)])
    head = ["variant", *map(game, study.environments)]
    return table("Final score", head, raw) + table(f"Final score relative to {study.baseline}", head, shares)


def over_time(results: Results, _: Path) -> Table:
    study = results.study
    ends = [part * study.steps for part in (0.25, 0.5, 0.75, 1.0)]
    rows = []
    for env in complete(results):
        theirs = [measured(results, study.baseline, env, "return_mean", end) for end in ends]
        fair = float(curves(results, study.baseline, "return_mean", [env], "gradient-steps").x[-1])
        for variant in (variant for variant in study.variants if variant.name != study.baseline):
            ours = [measured(results, variant.name, env, "return_mean", end) for end in ends]
            ours.append(measured(results, variant.name, env, "return_mean", fair, "gradient-steps"))
            sooner = ends[-1] / transitions(results, variant.name, env)
            ours.append(measured(results, variant.name, env, "return_mean", sooner))
            both = zip(ours, [*theirs, theirs[-1], theirs[-1]], strict=True)
            rows.append([game(env), variant.label, *(cell(ratio_of(*each)) for each in both)])
    fair_names = ("after as many gradient steps", "after as many replayed transitions")
    head = ["game", "variant", *(f"at {end / 1e6:.2f} M" for end in ends), *fair_names]
    return table(f"Score relative to {study.baseline}, over time", head, rows)


def rising(results: Results, _: Path) -> Table:
    """How much of the final score was there half way: 1 where a curve has levelled off."""
    half, envs, rows = results.study.steps / 2, complete(results), []
    for variant in results.study.variants:
        early = [measured(results, variant.name, env, "return_mean", half) for env in envs]
        final = [final_scores(results, variant.name, [env]) for env in envs]
        rows.append([variant.label, *(cell(ratio_of(*both)) for both in zip(early, final, strict=True))])
    return table("Score half way relative to the final score", ["variant", *map(game, envs)], rows)


def early(results: Results, _: Path) -> Table:
    """Where the sweep over K_R ends: its hard copy, beside the tuned one."""
    rows = [[v.label, *(cell(mean_of(measured(results, v.name, env, "return_mean", SWEEP_STEPS)), 1)
                        for env in complete(results))] for v in results.study.variants]  # fmt: skip
    return table(f"Score at {SWEEP_STEPS:,} steps", ["variant", *map(game, complete(results))], rows)


def gaps(results: Results, _: Path) -> Table:
    """Over so many rows at the end that every phase of a turn that is met at all is met once."""
    rows = []
    for v in results.study.variants:
        found = [curves(results, v.name, "function_gap", [env], "agent-steps").y[-PHASES:].mean(axis=0)
                 for env in complete(results)]  # fmt: skip
        rows.append([v.label, *(cell(mean_of(gap), 3) for gap in found)])
    return table(f"Function gap over the last {PHASES} rows", ["variant", *map(game, complete(results))], rows)


def networks(results: Results, _: Path) -> Table:
    rows = []
    for env in results.study.environments:
        for v in (v for v in results.study.variants if finished(results, env, [v.name])):
            found = {column: mean_of(measured(results, v.name, env, column)) for column in MEASURES}
            rows.append([game(env), v.label, *(cell(e, 3 if c == "function_gap" else 2) for c, e in found.items())])
    return table("Both networks at the end of training", ["game", "variant", *MEASURES.values()], rows)


def pictures(results: Results, out: Path) -> Table:
    whole = complete(results)
    waiting = ", ".join(game(env) for env in results.study.environments if env not in whole)
    small = f"Not complete: {waiting}." if waiting else ""
    if whole:
        draw.save(draw.learning(results, whole, [small]), out / "curves.png")
        phases = (
            "Hard copy's gap is 0 at a copy and grows until the next: it is measured at changing moments of a turn."
        )
        over = f"Mean over {len(whole)} games." if len(whole) > 1 else ""
        draw.save(draw.inside(results, whole, MEASURES, [over, phases, small]), out / "networks.png")
    return []


def tuning(results: Results, out: Path) -> Table:
    """The rule: the best mean over games of the final score relative to the game's best."""
    study, envs = results.study, complete(results)
    if not envs:
        return []
    raw = {v.name: final_scores(results, v.name, envs) for v in study.variants}
    best = np.max([environment_means(scores) for scores in raw.values()], axis=0)
    share = {name: float(np.mean(environment_means(scores) / best)) for name, scores in raw.items()}
    settings = {name: target_settings(results, name) for name in raw}
    panels, rows = [], []
    sweeps = (("hard", "target_period_updates", "updates between copies"), ("polyak", "tau", "τ"))
    for kind, key, label in sweeps:
        values = {name: float(s[key]) for name, s in settings.items() if s["target"] == kind}
        winner = max(values, key=lambda name: share[name])
        lines = {
            game(env): {x: mean_of(raw[name][:, [i]] / best[i]) for name, x in values.items()}
            for i, env in enumerate(envs)
        }
        panels.append(draw.Panel("hard copy" if kind == "hard" else "Polyak", label, lines, values[winner]))
        for name in values:
            early = [measured(results, name, env, "return_mean", RECIPE_STEPS) for env in envs]
            numbers = [cell(mean_of(x), 1) for x in (*(raw[name][:, [i]] for i in range(len(envs))), *early)]
            rows.append([study.variant(name).label, *numbers, f"{share[name]:.3f}{' ←' * (name == winner)}"])
    small = [f"{study.steps:,} agent steps. {notes.seeds(results)}"]
    chosen = "chosen: best mean over both games"
    figure = draw.against(panels, "Tuning the baselines", "final score relative to the game's best", small, chosen)
    draw.save(figure, out / "tuning.png")
    early_names = [f"{game(env)}, at {RECIPE_STEPS / 1e6:.2f} M" for env in envs]
    return table("Final score", ["variant", *map(game, envs), *early_names, "mean share of the best"], rows)


def ratios(results: Results, out: Path) -> Table:
    """K_R: relative to hard copy after as many agent steps, and after as many gradient steps of both networks."""
    study = results.study
    settings = {v.name: target_settings(results, v.name) for v in study.variants}
    learned = [name for name, s in settings.items() if s["target"] == "replicate"]
    share = {name: settings[name]["replicate_updates"] / settings[name]["target_period_updates"] for name in learned}
    panels = [draw.Panel(f"after as many {what}", "target steps per online step, $K_R/K_L$", {})
              for what in ("agent steps", "gradient steps of both networks")]  # fmt: skip
    begun = [env for env in study.environments if finished(results, env, [study.baseline])]
    for env in begun:
        end = float(curves(results, study.baseline, "return_mean", [env], "gradient-steps").x[-1])
        theirs = final_scores(results, study.baseline, [env])
        done = [name for name in learned if finished(results, env, [name])]
        fair = {name: measured(results, name, env, "return_mean", end, "gradient-steps") for name in done}
        panels[0].lines[game(env)] = {share[name]: relative(results, name, env) for name in done}
        panels[1].lines[game(env)] = {share[name]: ratio_of(fair[name], theirs) for name in done}
    if begun:
        missing = ", ".join(game(env) for env in study.environments if not finished(results, env))
        small = [f"{study.steps:,} agent steps. {notes.seeds(results)}", f"Not complete: {missing}." if missing else ""]
        title, height = "How many target steps does Replicate need?", "final score relative to hard copy"
        draw.save(draw.against(panels, title, height, small), out / "kr.png")
    fair_lines = panels[1].lines
    rows = [[f"{x:g}", *(cell(line.get(x)) for line in fair_lines.values())] for x in share.values()]
    return table(f"Final score relative to {study.baseline}, {panels[1].title}", ["K_R/K_L", *fair_lines], rows)


def recipe(results: Results, out: Path) -> Table:
    study, envs = results.study, complete(results)
    groups: dict[str, dict[str, dict[str, Estimate]]] = {}
    rows = []
    for variant in (variant for variant in study.variants if variant.name != study.baseline and envs):
        scores = {game(env): relative(results, variant.name, env) for env in envs}
        groups.setdefault(_group(results, variant.name), {})[variant.label.partition(":")[0]] = scores
        taken = [target_steps(results, variant.name, env) for env in envs]
        batch = target_settings(results, variant.name)["replicate_batch_size"]
        gaps = [mean_of(measured(results, variant.name, env, "function_gap")) for env in envs]
        numbers = [*taken, *(step * batch for step in taken), *(reach(results, variant.name, env) for env in envs)]
        rows.append([variant.label, *(f"{number:.3g}" for number in numbers), *(cell(gap, 3) for gap in gaps)])
    if groups:
        small = [f"{study.steps:,} agent steps. {notes.seeds(results)}"]
        draw.save(draw.forest(groups, "What makes Replicate work?", small), out / "recipe.png")
    columns = ("target steps per online update", "target samples per online update", "reach", "function gap")
    head = ["variant", *(f"{column}, {game(env)}" for column in columns for env in envs)]
    return table("Settings as they were, and the function gap", head, rows)


def details(results: Results, _: Path) -> Table:
    """What the paper leaves open, beside the paper's version as we read it."""
    envs, rows = complete(results), []
    for variant in (v for v in results.study.variants if _group(results, v.name) == "details left open" and envs):
        chance = _improvement(results, variant.name, "paper", envs)
        shares = [relative(results, variant.name, env, "paper") for env in envs]
        rows.append([variant.label, *map(cell, shares), cell(chance)])
    head = ["variant", *map(game, envs), "probability of beating it"]
    return table("Details left open: relative to Replicate as in the paper", head, rows)


def explanations(results: Results, out: Path) -> Table:
    """Which quantity orders the variants as their scores do? Targets that are copies are left out."""
    study, envs = results.study, complete(results)
    settings = {v.name: target_settings(results, v.name) for v in study.variants}
    names = [n for n, s in settings.items() if s["target"] == "replicate" and s["replicate_start"] == "target"]
    values: dict[str, dict[str, list[float]]] = {}  # quantity → game → one for each variant
    for env in envs:
        steps = [target_steps(results, name, env) for name in names]
        batches = [settings[name]["replicate_batch_size"] for name in names]
        found = {
            "reach: target steps × step size": [reach(results, name, env) for name in names],
            "target steps": steps,
            "step size": [settings[name]["replicate_learning_rate"] or 0.0 for name in names],
            "batch size": batches,
            "samples: target steps × batch size": [a * b for a, b in zip(steps, batches, strict=True)],
        }
        for column, label in MEASURES.items():
            found[f"{label}, at the end"] = [float(np.mean(measured(results, n, env, column))) for n in names]
        for quantity, numbers in found.items():
            values.setdefault(quantity, {})[env] = numbers
    scores = {env: np.hstack([final_scores(results, name, [env]) for name in names]) for env in envs}
    correlation = {
        (quantity, env): rank_correlation(scores[env], np.array(numbers))
        for quantity, each in values.items()
        for env, numbers in each.items()
    }
    if envs:
        shown = ("reach: target steps × step size", "function gap, at the end")
        spots = [
            draw.Spot(game(env), _group(results, n), tuple(values[q][env][i] for q in shown), relative(results, n, env))
            for env in envs for i, n in enumerate(names)
        ]  # fmt: skip
        titles = ["rank correlation: " + ", ".join(f"{game(env)} {correlation[q, env].value:.2f}" for env in envs)
                  for q in shown]  # fmt: skip
        small = [f"Each point is a variant of Replicate. {study.steps:,} agent steps. {notes.seeds(results)}"]
        draw.save(draw.scatter(spots, titles, "What explains the score?", small), out / "why.png")
    rows = [[quantity, *(cell(correlation[quantity, env]) for env in envs)] for quantity in values]
    title = f"Rank correlation with the final score over {len(names)} variants of Replicate"
    return table(title, ["quantity", *map(game, envs)], rows)


def shapes(results: Results, out: Path) -> Table:
    """Targets of another shape: score against the size of the target, relative to a hard copy of the same shape."""
    study, envs = results.study, complete(results)
    if not envs:
        return []
    sizes = {v.name: parameters(results, v.name) for v in study.variants if v.name != "hard"}
    size_of_online = sizes[study.baseline]
    scores = {name: {env: relative(results, name, env, "hard") for env in envs} for name in sizes}
    lines = {game(env): {WIDTHS[name]: scores[name][env] for name in WIDTHS if name in sizes} for env in envs}
    panel = draw.Panel("Replicate with a target of another width", "width of the target, online network = 1", lines)
    small = [f"{study.steps:,} agent steps. {notes.seeds(results)}"]
    title, height = "How large must the target be?", "final score relative to hard copy"
    draw.save(draw.against([panel], title, height, small), out / "shapes.png")
    rows = [
        [study.variant(name).label, f"{size:,}", f"{size / size_of_online:.2f}", *map(cell, scores[name].values())]
        for name, size in sizes.items()
    ]
    head = ["target", "its parameters", "relative to the online network's", *map(game, envs)]
    return table("Final score relative to hard copy, by the target's size", head, rows)


def widths(results: Results, out: Path) -> Table:
    """Replicate against a hard copy of the same width."""
    study, envs = results.study, complete(results)
    kinds = {"replicate": "as in the paper", "recipe": "batch 512, step × 10"}
    found: dict[str, dict[float, Estimate]] = {}
    for env in envs:
        for kind, label in kinds.items():
            both = {float(width): (f"{kind}-{width}", f"hard-{width}") for width in (1, 2, 4)}
            found[f"{game(env)}, {label}"] = {x: relative(results, ours, env, to) for x, (ours, to) in both.items()}
    if not found:
        return []
    panel = draw.Panel("Replicate beside hard copy of the same width", "width of both networks", found)
    small = [f"{study.steps:,} agent steps. {notes.seeds(results)}"]
    title, height = "Does the comparison change as networks grow?", "final score relative to hard copy"
    draw.save(draw.against([panel], title, height, small), out / "width.png")
    rows = [[name, *map(cell, line.values())] for name, line in found.items()]
    return table("Final score relative to hard copy of the same width", ["", "× 1", "× 2", "× 4"], rows)


def _improvement(results: Results, ours: str, theirs: str, envs: Sequence[str], first_seed: int = 0) -> Estimate | None:
    both = [final_scores(results, name, envs)[first_seed:] for name in (ours, theirs)]
    return estimate(probability_of_improvement, *both, resamples=RESAMPLES) if envs else None


def _divided(scores: Floats, by: Floats) -> Floats:
    return np.asarray(scores / environment_means(by)[..., None, :])


def _group(results: Results, variant: str) -> str:
    ours, plain = (target_settings(results, name) for name in (variant, "paper"))
    kinds = {CHANGES.get(key, "other") for key in ours if ours[key] != plain[key]}
    return "as in the paper" if not kinds else kinds.pop() if len(kinds) == 1 else "two at once"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("studies", type=Path, help="folder of study folders")
    parser.add_argument("--out", type=Path, default=Path("docs/results/minatar"), help="default: %(default)s")
    parser.add_argument(
        "--end", nargs=2, action="append", default=[], metavar=("STUDY", "STEPS"), help="as if this study ended there"
    )
    arguments = parser.parse_args()
    if not arguments.studies.is_dir():
        parser.error(f"{arguments.studies}: there is no such folder")
    main(arguments.studies, arguments.out, {name: int(steps) for name, steps in arguments.end})
