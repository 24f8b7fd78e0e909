"""Into how many groups a population on the host is divided. No JAX here: the run's record asks before it starts."""

from lookrep.config import RunConfig


def resolved_groups(config: RunConfig) -> int:
    """The number of groups that a run uses: what its configuration says, or what suits so many agents.

    Nothing an agent sees depends on it, and any number can go on from a checkpoint. On 16 cores and an H200, 8 agents
    in two groups did 10 000 steps/s; 32 in four 13 400 and in two 12 000; 96 in eight 16 100 and in six 15 400.
    Without networks, 256 in 16 did 0.82 of what the emulators could, and in eight 0.77.

    >>> resolved_groups(RunConfig("atari/Breakout", agents=32)), resolved_groups(RunConfig("atari/Breakout", agents=33))
    (4, 1)
    """
    least_agents = {16: 256, 8: 96, 6: 72, 4: 32, 2: 4}
    fitting = (n for n, least in least_agents.items() if config.agents >= least and config.agents % n == 0)
    return config.groups or next(fitting, 1)


def slices(config: RunConfig) -> list[slice]:
    """Which agents are in which group: consecutive ones, as many in each."""
    count = resolved_groups(config)
    size = config.agents // count
    return [slice(i * size, (i + 1) * size) for i in range(count)]
