"""A run on other ROMs says so, and is neither continued nor played on others."""

import json
from pathlib import Path

import pytest

from lookrep import config as configs
from lookrep.config import RunConfig
from lookrep.envs.host import atari_roms
from lookrep.errors import UserError
from lookrep.playing import loading
from lookrep.runs import versions
from lookrep.training import session as run


def begun(out: Path) -> Path:
    """A run that has not begun to train, on the ROMs that are in force."""
    config = RunConfig("atari/Breakout", settings=configs.preset("rainbow", "atari/Breakout"))
    (out / "config.json").write_text(json.dumps(configs.to_json(config) | {"versions": versions.here(config)}))
    versions.check_roms(config, out / "config.json")
    return out


@pytest.fixture
def other_roms(tmp_path: Path) -> str:
    rom = bytearray(atari_roms.rom_path("breakout").read_bytes())
    rom[-100] ^= 1
    (tmp_path / "breakout.bin").write_bytes(rom)
    return str(tmp_path)


def test_a_run_on_ale_pys_roms_is_not_continued_on_others(
    tmp_path: Path, other_roms: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begun(tmp_path)
    monkeypatch.setenv("ALE_ROMS_DIR", other_roms)
    for go_on in (run.resume, loading.load):
        with pytest.raises(
            UserError, match=r"trained on the ROMs of ale-py, here is breakout \w{32}: unset ALE_ROMS_DIR"
        ):
            go_on(folder)


def test_a_run_on_other_roms_is_not_continued_without_them(
    tmp_path: Path, other_roms: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALE_ROMS_DIR", other_roms)
    folder = begun(tmp_path)
    monkeypatch.delenv("ALE_ROMS_DIR")
    with pytest.raises(UserError, match=r"was trained on breakout \w{32}, .*: ALE_ROMS_DIR must name their folder"):
        run.resume(folder)
