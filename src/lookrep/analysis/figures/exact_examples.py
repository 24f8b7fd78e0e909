"""Figs. 1 and 8: the paper's two examples, solved and drawn by `lookrep.exact`. They need no study.

The only figures that compute something, and so the only ones that need JAX: it is imported when they are drawn.
"""

from matplotlib.figure import Figure

from lookrep.analysis.figures.per_game import Rows

PROBLEMS = {"fig1": "two-state", "fig8": "two-state-two-spaces"}
TITLES = {
    "fig1": "Fig. 1: both networks in one space of parameters",
    "fig8": "Fig. 8: the networks have spaces of their own",
}


def draw(name: str) -> tuple[Figure, Rows]:
    from lookrep.exact.figures import draw as draw_paths
    from lookrep.exact.solution import solution, trace_rows

    found = solution(PROBLEMS[name], {})
    return draw_paths(found.problem, found.trace, TITLES[name]), [dict(row) for row in trace_rows(found.trace)]
