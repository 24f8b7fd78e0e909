"""What someone who names a study, a size and some of its parts gets; what is not there is said with where it is."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from lookrep.errors import UserError
from lookrep.studies import definition
from lookrep.studies.definition import Study


def chosen(
    word: str,
    size: str | None = None,
    *,
    environments: Sequence[str] = (),
    variants: Sequence[str] = (),
    seeds: int | None = None,
    steps: int | None = None,
) -> Study:
    """The study, narrowed. In the folder of a built-in study, parts that it does not have yet may be named too.

    >>> chosen("minatar-targets", "smoke", variants=["polyak"])
    Traceback (most recent call last):
    lookrep.errors.UserError: study minatar-targets, size smoke, has no variant 'polyak': --size laptop has it
    """
    study = definition.load(word, size)
    folder = (Path(word) / definition.FILE).is_file() and word not in definition.names()
    if folder:
        full = _with_all_parts(study)
        environments = environments or study.environments
        variants = variants or [variant.name for variant in study.variants]
        study = full
    for what, asked in (("environment", environments), ("variant", variants)):
        for name in asked:
            _check(study.name if folder else word, study, what, name, ", in a folder of its own" if folder else "")
    return definition.narrow(study, environments=environments, variants=variants, seeds=seeds, steps=steps)


def _with_all_parts(stored: Study) -> Study:
    """A folder's study with what the built-in study of its name has besides, if that is the same study otherwise."""
    if stored.name not in definition.names():
        return stored
    try:
        builtin = definition.load(stored.name, stored.size)
        asked = dataclasses.replace(builtin, steps=stored.steps, seeds=stored.seeds)
        return definition.union(stored, asked, stored.name)
    except UserError:  # it was changed, or has a size of its own
        return stored


def _check(word: str, study: Study, what: str, name: str, where: str) -> None:
    """Refuse a part that another size has, and this one has not; `narrow` knows about names that nobody has."""
    if name in _parts(study, what):
        return
    for size in definition.SIZES:
        try:
            found = name in _parts(definition.load(word, size), what)
        except UserError:  # it has no such size
            continue
        if found:
            has = f"--size {size} has it{where}"
            raise UserError(f"study {study.name}, size {study.size}, has no {what} '{name}': {has}")


def _parts(study: Study, what: str) -> set[str]:
    if what == "variant":
        return {variant.name for variant in study.variants}
    return {*study.environments, *(env.rpartition("/")[2] for env in study.environments)}
