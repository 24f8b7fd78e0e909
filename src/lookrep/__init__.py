"""lookrep: target networks that follow the online network as a function, not as a vector of parameters."""

__version__ = "0.1.0"
