"""Benchmarks that compile side by side and are timed one after the other: what benchmarks/gpu/beside.sh starts.

Without LOOKREP_TURNS, a folder, nobody waits.
"""

import os
import time
from pathlib import Path


def wait() -> None:
    """Say that everything is compiled, and wait until nothing else is being timed."""
    if folder := os.environ.get("LOOKREP_TURNS"):
        turn = Path(folder, os.environ["LOOKREP_TURN"])
        turn.with_suffix(".ready").touch()
        while not turn.with_suffix(".go").exists():
            time.sleep(0.1)
