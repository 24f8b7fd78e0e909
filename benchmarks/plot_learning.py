"""Draw what benchmarks/learning_minatar.py trained, and print its table.

python benchmarks/plot_learning.py runs/learning docs/figures/learning_minatar.png docs/figures/learning_minatar.csv
"""

import csv
import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from lookrep.runs import metrics

STYLES = {  # colour-blind safe (Okabe-Ito), and told apart in print by the line
    "hard": ("#000000", "-", "hard copy, every 250 updates"),
    "polyak": ("#009E73", "--", "polyak, τ = 0.005"),
    "replicate": ("#0072B2", "-", "replicate, K_L = 250, K_R = 25"),
    "replicate-250": ("#D55E00", "-.", "replicate, K_L = K_R = 250"),
    "hard-bf16": ("#999999", ":", "hard copy, bfloat16 products"),
}
GAMES = ("breakout", "freeway", "space_invaders")


def curves(run: Path, column: str) -> tuple[np.ndarray, np.ndarray]:
    """(agent steps, values [agents, rows])."""
    data = metrics.read(run)
    agents = np.unique(data["agent"])
    values = np.stack([data[column][data["agent"] == a] for a in agents])
    return data["agent_steps"][data["agent"] == agents[0]], values


def main(folder: Path, picture: Path, table: Path) -> None:
    figure, axes = plt.subplots(2, 3, figsize=(11, 5.6), sharex=True, layout="constrained")
    rows = []
    for game, above, below in zip(GAMES, axes[0], axes[1], strict=True):
        for name, (colour, line, label) in STYLES.items():
            run = folder / f"{game}-{name}"
            if not run.exists():
                continue
            steps, returns = curves(run, "return_mean")
            mean = np.nanmean(returns, axis=0)
            error = np.nanstd(returns, axis=0, ddof=1) / np.sqrt(len(returns))
            above.plot(steps / 1e6, mean, color=colour, ls=line, lw=1.6, label=label)
            above.fill_between(steps / 1e6, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
            _, gap = curves(run, "function_gap")
            below.plot(steps / 1e6, np.nanmean(gap, axis=0), color=colour, ls=line, lw=1.6)
            last = steps > 0.9 * steps[-1]
            final = np.nanmean(returns[:, last], axis=1)
            norms = {c: np.nanmean(curves(run, c)[1][:, -1]) for c in ("norm_online", "norm_target")}
            rows.append(
                {
                    "game": game,
                    "target": name,
                    "agents": len(final),
                    "final_return": round(float(final.mean()), 2),
                    "standard_error": round(float(final.std(ddof=1) / np.sqrt(len(final))), 2),
                    "function_gap": round(float(np.nanmean(gap[:, last])), 3),
                    **{key: round(float(value), 1) for key, value in norms.items()},
                    "parameter_distance": round(float(np.nanmean(curves(run, "parameter_distance")[1][:, -1])), 1),
                }
            )
        above.set_title(game.replace("_", " "))
        below.set_xlabel("agent steps (millions)")
        below.set_ylim(bottom=0)
        for axis in (above, below):
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("return (mean of agents ± s.e.)")
    axes[1, 0].set_ylabel("function gap |q_θ − q_w|")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=120)
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print("| " + " | ".join(rows[0]) + " |\n" + "|---" * len(rows[0]) + "|")
    for row in rows:
        print("| " + " | ".join(map(str, row.values())) + " |")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
