"""What a method is: a name, and the settings it stands for. Two methods add up to one."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from lookrep.errors import UserError

Changes = Mapping[str, Mapping[str, Any]]  # group of `AgentConfig` → field → value, or a function of the settings


@dataclass(frozen=True)
class Method:
    """A method, ours or one's own. Settings that a run gives itself come on top.

    >>> both = Method("a", {"target": {"tau": 0.1}}) + Method("b", {"method": {"kappa": 2.0}})
    >>> both.name, both.changes
    ('a+b', {'target': {'tau': 0.1}, 'method': {'kappa': 2.0}})
    """

    name: str
    changes: Changes
    source: str = "ours"

    def __add__(self, other: "Method") -> "Method":
        merged = {group: dict(fields) for group, fields in self.changes.items()}
        for group, fields in other.changes.items():
            mine = merged.setdefault(group, {})
            for field, value in fields.items():
                if mine.get(field, value) != value:
                    one, two = map(_shown, (mine[field], value))
                    raise UserError(f"method '{self.name}+{other.name}': one sets {field} = {one}, the other {two}")
                mine[field] = value
        return Method(f"{self.name}+{other.name}", merged, f"{self.source}; {other.source}")

    def of(self, settings: Any, given: Changes | None = None) -> dict[str, dict[str, Any]]:
        """The changes to these settings, with what is `given` besides on top. Numbers that follow from others follow
        from them as they are in the end.

        >>> own = Method("own", {"target": {"updates": lambda settings: settings.target.period // 10}})
        >>> own.of(SimpleNamespace(target=SimpleNamespace(period=100)), {"target": {"period": 50}})
        {'target': {'updates': 5, 'period': 50}}
        """
        found = {group: dict(fields) for group, fields in self.changes.items()}
        for group, fields in (given or {}).items():
            found.setdefault(group, {}).update(fields)
        known = {group: {name: v for name, v in fields.items() if not callable(v)} for group, fields in found.items()}
        seen = SimpleNamespace(
            **{group: SimpleNamespace(**(vars(part) | known.get(group, {}))) for group, part in vars(settings).items()}
        )
        return {
            group: {field: value(seen) if callable(value) else value for field, value in fields.items()}
            for group, fields in found.items()
        }


def _shown(value: Any) -> str:
    return "what follows from other settings" if callable(value) else repr(value)
