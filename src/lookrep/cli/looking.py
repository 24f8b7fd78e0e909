"""How much of a study, a run or logs `lookrep figure` and `lookrep report` look at."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lookrep.analysis import sources
from lookrep.analysis.results import Results
from lookrep.cli.parsing import optional


@dataclass(frozen=True, kw_only=True)
class Part:
    """As if there were no more of it."""

    env: Annotated[tuple[str, ...], optional("ENV …", "all")] = ()
    """look at these of its environments alone"""
    variant: Annotated[tuple[str, ...], optional("NAME …", "all")] = ()
    """look at these of its variants alone"""
    steps: Annotated[int | None, optional("N", "its own end")] = None
    """look at the study as if it ended after so many agent steps, which is where a row of its metrics must be"""

    def load(self, folder: Path) -> Results:
        return sources.load(folder, self.steps, self.env, self.variant)
