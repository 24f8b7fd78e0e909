"""What a study asks: environments × variants × seeds, read from TOML, in a size. A wrong entry is one clear line.

Only names and shapes are checked here. Whether a setting has a sensible value is known when the plan builds
the populations' configurations; how a study is cut into populations is `lookrep.studies.plan`'s business.
"""

import dataclasses
import functools
import os
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from lookrep import config as configs
from lookrep import files
from lookrep.errors import UserError, hint
from lookrep.exact.settings import Settings
from lookrep.runs.names import STUDY
from lookrep.studies import sweep, toml

FILE = STUDY
SIZES = ("smoke", "laptop", "gpu", "full")
MOST_SEEDS = 10_000
MOST_VARIANTS = 10_000
DEFAULT_SIZE = "laptop"

_KEYS = ("name", "title", "question", "kind", "environments", "agent", "baseline", "figures", "seeds", "steps")
_SIZE_KEYS = ("environments", "agent", "seeds", "steps", "variants", "overrides")
_EXACT_SETTINGS = tuple(field.name for field in dataclasses.fields(Settings))
_DECIDED_BY_PLAN = ("env", "agent", "agents", "first_agent", "steps", "settings")
_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")  # never two dashes in a row: those separate parts of an id
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # what a terminal would obey
_ENVIRONMENT = re.compile(r"[^\s,\"']+")


@dataclass(frozen=True)
class Variant:
    """One way to do it: what is compared with the others."""

    name: str
    label: str
    changes: dict[str, Any]  # flat names as on the command line, with underscores; `agent` is the preset


@dataclass(frozen=True)
class Study:
    """A definition with its size chosen: every variant on every environment with seeds 0 … seeds − 1."""

    name: str
    title: str
    question: str
    kind: Literal["training", "exact"]
    environments: tuple[str, ...]
    agent: str
    variants: tuple[Variant, ...]
    seeds: int
    steps: int  # agent steps of each seed
    overrides: dict[str, Any]  # settings of all variants
    size: str
    figures: tuple[str, ...]  # names that make sense for it, in the report's order
    baseline: str  # the variant that others are compared with

    def variant(self, name: str) -> Variant:
        return self._by_name[name]

    @functools.cached_property
    def _by_name(self) -> dict[str, Variant]:
        return {variant.name: variant for variant in self.variants}


def names() -> tuple[str, ...]:
    """The studies that come with lookrep, the paper's first."""
    found = sorted(file.name.removesuffix(".toml") for file in _builtin().iterdir() if file.name.endswith(".toml"))
    return tuple(sorted(found, key=lambda name: not name.startswith("paper-")))


def load(name_or_path: str | Path, size: str | None = None) -> Study:
    """A built-in study by name, a TOML file, or the study in a folder; `laptop` where no size is asked for. A Path is
    never a name: a folder may be called like a built-in study.

    >>> load("minatar-targets", "gpu").seeds
    20
    """
    text, where, name = _source(name_or_path)
    return from_toml(text, size, where, name)


def from_toml(text: str, size: str | None = None, where: str = FILE, name: str = "study") -> Study:
    """A definition as text; `name` is that of a study that does not say its own."""
    return _study(files.from_toml(text, where), size, where, name)


def to_toml(study: Study) -> str:
    """Everything about it, with the size chosen: `from_toml` gives the same study back."""
    plain = {key: getattr(study, key) for key in (*_KEYS, "size")}
    variants = {variant.name: {"label": variant.label, **variant.changes} for variant in study.variants}
    return toml.dumps(plain | {"overrides": study.overrides, "variants": variants})


def narrow(
    study: Study,
    *,
    environments: Sequence[str] = (),
    variants: Sequence[str] = (),
    seeds: int | None = None,
    steps: int | None = None,
) -> Study:
    """The study with only some of its environments and variants, or another number of seeds and steps.

    An environment's last part will do: `breakout` for `minatar/breakout`.
    """
    chosen: dict[str, Any] = {}
    if environments:
        full = {name: name for name in study.environments} | {n.rpartition("/")[2]: n for n in study.environments}
        wanted = {full[_known(name, full, "environment", study.name)] for name in environments}
        chosen["environments"] = tuple(name for name in study.environments if name in wanted)
    if variants:
        every = [variant.name for variant in study.variants]
        kept = {_known(name, every, "variant", study.name) for name in variants}
        chosen["variants"] = tuple(variant for variant in study.variants if variant.name in kept)
        chosen["baseline"] = study.baseline if study.baseline in kept else chosen["variants"][0].name
    for name, value in (("seeds", seeds), ("steps", steps)):
        if value is not None:
            chosen[name] = _positive({name: value}, name, f"study {study.name}")
    return dataclasses.replace(study, **chosen)


