"""Environments that run on the device, and the small protocol by which users bring their own."""

from lookrep.envs.protocol import Environment, Timestep

__all__ = ["Environment", "Timestep"]
