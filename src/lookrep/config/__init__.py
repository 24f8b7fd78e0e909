"""Settings: what can be set (`schema`), what names stand for (`presets`), a run (`run`), and files (`json`)."""

from lookrep.config.json import from_flat, from_json, load, recorded_settings, setting_groups, to_json
from lookrep.config.method import MethodConfig
from lookrep.config.presets import AGENTS, preset, with_method
from lookrep.config.run import RunConfig, check_agents, games, replace, shared, target_code
from lookrep.config.schema import (
    NUMBERS,
    AgentConfig,
    AtariConfig,
    ExplorationConfig,
    LearningConfig,
    NetworkConfig,
    Precision,
    ReplayConfig,
    ReplayMemory,
    TargetConfig,
    TargetName,
)

__all__ = [
    "AGENTS",
    "NUMBERS",
    "AgentConfig",
    "AtariConfig",
    "ExplorationConfig",
    "LearningConfig",
    "MethodConfig",
    "NetworkConfig",
    "Precision",
    "ReplayConfig",
    "ReplayMemory",
    "RunConfig",
    "TargetConfig",
    "TargetName",
    "check_agents",
    "from_flat",
    "from_json",
    "games",
    "load",
    "preset",
    "recorded_settings",
    "replace",
    "setting_groups",
    "shared",
    "target_code",
    "to_json",
    "with_method",
]
