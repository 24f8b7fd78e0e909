"""What a run was made with: kept beside its settings, and compared where a difference would change the run."""

import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

import lookrep
from lookrep import config as configs
from lookrep import envs
from lookrep.config import RunConfig
from lookrep.errors import UserError


def here(config: RunConfig) -> dict[str, str]:
    """Versions and device, for the run's `config.json`."""
    return {
        "lookrep": lookrep.__version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "device": f"{config.devices} × {jax.devices()[0].device_kind}",
        **_of_environments(config),
    }


def check_roms(config: RunConfig, file: Path) -> None:
    """Refuse to go on with a run, or to play with its agents, on other versions of its games."""
    recorded = json.loads(file.read_text()).get("versions")
    then = recorded.get("roms") if isinstance(recorded, dict) else None
    now = _of_environments(config).get("roms")
    if then != now:
        raise UserError(
            f"{file.parent} was trained on {then or 'the ROMs of ale-py'}, here is {now or 'what ale-py brings'}: "
            + ("ALE_ROMS_DIR must name their folder" if then else "unset ALE_ROMS_DIR")
        )


# What may be otherwise when a run goes on: how long it is, how often it saves, and what it is computed with.
FREE = ("steps", "checkpoint_interval_steps", "devices", "workers", "groups", "replay_memory")


def settings(config: RunConfig) -> dict[str, Any]:
    """All that decides what a run learns, under flat names, for its checkpoints."""
    data = configs.to_json(config)
    flat = {name: value for group in data.pop("settings").values() for name, value in group.items()}
    return {name: value for name, value in (data | flat).items() if name not in FREE}


def check_settings(config: RunConfig, saved: dict[str, Any], file: Path) -> None:
    """Refuse to go on with a run, or to play with its agents, by other settings than its checkpoint was made with."""
    now = settings(config)
    for name, then in saved.get("settings", {}).items():
        if name in now and now[name] != then:
            raise UserError(f"{file} says {name} = {now[name]!r}, but it was trained with {then!r}: put that back")


def length(config: RunConfig) -> dict[str, int]:
    """Of what is `FREE`, that which a run is begun with and keeps unless somebody asks, for its checkpoints."""
    return {"steps": config.steps, "checkpoint_interval_steps": config.checkpoint_interval_steps}


def other_interval(config: RunConfig, saved: dict[str, Any], file: Path) -> list[str]:
    """What to say if it saves at other intervals than it did, which changes no row."""
    now, then = length(config), saved.get("length") or length(config)
    name = "checkpoint_interval_steps"
    return [] if now[name] == then[name] else [f"{file} says {name} = {now[name]:,}, it was {then[name]:,}"]


def _of_environments(config: RunConfig) -> dict[str, str]:
    if config.env.startswith("gymnax/"):
        return {"gymnax": metadata.version("gymnax")}
    if not envs.on_host(config.env):
        return {}
    from lookrep.envs import host as host_envs

    return host_envs.versions(config.games)
