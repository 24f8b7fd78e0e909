"""Agents: a network, a head, exploration, an optimiser and a target rule, put together."""

from lookrep.agents.agent import Agent, AgentState, Learned
from lookrep.agents.numbers import Numbers, numbers_of, together
from lookrep.agents.parts import Parts
from lookrep.agents.rules import Inputs

__all__ = ["Agent", "AgentState", "Inputs", "Learned", "Numbers", "Parts", "numbers_of", "together"]
