"""Do the default numbers of Replicate carry the values along? Every head beside its own hard copy, on short runs.

    python benchmarks/replicate_defaults.py
    python benchmarks/replicate_defaults.py --env gym/CartPole-v1 --agent dqn --agents 5 --seed 1

Prints a row a run: the mean return over the last third of the steps with its standard error over agents, and how far
the target agrees with the online network. docs/agents.md has the table. An hour on two cores.
"""

import argparse
import math
import statistics

import lookrep

RUNS = {
    "gym/CartPole-v1": {"steps": 30_000, "warmup_steps": 1_000, "epsilon_decay_steps": 5_000},
    "minatar/breakout": {"steps": 80_000, "warmup_steps": 2_000, "epsilon_decay_steps": 20_000},
}
HEADS = ("dqn", "c51", "qr-dqn", "iqn", "rainbow")


def row(env: str, agent: str, target: str, agents: int, seed: int) -> str:
    settings = RUNS[env]
    every = settings["steps"] // 20
    run = lookrep.train(env, agent=agent, target=target, agents=agents, seed=seed, log_interval_steps=every, **settings)
    late = [row for row in run.curves() if row["agent_steps"] > settings["steps"] * 2 / 3]
    means = [
        statistics.fmean(row["return_mean"] for row in late if row["agent"] == i and row["return_mean"] is not None)
        for i in range(agents)
    ]
    error = statistics.stdev(means) / math.sqrt(agents)
    agreement, advantages = (
        statistics.fmean(row[name] for row in late) for name in ("argmax_agreement", "r2_advantages")
    )
    return (
        f"| {env} | {agent} | {target} | {statistics.fmean(means):.1f} ± {error:.1f} | {agreement:.2f} | "
        f"{advantages:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", choices=RUNS, nargs="+", default=list(RUNS))
    parser.add_argument("--agent", choices=HEADS, nargs="+", default=list(HEADS))
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| environment | agent | target | return | same best action | R² of advantages |\n|---|---|---|---|---|---|")
    for env in given.env:
        for agent in given.agent:
            for target in ("hard", "replicate"):
                print(row(env, agent, target, given.agents, given.seed), flush=True)


if __name__ == "__main__":
    main()
