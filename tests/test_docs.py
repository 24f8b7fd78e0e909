"""The documents keep their word: code in them runs, names and links exist, commands parse, tables match the code."""

import dataclasses
import doctest
import importlib
import inspect
import re
import shlex
import tomllib
import typing
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import lookrep
from lookrep import cli, config
from lookrep.cli import train
from lookrep.cli.parsing import parse
from lookrep.errors import UserError
from lookrep.runs import metrics

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
EACH = pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)


def blocks(path: Path, language: str) -> list[str]:
    """Fenced code blocks of a document in one language; `""` for those that name none."""
    every = re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
    return [text for name, text in every if name == language]


def without_blocks(path: Path) -> str:
    return re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def rows(path: Path) -> Iterator[list[str]]:
    """Cells of every table row but headings; a bar inside a cell has a backslash."""
    lines = path.read_text().splitlines()
    for i, line in enumerate(lines):
        heading = line.startswith("|---") or (i + 1 < len(lines) and lines[i + 1].startswith("|---"))
        if line.startswith("|") and not heading:
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def anchors(path: Path) -> set[str]:
    """What GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# Code


# Blocks of docs/in-your-agent.md run one by one, in their own test.
CODE = [path for path in DOCUMENTS if blocks(path, "python") and path.name != "in-your-agent.md"]


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("path", CODE, ids=lambda path: path.name)
def test_the_python_in_a_document_runs_from_top_to_bottom(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for number, block in enumerate(blocks(path, "python")):
        if block.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(block, names, f"{path.name} block {number}", str(path), 0)
            runner.run(test, clear_globs=False)
            names.update(test.globs)
        else:
            exec(compile(block, f"{path.name} block {number}", "exec"), names)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("name", "module"), [("docs/training.md", "my_envs"), ("docs/python.md", "my_parts")])
def test_a_file_in_a_document_works_with_the_command_below_it(
    name: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = next(block for block in blocks(ROOT / name, "python") if block.startswith(f"# {module}.py"))
    (tmp_path / f"{module}.py").write_text(source)
    command = next(line for line in commands(ROOT / name) if f"{module}:" in " ".join(line))
    quick = "--steps 400 --warmup-steps 100 --log-interval-steps 400 --replay-capacity-steps 400"
    few = quick.split()
    words = [word for before, word in pairwise(command) if not {before, word} & set(few[::2])]
    assert cli.main([*words, *few, "--quiet"]) == 0
    found = metrics.read(tmp_path / command[command.index("--out") + 1])
    assert found["agent_steps"].tolist() == [400]
    assert found["online_updates"].tolist() == [75]


# Links and names


@EACH
def test_every_link_leads_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", without_blocks(path)):
        if link.startswith(("http://", "https://")):
            continue
        file, _, anchor = link.partition("#")
        goal = (path.parent / file).resolve() if file else path
        assert goal.exists(), f"{path.name} links to {file}, which is not there"
        assert not anchor or anchor in anchors(goal), f"{path.name} links to #{anchor} of {goal.name}: no such heading"


@EACH
def test_every_name_of_ours_in_a_document_can_be_imported(path: Path) -> None:
    for dotted in re.findall(r"`(lookrep(?:\.\w+)+)(?:\([^`]*\))?`", without_blocks(path)):
        parts, found = dotted.split("."), None
        for count in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:count]))
            except ModuleNotFoundError:
                continue
            for attribute in parts[count:]:
                assert hasattr(found, attribute), f"{path.name} names {dotted}, which does not exist"
                found = getattr(found, attribute)
            break
        assert found is not None, f"{path.name} names {dotted}, which does not exist"


def test_the_site_has_every_page_once() -> None:
    """`make docs` says so, too, and more; it is not needed for this."""
    linked = re.findall(r": ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    made = ["index.md", "contributing.md", "changelog.md"]
    made += [f"examples/{path.stem}.md" for path in ROOT.glob("examples/*.py")]
    pages = [str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md")]
    assert sorted(linked) == sorted(made + pages)


def test_architecture_names_files_and_methods_that_exist() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    files = [path for folder in ("src", "tests") for path in (ROOT / folder).glob("**/*.py")]
    for name in set(re.findall(r"`([\w/]+\.py)`", text)):
        assert any(str(path).endswith(f"/{name}") for path in files), f"docs/architecture.md names {name}"
    source = "".join(path.read_text() for path in files)
    for owner, method in set(re.findall(r"`([A-Z]\w+)\.(\w+)`", text)):
        assert f"class {owner}" in source, f"docs/architecture.md names {owner}"
        assert f"def {method}(" in source, f"docs/architecture.md names {owner}.{method}"


PUBLIC = ("lookrep", *(f"lookrep.{name}" for name in ("targets", "distances", "losses", "heads", "methods", "exact")))


def public(module: str) -> dict[str, Any]:
    """What a user of a module of ours imports from it."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None) or [
        name for name, thing in vars(found).items() if getattr(thing, "__module__", "") == module and name[0] != "_"
    ]
    return {f"{module}.{name}": getattr(found, name) for name in names}


