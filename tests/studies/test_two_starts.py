"""Studies that are started in one folder at the same instant: merged, or refused; and folders without locks."""

import errno
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lookrep.errors import UserError
from lookrep.runs import folder as runs
from lookrep.runs import lock
from lookrep.studies import definition, exact_study
from lookrep.studies import folder as folders
from lookrep.studies.definition import Study


def study(variant: str, learning_rate: float = 0.001) -> Study:
    return definition.from_toml(
        f'name = "two"\nenvironments = ["minatar/breakout"]\nseeds = 1\nsteps = 800\n[overrides]\n'
        f'learning_rate = {learning_rate}\n[variants.{variant}]\ntarget = "hard"\n'
    )


def at_once(out: Path, studies: list[Study]) -> list[str]:
    """What each is refused with, "" where it is not, if all of them start when they have seen what is there."""
    ready = threading.Barrier(len(studies))

    def begin(one: Study) -> str:
        folders.merged(out, one)
        ready.wait()
        try:
            with folders.defined(out, one):
                return ""
        except UserError as error:
            return str(error)

    with ThreadPoolExecutor(len(studies)) as pool:
        return list(pool.map(begin, studies))


def test_parts_of_a_study_that_start_at_once_are_all_in_it(tmp_path: Path) -> None:
    names = {f"v{i}" for i in range(8)}
    assert at_once(tmp_path / "out", [study(name) for name in sorted(names)]) == [""] * 8
    assert {variant.name for variant in definition.load(tmp_path / "out").variants} == names


def test_of_different_studies_that_start_at_once_one_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    rates = (0.001, 0.002)
    said = at_once(tmp_path / "out", [study("a", rate) for rate in rates])
    (winner,) = [rate for rate, refusal in zip(rates, said, strict=True) if not refusal]
    assert sum("holds a study with other overrides" in refusal for refusal in said) == 1
    assert definition.load(tmp_path / "out") == study("a", winner)


def test_an_exact_study_keeps_what_another_one_began_while_it_was_solving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'name = "two"\nkind = "exact"\nenvironments = ["two-state"]\n[variants.{}]\nmethod = "{}"\n'
    studies = [definition.from_toml(text.format(name, name)) for name in ("lr", "td")]
    solve, solutions = exact_study._solved, []

    def meanwhile(*words: Any) -> Any:
        if not solutions:
            folders.prepare(tmp_path / "out", studies[1])
        solutions.append(words)
        return solve(*words)

    monkeypatch.setattr(exact_study, "_solved", meanwhile)
    assert [path.name for path in exact_study.run(studies[0], tmp_path / "out", "")] == ["two-state--lr.json"]
    assert {variant.name for variant in definition.load(tmp_path / "out").variants} == {"lr", "td"}


def test_a_start_that_was_killed_just_before_its_definition_is_no_obstacle(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "populations").mkdir(parents=True)
    (out / ".lock").touch()
    (out / ".study.toml.123").touch()
    assert at_once(out, [study("a")]) == [""]
    (out / "study.toml").unlink()
    (out / "populations" / "a--b--0-0").mkdir()
    with pytest.raises(UserError, match="exists and is no study"):
        folders.merged(out, study("a"))


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_without_locks_it_goes_on_and_says_so(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock.fcntl, "flock", refusing(number))
    with runs.claim(tmp_path / "run") as note:
        assert note is not None
        assert note.startswith(f"no lock on {tmp_path / 'run'}: its file system has none (")
        assert not runs.is_running(tmp_path / "run")
    with folders.defined(tmp_path / "out", study("a")) as (_, note):
        assert note is not None
    with pytest.raises(UserError, match=r"another study was begun in .* at the same instant: start this one again"):
        folders.prepare(tmp_path / "out", study("b"))


def test_other_trouble_with_a_lock_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock.fcntl, "flock", refusing(errno.EIO))
    with pytest.raises(UserError, match=f"cannot write to {tmp_path}"), runs.claim(tmp_path):
        pass


def refusing(number: int) -> Callable[..., None]:
    def flock(*_: Any) -> None:
        raise OSError(number, "not here")

    return flock
