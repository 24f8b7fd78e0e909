"""What people type behind any command is read alike, or refused in one line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import tyro

from lookrep.cli import main
from lookrep.cli.parsing import optional, parse
from lookrep.errors import UserError


@dataclass(frozen=True)
class Arguments:
    what: tyro.conf.Positional[str]
    steps: Annotated[int | None, optional("N", "none")] = None
    sizes: tuple[int, ...] = ()
    env: tuple[str, ...] = ()
    low: float = 0.0
    film: bool = True
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("here --steps 1e6", Arguments("here", steps=1_000_000)),
        ("--steps=1_000 here", Arguments("here", steps=1000)),
        ("here --sizes 1e2 16", Arguments("here", sizes=(100, 16))),
        ("--env=a here --low -1e-3", Arguments("here", env=("a",), low=-1e-3)),
        ("here --env a b --no-film -o there", Arguments("here", env=("a", "b"), film=False, out=Path("there"))),
        ("here --env=--a", Arguments("here", env=("--a",))),
        (f"{'a' * 200} --env {'b' * 200}", Arguments("a" * 200, env=("b" * 200,))),
    ],
)
def test_words_as_people_write_them(typed: str, meant: Arguments) -> None:
    assert parse(Arguments, typed.split(), "look") == meant


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("here --env a --env b", "--env is given twice: write --env a b"),
        ("here --steps 1 --steps=2", "--steps is given twice, as 1 and as 2: give it once"),
        ("here -o a --out b", "--out is given twice, as a and as b"),
        ("here --film --no-film", "--film is given twice: give it once"),
        ("here --no-quiet", "unknown option --no-quiet: did you mean '--quiet'?"),
        ("here --xyzzy 3", "unknown option --xyzzy: see look --help"),
        ("here --stpes 3", "unknown option --stpes: did you mean '--steps'?"),
        ("here --low-bound 3", "unknown option --low-bound: did you mean '--low'?"),
        ("here --lr 3", "unknown option --lr: see look --help"),
        ("here -q", "unknown option -q: see look --help"),
        ("here --steps --quiet", "--steps needs a value"),
        ("here --steps 1.5", "1.5"),
        ("here --steps " + "9" * 5000, "--steps = 9999999999…9999999999 has more than 100 digits or letters"),
        ("here --sizes 1 " + "x" * 5000, "--sizes = xxxxxxxxxx…xxxxxxxxxx has more than 100 digits or letters"),
        ("here --steps 1e200", "--steps = 1e200 has more than 100 digits or letters"),
        ("here --low=-" + "9" * 101, "--low = -999999999…9999999999 has more than 100 digits or letters"),
    ],
)
def test_what_cannot_be_meant(typed: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(Arguments, typed.split(), "look")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("study plan minatar-targets --sed 3", "unknown option --sed: did you mean '--seeds'?"),
        (
            "study run minatar-targets --env breakout --env freeway",
            "--env is given twice: write --env breakout freeway",
        ),
        ("report no/study --variant hard --variant polyak", "--variant is given twice: write --variant hard polyak"),
        ("eval no/run --episods 3", "did you mean '--episodes'?"),
        ("play no/run --video a.gif --max-step 3", "did you mean '--max-steps'?"),
        ("train --resume no/run --steps " + "9" * 5000, "--steps = 9999999999…9999999999 has more than 100 digits"),
        ("bench " + "x" * 5000, "what = xxxxxxxxxx…xxxxxxxxxx has more than 100 digits or letters"),
        ("exact baird --kapa 3", "did you mean '--kappa'?"),
        ("train minatar/breakout --agnets 2", "unknown option --agnets: did you mean '--agents'?"),
        ("train minatar/breakout --clip", "unknown option --clip: did you mean '--clip-rewards'?"),
        ("train minatar/breakout --huber-threshold 1", "unknown option --huber-threshold: see lookrep train --help"),
        ("train minatar/breakout --gamma 0.9", "unknown option --gamma: see lookrep train --help"),
        ("bench minatar --agent dqn --agent c51", "--agent is given twice, as dqn and as c51"),
    ],
)
def test_every_command_says_so(typed: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(typed.split()) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_whole_numbers_behind_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    part = ["--variant", "hard", "--env", "breakout", "--seeds", "2e0", "--steps", "1e6"]
    assert main(["study", "plan", "minatar-targets", *part]) == 0
    assert "2,000,000" in capsys.readouterr().out
    assert main(["eval", "no/run", "--episodes", "1e1"]) == 2
    assert "no/run" in capsys.readouterr().err