@pytest.mark.parametrize("module", PUBLIC)
def test_the_reference_has_every_public_name_and_each_has_an_example_that_runs(module: str) -> None:
    page = (ROOT / "docs/api.md").read_text()
    shown = "".join(
        block for name in ("api", "python", "targets") for block in blocks(ROOT / f"docs/{name}.md", "python")
    )
    names = public(module)
    for name, thing in names.items():
        if name == "lookrep.__version__" or inspect.ismodule(thing):
            continue
        assert f"`{name}`" in page, f"docs/api.md lacks {name}"
        word, ours = name.rpartition(".")[2], getattr(thing, "__module__", "").startswith("lookrep")
        example = ">>>" in (thing.__doc__ or "") or re.search(rf"\b{word}\b", shown)
        # By the function of that name, which has one, or whatever the page says gives it.
        given = any("functions above give" in line and f"`{name}`" in line for line in page.splitlines())
        made = given or f"{module}.{word.lower()}" in names
        assert example or made or not ours, f"{name} has no example"


def test_the_reference_names_every_method_of_a_run_and_the_guide_uses_it() -> None:
    methods = {name for name in vars(lookrep.Run) if not name.startswith("_")}
    assert methods <= set(re.findall(r"`(\w+)`", (ROOT / "docs/api.md").read_text()))
    guide = "".join(blocks(ROOT / "docs/python.md", "python"))
    assert {name for name in methods - {"agents"} if f".{name}(" not in guide} <= {"parameters"}


def test_paper_to_code_has_every_numbered_part_and_says_what_is_missing() -> None:
    table = {row[0]: row for row in rows(ROOT / "docs/paper-to-code.md")}
    text = " / ".join(table)
    parts = ["Algorithm 1", "Algorithm Lookahead", "Algorithm Replicate", "Theorem 4.3", "Corollary 4.4", "Theorem A.5"]
    parts += ["F_single", "F_pair", "F_value", "loss `H`", "loss `G`", "equation (1)", "equation (2)", "B.1", "B.2"]
    parts += [f"Claim {n}" for n in (1, 2, 3)] + [f"Lemma A.{n}" for n in (1, 2, 3, 4)]
    parts += [f"Assumption 4.{n}" for n in (1, 2)] + [f"Figure {n}" for n in range(1, 9)] + ["Figures 9 and 10"]
    assert [part for part in parts if part not in text] == []
    for name, (_, _, where, how, status) in table.items():
        word = status.partition(":")[0]
        assert word in ("done", "partly", "not yet", "no code"), name
        if word in ("done", "partly"):
            assert "lookrep." in where or where.startswith("as "), f"{name} is {word}, but where?"
        if word == "not yet":
            assert (where, how) == ("–", "–"), f"{name} is not there yet, so nothing can be named for it"


@EACH
def test_lines_are_wrapped(path: Path) -> None:
    """At 120 characters; rows of tables and headings cannot be."""
    long = [line for line in path.read_text().splitlines() if len(line) > 120 and line[0] not in "|#"]
    assert long == []


# Commands


def unbroken(block: str) -> list[str]:
    """Its lines, those joined that end in a backslash."""
    return re.sub(r" \\\n *", " ", block).splitlines()


