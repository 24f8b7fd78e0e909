"""What a run was made with: kept beside its settings, and compared where a difference would change the run."""

import json
import platform
from pathlib import Path
from typing import Any

import jax

import lookrep
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
    recorded: dict[str, Any] = json.loads(file.read_text()).get("versions") or {}
    then, now = recorded.get("roms"), _of_environments(config).get("roms")
    if then != now:
        raise UserError(
            f"{file.parent} was trained on {then or 'the ROMs of ale-py'}, here is {now or 'what ale-py brings'}: "
            + ("ALE_ROMS_DIR must name their folder" if then else "unset ALE_ROMS_DIR")
        )


def _of_environments(config: RunConfig) -> dict[str, str]:
    if not envs.on_host(config.env):
        return {}
    from lookrep import hosted

    return hosted.versions(config.games)
