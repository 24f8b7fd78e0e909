"""The figures there are: what a reader sees in each and how it was computed. Words only, without matplotlib."""

from typing import NamedTuple


class Caption(NamedTuple):
    title: str
    seen: str
    computed: str


BAND = "Shaded bands are 95 % intervals: the runs of each game are drawn again, with replacement, 1,000 times."
CAPTIONS: dict[str, Caption] = {
    "fig1": Caption(
        "Two states, one space",
        "The paths of both networks in value space and in parameter space. They reach the same values, the true ones, "
        "while their parameters stay apart.",
        "Solved exactly, without sampling (the paper’s Fig. 1).",
    ),
    "fig2": Caption(
        "Learning curves",
        "How well the agents play while they learn, one panel for each game. Higher is better.",
        f"Mean return of training episodes between two log entries, averaged over seeds. {BAND}",
    ),
    "fig3": Caption(
        "All games together, by K_R",
        "How learning over all games depends on K_R, the number of gradient steps on the target in each turn.",
        f"Normalised return of every interval, aggregated over games. {BAND}",
    ),
    "fig4": Caption(
        "Area under the curve against K_R",
        "Each point is one K_R: how high its learning curve lies on average over training.",
        "Area under the aggregate curve divided by its length, with 95 % bootstrap intervals.",
    ),
    "fig5": Caption(
        "Parameter norms",
        "How large the parameters of both networks grow. Under Replicate the target is free to have a norm of its own; "
        "a copied target has that of the online network.",
        f"Euclidean norm of all parameters, averaged over seeds. {BAND}",
    ),
    "fig6": Caption(
        "All games together",
        "One curve for each variant over all games, by time and by gradient steps of both networks: Replicate’s extra "
        "steps on the target count. Higher is better.",
        f"Median over games of the normalised mean return. {BAND}",
    ),
    "fig7": Caption(
        "Game by game",
        "By how much each variant ends above or below the baseline on every game.",
        "Final scores are means over the last 10 % of steps; bars are relative differences, with 95 % bootstrap "
        "intervals over seeds.",
    ),
    "fig8": Caption(
        "Two states, two spaces",
        "The same with networks of different kinds: there is no common parameter space, and still the values agree.",
        "Solved exactly, without sampling (the paper’s Fig. 8).",
    ),
    "fig9": Caption(
        "Learning curves of all games, first part",
        "How well the agents play while they learn, one panel for each game.",
        f"Mean return of training episodes, averaged over seeds. {BAND}",
    ),
    "fig10": Caption(
        "Learning curves of all games, second part",
        "The remaining games.",
        f"Mean return of training episodes, averaged over seeds. {BAND}",
    ),
    "profiles": Caption(
        "Performance profiles",
        "The share of runs that score more than the value on the x-axis. A curve that lies above another throughout is "
        "better at every level.",
        "Normalised final scores of all runs, games weighted equally, with 95 % bootstrap bands.",
    ),
    "improvement": Caption(
        "Probability of improvement",
        "How likely a run of a variant is to beat a run of the baseline on the same game. At the line of 0.5 neither "
        "is better; an interval across it decides nothing. Grey: too few seeds to tell.",
        "All pairs of runs compared on each game, ties counting half, averaged over games; 95 % bootstrap intervals.",
    ),
    "curve": Caption(
        "Learning curve of one run",
        "How well the agents play while they learn. Higher is better. Grey lines are agents. Drawn alone, the figure "
        "has the function gap beside the returns.",
        "Mean return of training episodes between two rows of metrics. The band is the standard error over agents.",
    ),
    "gap": Caption(
        "Function gap and parameter distance",
        "How far apart the two networks are: in what they compute, and in their parameters. Replicate asks for a small "
        "gap in values and leaves the parameters alone.",
        "Gap: mean absolute difference of the two networks’ action values on replayed states. Distance: Euclidean, "
        f"over all parameters; only networks of one shape have it. Averaged over seeds. {BAND}",
    ),
    "agreement": Caption(
        "Agreement of target and online network",
        "Which of it the target knows: the best action, the differences between actions, and the level of a state. A "
        "mean gap cannot tell a target that is late from one that lost the differences.",
        "On replayed states. R² is 1 where the target has all of it, 0 where it knows no more than a constant (of the "
        f"differences: none), below 0 where it is worse, which the axis leaves out. Averaged over seeds. {BAND}",
    ),
    "residual": Caption(
        "Bellman residual",
        "How far the online network is from its own bootstrap targets.",
        f"Mean absolute difference on replayed transitions, averaged over seeds. {BAND}",
    ),
}