def union(stored: Study, asked: Study, where: str) -> Study:
    """What a folder's study becomes when more of it is asked for: more environments, variants, seeds or steps."""
    for field in ("name", "kind", "agent", "steps", "overrides"):
        before, now = getattr(stored, field), getattr(asked, field)
        if before != now and not (field == "steps" and now > before):
            said = "other overrides" if field == "overrides" else f"{field} = {before}, not {now}"
            raise UserError(f"{where} holds a study with {said}: choose another --out")
    variants = {variant.name: variant for variant in stored.variants}
    for variant in asked.variants:
        if variants.setdefault(variant.name, variant).changes != variant.changes:
            raise UserError(
                f"{where} holds a study whose variant '{variant.name}' has other settings: choose another --out"
            )
    return dataclasses.replace(
        asked,
        environments=tuple(dict.fromkeys((*stored.environments, *asked.environments))),
        variants=tuple(variants.values()),
        seeds=max(stored.seeds, asked.seeds),
        baseline=stored.baseline,
    )


def setting_groups() -> dict[str, str | None]:
    """Every setting a study may change → the group of `AgentConfig` it is in, None for those of the run itself.

    >>> setting_groups()["tau"], setting_groups()["log_interval_steps"]
    ('target', None)
    """
    found: dict[str, str | None] = {
        field.name: None for field in dataclasses.fields(configs.RunConfig) if field.name not in _DECIDED_BY_PLAN
    }
    for group, kind in typing.get_type_hints(configs.AgentConfig).items():
        found |= {field.name: group for field in dataclasses.fields(kind)}
    return found


def _builtin() -> Any:
    return resources.files("lookrep.studies") / "builtin"


def _source(name_or_path: str | Path) -> tuple[str, str, str]:
    """Text, where it is from, and the name of a study that does not say its own."""
    word = str(name_or_path)
    if isinstance(name_or_path, str) and word in names():
        return (_builtin() / f"{word}.toml").read_text(), f"study {word}", word
    path = Path(word)
    if not (os.path.exists(path) or "/" in word or word.endswith(".toml")):
        otherwise = f"choose from {', '.join(names())}, or give a .toml file"
        raise UserError(f"study '{word}' is unknown: {hint(word, names(), otherwise)}")
    file = path / FILE if os.path.isdir(path) else path
    try:
        return file.read_text(), str(file), path.stem
    except FileNotFoundError:
        said = f"{path} is no study: it has no {FILE}" if file != path else f"{path}: no such file"
        raise UserError(said) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: not readable ({error})") from None


def _study(data: dict[str, Any], size: str | None, where: str, name: str) -> Study:
    _only(data, (*_KEYS, "size", "overrides", "variants", "sizes"), where)
    kind = _one_of(("training", "exact"), data.get("kind", "training"), f"{where}: kind")
    every = _variants(_get(data, "variants", dict, where), kind, where)
    defaults: dict[str, Any] = {"name": name, "seeds": 1, "steps": 1, "agent": "rainbow", "figures": []}
    data = defaults | data
    for label, entry in _typed(data.get("sizes", {}), dict, f"{where}: sizes").items():
        _only(_typed(entry, dict, f"{where}: sizes.{label}"), _SIZE_KEYS, f"{where}: sizes.{label}")
        _typed(entry.get("overrides", {}), dict, f"{where}: sizes.{label}.overrides")
    _typed(data.get("overrides", {}), dict, f"{where}: overrides")
    data = _sized(data, size, where)
    kept = _strings(data.get("use_variants", list(every)), f"{where}: variants of the size")
    variants = tuple(every[_known(entry, every, "variant", where)] for entry in kept)
    if not variants:
        raise UserError(f"{where}: variants: at least one is needed")
    overrides = _typed(data.get("overrides", {}), dict, f"{where}: overrides")
    _check_settings(overrides, kind, f"{where}: overrides")
    names = [variant.name for variant in variants]
    baseline = _get(data, "baseline", str, where) if "baseline" in data else names[0]
    _known(baseline, every, "variant", f"{where}: baseline")
    study = Study(
        name=_named(_get(data, "name", str, where), f"{where}: name"),
        title=_typed(data.get("title", data["name"]), str, f"{where}: title"),
        question=_typed(data.get("question", ""), str, f"{where}: question"),
        kind="exact" if kind == "exact" else "training",
        environments=_environments(data, where),
        agent=_get(data, "agent", str, where),
        variants=variants,
        seeds=_positive(data, "seeds", where),
        steps=_positive(data, "steps", where),
        overrides=overrides,
        size=_get(data, "size", str, where) if "size" in data else "own",
        figures=tuple(_strings(data["figures"], f"{where}: figures")),
        baseline=baseline if baseline in names else names[0],
    )
    if study.kind == "training":
        for agent in (study.agent, *(v.changes["agent"] for v in study.variants if "agent" in v.changes)):
            _known(agent, configs.AGENTS, "agent", where)
    return study


