"""Replay of a population: a ring of transitions, priorities over it, and frames kept in the host's memory."""

from lookrep.replay.ring import TERMINATED, TRUNCATED, Batch, FramesFrom, Replay, ReplayState, Steps

__all__ = ["TERMINATED", "TRUNCATED", "Batch", "FramesFrom", "Replay", "ReplayState", "Steps"]
