"""No package imports one above it; commands that only read, and every `--help`, stay free of JAX."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import study_results

import lookrep

ROOT = Path(lookrep.__file__).parent
# Bottom to top. A module of a package may have a place of its own, which must not need what is above that place.
LAYERS = (
    "errors", "importing", "files", "streams", "runs.names", "envs.names", "exact.methods", "exact.settings",
    "losses", "distances", "heads", "targets", "networks", "replay",
    "methods", "config", "envs", "agents", "runs", "training", "playing", "video",
    "exact", "studies", "analysis", "api", "benchmarks", "cli",
)  # fmt: skip


def layer(module: str) -> str:
    """The longest entry of `LAYERS` that a module of ours belongs to; its package's name where there is none."""
    parts = module.split(".")[1:]
    names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((name for name in names if name in LAYERS), names[-1] if names else "")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every module of ours that a file imports, also inside functions, but not what is for type checkers alone."""
    tree = ast.parse(path.read_text())
    for_types = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    ignored = {id(inner) for node in for_types for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in ignored:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "lookrep" and "." in name)


def violations(root: Path) -> list[str]:
    found = []
    for path in sorted(root.rglob("*.py")):
        name = ".".join(("lookrep", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        if name == "lookrep":  # re-exports what users import
            continue
        mine = layer(name)
        if mine not in LAYERS:
            found.append(f"{path.relative_to(root)}: '{mine}' has no place in LAYERS")
            continue
        for line, imported in imports(path):
            theirs = layer(imported)
            if theirs == "__version__" or theirs == mine:
                continue
            if theirs not in LAYERS or LAYERS.index(theirs) > LAYERS.index(mine):
                found.append(f"{path.relative_to(root)}:{line} imports {imported}: {mine} is below {theirs}")
    return found


def test_no_package_imports_what_is_above_it() -> None:
    assert violations(ROOT) == []


def test_an_arrow_that_points_up_is_told_with_its_file_and_line(tmp_path: Path) -> None:
    for name in ("losses.py", "studies/plan.py", "studies/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("from lookrep.errors import UserError\n")
    late = "if TYPE_CHECKING:\n    import lookrep.cli\ndef f():\n    from lookrep import analysis\n"
    (tmp_path / "studies" / "plan.py").write_text(late)
    assert violations(tmp_path) == ["studies/plan.py:4 imports lookrep.analysis: studies is below analysis"]


COMMANDS = (
    "--help", "--version", "train --help", "eval --help", "play --help", "bench --help", "exact --help",
    "study list", "study plan minatar-targets --size gpu", "study plan exact", "study status STUDY",
    "figure --help", "figure --list STUDY", "figure fig2 STUDY -o OUT/fig2.png",
    "report --help", "report STUDY -o OUT/report.html", "parity --help",
)  # fmt: skip
RUNNER = """
import contextlib, io, json, sys
from lookrep import cli
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        assert cli.main(words) == 0, words
    if "jax" in sys.modules:
        sys.exit(f"lookrep {' '.join(words)} imports JAX")
"""


def test_commands_that_read_and_help_do_not_wait_for_jax(tmp_path: Path) -> None:
    study = study_results.write(
        study_results.results(study_results.study(("minatar/breakout",), seeds=2)), tmp_path / "s"
    )
    words = [line.replace("STUDY", str(study)).replace("OUT", str(tmp_path)).split() for line in COMMANDS]
    done = subprocess.run([sys.executable, "-c", RUNNER, json.dumps(words)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "fig2.png").exists()
    assert (tmp_path / "report.html").exists()
