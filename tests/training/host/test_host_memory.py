"""A population that does not fit into memory is refused before anything is made; frames may go to the host's."""

import dataclasses
from pathlib import Path

import pytest
from host_runs import small

from lookrep.config import RunConfig, preset
from lookrep.errors import UserError
from lookrep.training import memory, session
from lookrep.training.host.engine import HostEngine

DOPAMINE = RunConfig("atari/Breakout", "dopamine-rainbow", agents=16, groups=2, settings=preset("dopamine-rainbow"))


def gigabytes(monkeypatch: pytest.MonkeyPatch, device: float, host: float | None = None) -> None:
    """A machine with so much memory; without `host`, all of it is the host's."""
    monkeypatch.setattr(memory, "available", lambda: (int(device * 1e9), "of device memory that JAX may use"))
    monkeypatch.setattr(memory, "apart", lambda: host is not None)
    monkeypatch.setattr(memory, "host_available", lambda: int((host or 0) * 1e9))


def test_a_population_that_does_not_fit_is_refused_with_the_arithmetic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At Dopamine's scale: a million frames of 84 × 84 bytes, and 10 more for action, reward, flags and priority; four
    times the parameters (two networks, two moments) of the Nature CNN for Breakout's four actions, 16.6 MB."""
    gigabytes(monkeypatch, 80)
    with pytest.raises(UserError) as error:
        session.start(DOPAMINE, tmp_path / "run", quiet=True)
    assert str(error.value) == (
        "agents = 16 × 7.13 GB (replay_capacity_steps = 1,000,000: 7.07 GB, networks: the rest) = 114.1 GB, but there "
        "are 80.0 GB of device memory that JAX may use, a tenth of it for computing; 10 agents or "
        "--replay-capacity-steps 624000 would fit"
    )
    assert not (tmp_path / "run").exists()
    gigabytes(monkeypatch, 130)
    HostEngine(DOPAMINE)
    gigabytes(monkeypatch, 0.5)
    with pytest.raises(UserError, match="nothing would fit"):
        HostEngine(DOPAMINE)


@pytest.mark.parametrize(("agents", "capacity_steps"), [(10, 1_000_000), (16, 624_000)])
def test_what_is_said_to_fit_does(monkeypatch: pytest.MonkeyPatch, agents: int, capacity_steps: int) -> None:
    gigabytes(monkeypatch, 80)
    replay = dataclasses.replace(DOPAMINE.settings.replay, replay_capacity_steps=capacity_steps)
    settings = dataclasses.replace(DOPAMINE.settings, replay=replay)
    HostEngine(dataclasses.replace(DOPAMINE, agents=agents, settings=settings))


def test_this_machine_has_some_memory() -> None:
    has, called = memory.available()
    assert has > 1e8
    assert called


@pytest.mark.parametrize(("device", "host", "where"), [(130, 1, "device"), (80, 130, "host"), (80, 120, None)])
def test_frames_that_the_device_has_no_room_for_go_to_the_host(
    device: int, host: int, where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gigabytes(monkeypatch, device, host)
    if where:
        engine = HostEngine(DOPAMINE)
        assert (engine.population.replay.frames_from is None) == (where == "device")
    else:
        with pytest.raises(UserError, match=r"80.0 GB of device memory .* \(and 108.0 GB of the host's for frames\)"):
            HostEngine(DOPAMINE)


def test_only_frames_can_be_kept_on_the_host() -> None:
    with pytest.raises(UserError, match="replay_memory = 'host' is for stacked frames, such as Atari's"):
        HostEngine(small("gym/CartPole-v1", {"replay": {"replay_memory": "host"}}))
