"""How much of a study `lookrep figure` and `lookrep report` look at."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lookrep.commands.parsing import optional
from lookrep.studies import results
from lookrep.studies.results import Results


@dataclass(frozen=True)
class Part:
    """As if there were no more of it."""

    env: Annotated[tuple[str, ...], optional("ENV …", "all")] = ()
    """look at these of its environments alone"""
    variant: Annotated[tuple[str, ...], optional("NAME …", "all")] = ()
    """look at these of its variants alone"""
    steps: Annotated[int | None, optional("N", "its own end")] = None
    """look at the study as if it ended after so many agent steps, which is where a row of its metrics must be"""

    def load(self, folder: Path) -> Results:
        return results.load(folder, self.steps, self.env, self.variant)
