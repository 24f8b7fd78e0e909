"""Who is served next, where several groups play, look and learn with one host thread and one device.

The host serves whatever is ready: a group that has decided is sent to play, one that has played is shown what came of
it, and updates are launched when there is nothing else to do, the latest before their own group looks again. So neither
emulators nor the device wait for the host as long as some group is ready. Groups have nothing in common: in which order
they are served changes when things happen, and nothing else.
"""

from collections.abc import Sequence

from lookrep.hosted.workers import Workers
from lookrep.training.stopwatch import Stopwatch
from lookrep.training.turn import Turn


def take_turns(turns: Sequence[Turn], workers: Workers, watch: Stopwatch, until_steps: int) -> None:
    """Until every group has taken so many steps, and learnt from them."""
    playing = {turn.number: turn for turn in turns if turn.steps < until_steps}
    looking: list[Turn] = []  # both in the order in which they began to
    for turn in playing.values():
        turn.act()
    while playing or looking:
        decided = next((turn for turn in looking if not playing or turn.has_decided()), None)
        if decided:
            looking.remove(decided)
            decided.act()
            playing[decided.number] = decided
        elif (number := workers.first_ready([*playing])) is not None:
            played = playing.pop(number)
            played.learn()
            played.look()
            if played.steps < until_steps:
                looking.append(played)
        elif behind := next((turn for turn in playing.values() if turn.due), None):
            behind.learn()
        elif looking:
            watch.start()
            workers.nap()
            watch.lap("waiting for either")
        else:
            watch.start()
            workers.wait_for_any([*playing])
            watch.lap("waiting for environments")
    for turn in turns:
        turn.learn()
