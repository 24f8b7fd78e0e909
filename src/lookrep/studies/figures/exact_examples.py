"""Figs. 1 and 8: the paper's two examples, solved and drawn by `lookrep.exact`. They need no study.

The only figures that compute something, and so the only ones that need JAX: it is imported when they are drawn.
"""

import numpy as np
from matplotlib.figure import Figure

from lookrep.studies.figures.notes import number
from lookrep.studies.figures.per_game import Rows

PROBLEMS = {"fig1": "two-state", "fig8": "two-state-two-spaces"}
TITLES = {
    "fig1": "Fig. 1: both networks in one space of parameters",
    "fig8": "Fig. 8: the networks have spaces of their own",
}


def draw(name: str) -> tuple[Figure, Rows]:
    from lookrep.exact import solve
    from lookrep.exact.figures import draw as draw_paths
    from lookrep.exact.naming import named_problem

    problem, settings = named_problem(PROBLEMS[name])
    trace = solve(problem, settings)
    spaces = {
        "value_target": trace.value_target,
        "value_online": trace.value_online,
        "target": trace.target,
        "online": trace.online,
    }
    columns = {
        f"{space}_{place + 1}": np.asarray(path)[:, place]
        for space, path in spaces.items()
        for place in range(np.asarray(path).shape[1])
    }
    rows: Rows = [
        {"outer_iteration": index, **{key: number(float(path[index])) for key, path in columns.items()}}
        for index in range(len(trace.value_target))
    ]
    return draw_paths(problem, trace, TITLES[name]), rows
