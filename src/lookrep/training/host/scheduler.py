"""Which group is served next, where several are stepped with one host thread and one device.

The host serves whatever is ready: a group whose networks have chosen actions is sent to play, one whose environments
have played is shown what came of it, and updates are launched when there is nothing else to do, the latest before
their own group observes again. So neither emulators nor the device wait for the host as long as some group is ready.
Groups have nothing in common: in which order they are served changes when things happen, and nothing else.
"""

from collections.abc import Sequence

from lookrep.envs.host import EnvPool
from lookrep.training.host.group import GroupRunner
from lookrep.training.host.stopwatch import Stopwatch


def serve(groups: Sequence[GroupRunner], pool: EnvPool, watch: Stopwatch, until_steps: int) -> None:
    """Until every group has taken so many steps, and learnt from them."""
    playing = {group.number: group for group in groups if group.steps < until_steps}
    choosing: list[GroupRunner] = []  # both in the order in which they began to
    for group in playing.values():
        group.act()
    while playing or choosing:
        decided = next((group for group in choosing if not playing or group.actions_ready()), None)
        if decided:
            choosing.remove(decided)
            decided.act()
            playing[decided.number] = decided
        elif (number := pool.first_ready([*playing])) is not None:
            played = playing.pop(number)
            played.learn()
            played.observe()
            if played.steps < until_steps:
                choosing.append(played)
        elif behind := next((group for group in playing.values() if group.update_due), None):
            behind.learn()
        elif choosing:
            watch.start()
            pool.nap()
            watch.lap("waiting for either")
        else:
            watch.start()
            pool.wait_for_any([*playing])
            watch.lap("waiting for environments")
    for group in groups:
        group.learn()