def _sized(data: dict[str, Any], size: str | None, where: str) -> dict[str, Any]:
    """The definition with one of its sizes laid over it."""
    sizes = data.get("sizes", {})
    if size is None and DEFAULT_SIZE not in sizes:
        return data
    size = DEFAULT_SIZE if size is None else size
    if size not in sizes:
        if data.get("size") == size:
            return data
        known = f"choose from {', '.join(sizes)}" if sizes else "the file has no sizes"
        raise UserError(f"{where}: size '{size}' is unknown: {known}")
    changes = dict(sizes[size])
    overrides = {**data.get("overrides", {}), **changes.pop("overrides", {})}
    if "variants" in changes:
        changes["use_variants"] = changes.pop("variants")
    return data | changes | {"overrides": overrides, "size": size}


def _variants(tables: dict[str, Any], kind: str, where: str) -> dict[str, Variant]:
    found: dict[str, Variant] = {}
    for name, table in tables.items():
        place = f"{where}: variants.{name}"
        changes = dict(_typed(table, dict, place))
        label = _typed(changes.pop("label", name), str, f"{place}: label")
        for point in sweep.points(changes.pop("sweep", {}), f"{place}: sweep", MOST_VARIANTS - len(found)):
            each = Variant(_named(name + point.name, f"{where}: variant"), label + point.label, changes | point.changes)
            _check_settings(each.changes, kind, place, "agent")
            _typed(each.changes.get("agent", ""), str, f"{place}: agent")
            found[each.name] = each
    return found


def _check_settings(changes: Mapping[str, Any], kind: str, where: str, *also: str) -> None:
    _only(changes, (*setting_groups(), *also) if kind == "training" else _EXACT_SETTINGS, where)


def _environments(data: dict[str, Any], where: str) -> tuple[str, ...]:
    found = _strings(_get(data, "environments", list, where), f"{where}: environments")
    if not found:
        raise UserError(f"{where}: environments: at least one is needed")
    for name in found:
        if not _ENVIRONMENT.fullmatch(name):
            raise UserError(f"{where}: environments: '{name}' is no name of an environment")
    return tuple(dict.fromkeys(found))


def _only(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for key in table:
        if key not in (every := tuple(known)):
            raise UserError(f"{where}: unknown entry '{key}', {hint(key, every, 'see docs/studies.md')}")


def _known(name: str, every: Iterable[str], what: str, where: str) -> str:
    if name not in (known := tuple(every)):
        raise UserError(f"{where}: {what} '{name}' is unknown: {hint(name, known)}")
    return name


def _named(name: str, where: str) -> str:
    if not _NAME.fullmatch(name):
        raise UserError(f"{where} '{name}': use letters and digits, with single dots, dashes or underscores between")
    return name


def _get(data: dict[str, Any], key: str, kind: type, where: str) -> Any:
    if key not in data:
        raise UserError(f"{where}: '{key}' is missing")
    return _typed(data[key], kind, f"{where}: {key}")


def _typed(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        wanted = {dict: "a table", list: "a list", str: "a string", int: "a whole number"}[kind]
        raise UserError(f"{where} = {value!r}: must be {wanted}")
    if isinstance(value, str) and _UNSEEN.search(value):
        raise UserError(f"{where} = {value!r}: has control characters")
    return value


def _strings(values: Any, where: str) -> list[str]:
    return [_typed(value, str, where) for value in _typed(values, list, where)]


def _positive(data: dict[str, Any], key: str, where: str) -> int:
    value: int = _get(data, key, int, where)
    most = MOST_SEEDS if key == "seeds" else 2**31 - 1
    if not 1 <= value <= most:
        raise UserError(f"{where}: {key} = {value}: must be at {f'most {most}' if value > most else 'least 1'}")
    return value


def _one_of(choices: tuple[str, ...], value: Any, where: str) -> str:
    if value not in choices:
        raise UserError(f"{where} = {value!r}: choose from {', '.join(choices)}")
    return str(value)