def commands(path: Path) -> list[list[str]]:
    """The `lookrep …` and `make …` lines of a document, in blocks and in running text, as words."""
    lines = [
        line.removeprefix("$ ")
        for language in ("", "bash", "sh")
        for block in blocks(path, language)
        for line in unbroken(block)
    ]
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`\n]+(?:\n[^`\n]+)*)`", without_blocks(path))]
    words = [shlex.split(line, comments=True) for line in lines if re.match(r"(lookrep|make) [a-z]", line)]
    return [line for line in words if "…" not in line]


def test_the_commands_are_found_in_blocks_and_in_running_text() -> None:
    found = commands(ROOT / "README.md")
    assert ["make", "demo"] in found
    assert ["lookrep", "play", "runs/first", "--video", "first.gif"] in found
    assert ["lookrep", "exact", "baird", "--method", "td"] in found
    assert sum(line.count("--resume") for line in commands(ROOT / "docs/training.md")) == 3


class Understood(Exception):
    """Stops a command once its flags are parsed."""


def parse_and_stop(*args: Any, **settings: Any) -> None:
    raise Understood(parse(*args, **settings))


@EACH
def test_every_command_in_a_document_is_understood(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "load", lambda path: config.RunConfig(env="minatar/breakout"))
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for program, name, *rest in commands(path):
        if program == "make":
            assert name in targets
            continue
        assert name in cli.COMMANDS, f"{path.name} shows lookrep {name}, which is no command"
        if rest in ([], ["--help"]):
            continue  # the bare name of a command, in running text
        command = importlib.import_module(f"lookrep.cli.{name}")
        rest = [word for word in rest if word != "--help-all"]  # prints, after the others are parsed
        with monkeypatch.context() as patch:
            patch.setattr(command, "parse", parse_and_stop)
            try:
                with pytest.raises(Understood):
                    command.main(rest)
            except UserError as error:
                pytest.fail(f"{path.name}: lookrep {name} {shlex.join(rest)}: {error}")


def test_training_md_has_every_extra_for_users() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    ours = {name: needed for name, needed in extras.items() if name not in ("test", "lint", "docs", "bench")}
    shown = {row[0].strip("`"): row[1] for row in rows(ROOT / "docs/training.md") if row[0].startswith("`lookrep[")}
    assert set(shown) == {f"lookrep[{name}]" for name in ours}
    for name, needed in ours.items():
        assert ("lookrep[train]" in needed) == ("`[train]`" in shown[f"lookrep[{name}]"])


# docs/agents.md against config.py


def settings_of(kind: Any) -> Iterator[tuple[str, Any, Any]]:
    """(name, default, type) of every plain field, in the order of the help."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from settings_of(hints[field.name])
        else:
            yield field.name, field.default, hints[field.name]


def agents_rows() -> dict[str, list[str]]:
    return {row[0].strip("`"): row[1:] for row in rows(ROOT / "docs/agents.md")}


def test_agents_md_has_every_setting_with_its_default() -> None:
    documented = {name: row[0].strip("`") for name, row in agents_rows().items() if name.startswith("--")}
    expected = {
        f"--{name.replace('_', '-')}": "" if default is dataclasses.MISSING else str(default)
        for name, default, _ in settings_of(config.RunConfig)
    }
    assert documented == expected


def test_agents_md_gives_units_and_choices() -> None:
    table = agents_rows()
    for name, _, kind in settings_of(config.RunConfig):
        unit = table[f"--{name.replace('_', '-')}"][1]
        if typing.get_origin(kind) is typing.Literal:
            assert unit == ", ".join(f"`{choice}`" for choice in typing.get_args(kind))
        elif kind is bool:
            assert unit == "switch"
        elif name.endswith("_steps") or name == "steps":
            assert unit == "agent steps"
        elif name.endswith("_updates"):
            assert unit.endswith("updates")


@pytest.mark.parametrize("agent", config.AGENTS)
def test_agents_md_says_which_flags_a_preset_stands_for(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = agents_rows()[agent][0].strip("`").split()
    monkeypatch.setattr(train, "parse", parse_and_stop)
    env = "minatar/breakout" if config.preset(agent).atari == config.AtariConfig() else "atari/Breakout"
    with pytest.raises(Understood) as understood:
        train.main([env, "--agent", "dqn", *flags])
    assert understood.value.args[0].run.settings == config.preset(agent)


def test_training_md_explains_every_column_of_the_metrics() -> None:
    first_cells = " ".join(row[0] for row in rows(ROOT / "docs/training.md"))
    assert [name for name in metrics.COLUMNS if f"`{name}`" not in first_cells] == []
