"""From what a user types (`two-state`, `random:5,1`, `my.toml`) to a problem and the settings that go with it."""

import re
from pathlib import Path

from lookrep.errors import UserError, hint
from lookrep.exact import builtin, problem_file
from lookrep.exact.problems import Problem
from lookrep.exact.settings import Settings

LARGEST_RANDOM = 100  # states; every update is a few dense products of this size, and there are many updates


def named_problem(text: str) -> tuple[Problem, Settings]:
    """A built-in problem, a seeded random chain, or a problem file, in this order.

    >>> named_problem("random:4,7")[0].states
    4
    >>> named_problem("biard")
    Traceback (most recent call last):
    lookrep.errors.UserError: unknown problem 'biard': did you mean 'baird'?
    """
    if text in builtin.BUILDERS:
        return builtin.BUILDERS[text](), builtin.SETTINGS[text]
    if text == "random" or text.startswith("random:"):
        return _random(text), builtin.SETTINGS["random"]
    path = Path(text)
    if path.suffix == ".toml" or "/" in text or path.exists():
        return problem_file.load(path)
    otherwise = f"choose from {', '.join(builtin.BUILDERS)}, random:N,SEED, or give a .toml file"
    raise UserError(f"unknown problem '{text}': {hint(text, builtin.BUILDERS, otherwise)}")


def _random(text: str) -> Problem:
    match = re.fullmatch(r"random:([0-9]{1,9}),([0-9]{1,18})", text)
    if match is None:
        raise UserError(f"problem '{text}' should be random:N,SEED with two whole numbers, such as random:5,1")
    states, seed = int(match[1]), int(match[2])
    if not 1 <= states <= LARGEST_RANDOM:
        raise UserError(f"problem '{text}': N = {states} states is outside 1 to {LARGEST_RANDOM}")
    return builtin.random_chain(states, seed)
