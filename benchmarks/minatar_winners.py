"""Choose each method's settings by one rule, from a tuning study, and write them into the comparison's definition.

The rule: of the settings of a family (what stands before the first dot of a variant's name), the one with the best mean
over games of the final score relative to the game's best of all. Of equals the first.

    python benchmarks/minatar_winners.py studies/minatar-methods-tuning src/lookrep/studies/builtin/minatar-methods.toml
"""

import argparse
import re
import sys
from pathlib import Path

import numpy as np

from lookrep.analysis import results
from lookrep.analysis.aggregate import environment_means
from lookrep.analysis.results import Results
from lookrep.analysis.scores import final_scores
from lookrep.errors import UserError
from lookrep.studies import definition, sweep, toml
from lookrep.studies.definition import Variant

PART = re.compile(r"(?<=^# winners\n).*?(?=^# end of winners\n)", re.MULTILINE | re.DOTALL)


def shares(tuned: Results) -> dict[str, float]:
    """Every variant's mean share of each game's best."""
    study = tuned.study
    found = np.stack([environment_means(final_scores(tuned, v.name, study.environments)) for v in study.variants])
    gone = [v.name for v, row in zip(study.variants, found, strict=True) if np.isnan(row).any()]
    if gone:
        raise UserError(f"study {study.name}: {', '.join(gone[:3])} has no finished run on some game: finish it first")
    best = found.max(axis=0)
    if (best <= 0).any():
        raise UserError(f"study {study.name}: no variant scores above 0 on {study.environments[int(best.argmin())]}")
    return {v.name: float(share) for v, share in zip(study.variants, (found / best).mean(axis=1), strict=True)}


def winners(tuned: Results) -> dict[str, Variant]:
    """The best variant of every family, in the study's order. Every family must have had as many settings."""
    families: dict[str, list[Variant]] = {}
    for variant in tuned.study.variants:
        families.setdefault(sweep.family(variant.name), []).append(variant)
    counts = {name: len(members) for name, members in families.items()}
    if len(set(counts.values())) > 1:
        raise UserError(f"study {tuned.study.name}: not every family has as many settings: {counts}")
    share = shares(tuned)
    return {name: max(members, key=lambda variant: share[variant.name]) for name, members in families.items()}


def written(text: str, chosen: dict[str, Variant], where: str) -> str:
    """A definition with these variants between its marks."""
    if not PART.search(text):
        raise UserError(f"{where}: lacks the lines '# winners' and '# end of winners'")
    tables = {name: {"label": variant.label, **variant.changes} for name, variant in chosen.items()}
    return PART.sub(lambda _: toml.dumps({"variants": tables}) + "\n", text, count=1)


def main(folder: Path, file: Path) -> None:
    tuned = results.load(folder)
    chosen = winners(tuned)
    text = written(file.read_text(), chosen, str(file))
    definition.from_toml(text, None, str(file), file.stem)  # refuses what is no definition
    file.write_text(text)
    share = shares(tuned)
    for name, variant in chosen.items():
        print(f"{name:<20} {share[variant.name]:.3f}  {variant.name.partition('.')[2]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tuned", type=Path, help="folder of the tuning study")
    parser.add_argument("definition", type=Path, help="TOML file of the comparison")
    arguments = parser.parse_args()
    try:
        main(arguments.tuned, arguments.definition)
    except UserError as error:
        sys.exit(str(error))
