"""A study as one self-contained page: `write(results, out)`. The parts are in the files beside this one.

`markup` escapes, `words` says what numbers mean, `answer`, `pictures`, `games` and `provenance` make the sections,
`page` puts them together. Nothing here computes: numbers come from `statistics`, pictures from `figures`.
"""

from lookrep.analysis.report.page import LARGE_BYTES, build, write

__all__ = ["LARGE_BYTES", "build", "write"]
