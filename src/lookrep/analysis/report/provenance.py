"""What was run, so that it can be run again: commands, seeds, versions, hardware, time, settings."""

import json
from datetime import datetime
from typing import Any

from lookrep.analysis.report import words
from lookrep.analysis.report.markup import Html, join, table_card, tag
from lookrep.analysis.results import Results
from lookrep.studies import definition
from lookrep.studies.definition import Study
from lookrep.training.progress import duration

# Settings that only one kind of target looks at; under another one they would be mere noise in a comparison.
USED_BY = {"tau": "polyak", "polyak": "polyak", "replicate": "replicate"}


def section(results: Results) -> Html:
    study = results.study
    configs = results.configs
    parts = [_facts(results), _sittings(results)]
    if results.source == "study":
        if study.kind == "training":
            parts.append(_differences(study, configs))
        parts.append(_details("The study (study.toml)", definition.to_toml(study)))
    of = " of one population" if results.source == "study" else ""
    for variant in study.variants:
        if variant.name in configs:
            text = json.dumps(configs[variant.name], indent=2, ensure_ascii=False)
            parts.append(_details(f"Every setting of {variant.label} (config.json{of})", text))
    return tag("div", *(part for part in parts if part), class_="stack")


def differences(study: Study, configs: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Setting → its value for each variant of the study, for settings that are not the same for all.

    As the runs were configured; as the study asks for where a variant has none. A setting that only some variants
    look at is one of them if the study names it.
    """
    settings: dict[str, dict[str, Any]] = {}
    for variant in study.variants:
        config = configs.get(variant.name)
        if config is None:
            settings[variant.name] = {"agent": study.agent} | study.overrides | variant.changes
        else:
            groups = config.get("settings", {})
            flat = {k: v for group in groups.values() if isinstance(group, dict) for k, v in group.items()}
            settings[variant.name] = {"agent": config.get("agent", "")} | flat
    names = dict.fromkeys(name for flat in settings.values() for name in flat)
    table = {name: [_shown(name, settings[variant.name]) for variant in study.variants] for name in names}
    named = {"target", *study.overrides, *(name for variant in study.variants for name in variant.changes)}
    return {
        name: values
        for name, values in table.items()
        if len(set(values) - {"–"}) > 1 or (name in named and len(set(values)) > 1)
    }


def wall_seconds(sitting: dict[str, Any]) -> float | None:
    """How long a sitting took; None if it was killed, or is still going on."""
    try:
        return (datetime.fromisoformat(sitting["end"]) - datetime.fromisoformat(sitting["start"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return None


def _shown(name: str, settings: dict[str, Any]) -> str:
    kind = USED_BY.get(name) or USED_BY.get(name.partition("_")[0])
    unused = name not in settings or (kind is not None and settings.get("target") != kind)
    return "–" if unused else _value(settings[name])


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def _facts(results: Results) -> Html:
    study = results.study
    times = [seconds for seconds in map(wall_seconds, results.sittings) if seconds is not None]
    rows: list[tuple[str, object]] = []
    if study.kind == "training":
        rows.append(("Agent", study.agent))
        rows.append(("Games", ", ".join(study.environments)))
        many = "Agents" if results.source == "run" else "Seeds"
        rows.append((many, f"{words.ranges(range(study.seeds))}; {words.large(study.steps)} agent steps each"))
        if study.steps < results.whole.steps:
            rows.append(("Looked at", f"as if it ended there, not at {words.large(results.whole.steps)} steps"))
    recorded = results.versions or tuple(each["versions"] for each in results.sittings if each.get("versions"))
    versions = dict.fromkeys(" · ".join(f"{k} {v}" for k, v in each.items() if k != "device") for each in recorded)
    rows.append(("Versions", join(versions, tag("br")) or "not recorded"))
    machines = [each["hardware"] for each in results.sittings if each.get("hardware")]
    hardware = dict.fromkeys(f"{one['device']}, {one['cores']} CPU cores" for one in machines)
    if results.source == "run":  # its sittings are not recorded, its device is
        hardware = dict.fromkeys(each["device"] for each in recorded if "device" in each)
    rows.append(("Hardware", join(hardware, tag("br")) or "not recorded"))
    if times:
        sittings = words.count(len(results.sittings), "session")
        least = "at least " if len(times) < len(results.sittings) else ""  # of a killed one the end is not known
        rows.append(("Wall time", f"{least}{duration(sum(times))} in {sittings}"))
    body = [tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in rows]
    return table_card("Runs and machines", "", [], body, "words")


def _sittings(results: Results) -> Html | str:
    if not results.sittings:
        return ""
    lines = []
    for sitting in results.sittings:
        seconds = wall_seconds(sitting)
        took = "did not end cleanly" if seconds is None else duration(seconds)
        lines.append(f"# {words.moment(str(sitting.get('start', '')))}, {took}\n{sitting.get('command', '')}")
    return tag("div", tag("h3", "Commands"), tag("pre", "\n".join(lines), tabindex="0"))


def _differences(study: Study, configs: dict[str, dict[str, Any]]) -> Html:
    head = [tag("th", "Setting", scope="col"), *(tag("th", variant.label, scope="col") for variant in study.variants)]
    rows = [
        tag("tr", tag("th", tag("code", name), scope="row"), *(tag("td", value) for value in values))
        for name, values in differences(study, configs).items()
    ]
    if not rows:
        return tag("p", "All variants have the same settings.")
    note = "Settings that differ between variants; all others are the same, or not looked at."
    return table_card("Settings that differ", note, head, rows, "words")


def _details(title: str, text: str) -> Html:
    return tag("details", tag("summary", title), tag("pre", text, tabindex="0"), class_="card")
