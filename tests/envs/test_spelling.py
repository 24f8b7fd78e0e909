"""Names that other software has for environments lead to ours, or to one line that says what to write."""

import sys

import pytest

from lookrep.envs import spelling
from lookrep.errors import UserError


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("minatar/Breakout", "minatar/breakout"),
        ("MinAtar/Breakout-v1", "minatar/breakout"),
        ("MinAtar/SpaceInvaders-v1", "minatar/space_invaders"),
        ("ALE/Pong-v5", "atari/Pong"),
        ("atari/pong", "atari/Pong"),
        ("atari/road_runner,pong", "atari/RoadRunner,Pong"),
        ("PongNoFrameskip-v4", "atari/Pong"),
        ("pong", "atari/Pong"),
        ("Breakout-v4", "atari/Breakout"),
        ("CartPole-v1", "gym/CartPole-v1"),
        ("gymnasium/CartPole-v1", "gym/CartPole-v1"),
    ],
)
def test_names_of_other_software_lead_to_ours(typed: str, meant: str) -> None:
    assert spelling.meant(typed) == meant
    assert spelling.meant(meant) == meant


@pytest.mark.parametrize("name", ["gym/ALE/Pong-v5", "gymnax/Breakout-MinAtar", "my_envs:Corridor"])
def test_names_that_others_look_after_are_left_to_them(name: str) -> None:
    assert spelling.meant(name) == name


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("breakout", "'breakout' may mean two: write minatar/breakout or atari/Breakout"),
        ("minatar/breakout,freeway", "only Atari trains several games in one program; take one, as minatar/breakout"),
        ("minatar/brekout", "did you mean minatar/breakout?"),
        ("brekout", "did you mean minatar/breakout?"),
        ("pong,breakout", "did you mean atari/Pong,Breakout?"),
        ("atari/Pnog", "did you mean atari/Pong?"),
        ("cartpole", "did you mean gym/CartPole-v1?"),
        ("xyz", "choose from minatar/breakout, minatar/asterix"),
    ],
)
def test_what_is_unclear_is_one_line_with_what_to_write(typed: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        spelling.meant(typed)
    assert said in str(caught.value)


def test_a_study_or_a_file_that_has_such_a_name_is_told_the_right_one() -> None:
    assert str(spelling.unknown("ALE/Pong-v5")).endswith("did you mean atari/Pong?")
    assert str(spelling.unknown("MinAtar/Breakout-v1")).endswith("did you mean minatar/breakout?")


def test_without_ale_py_only_what_is_surely_ataris_is_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from lookrep.envs.host import atari_roms

    atari_roms.libraries.cache_clear()
    monkeypatch.setitem(sys.modules, "ale_py", None)
    assert spelling.meant("breakout") == "minatar/breakout"
    assert spelling.meant("PongNoFrameskip-v4") == "atari/Pong"
    with pytest.raises(UserError, match=r"pip install 'lookrep\[atari\]'"):
        spelling.meant("ALE/Pong-v5")
    atari_roms.libraries.cache_clear()
