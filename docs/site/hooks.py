"""What the site has beyond the pages of docs/: a home page made of README.md, the examples, and links that lead there.

Pages link as they do in a checkout. A link to a file outside docs/ goes to the page made of it; one to a file that has
no page (tests, benchmarks) becomes its name alone, because the site does not know where the repository is.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from griffe import Extension
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
REFERENCE = re.compile(r"<!-- reference: (.*) -->")  # in a checkout nothing is seen of it
NUMBER = r"[−+]?\d[\d.]*(?: \d{3}(?!\d))*"  # 1 555 000
WHOLE = re.compile(rf"<(pre|code)\b.*?</\1>|<[^>]*>|\[{NUMBER}, {NUMBER}\]|{NUMBER}(?:–{NUMBER})?(?: %)?", re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    for source, page in PAGES.items():
        text = linked((ROOT / source).read_text(), source)
        if page == "index.md":
            text = "---\nhide: [navigation]\n---\n" + text
        files.append(File.generated(config, page, content=text))
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = f"# {path.name}\n\n```python\n{path.read_text()}```\n"
        files.append(File.generated(config, f"examples/{path.stem}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.generated_by:  # above
        return markdown
    if page.file.src_uri.endswith("tables.md"):
        page.meta["search"] = {"boost": 0.1}  # hundreds of rows, found before what they mean
    markdown = REFERENCE.sub(lambda match: "\n\n".join(f"::: {name}" for name in match[1].split()), markdown)
    return linked(markdown, "docs/" + page.file.src_uri)


def on_page_content(html: str, **_: Any) -> str:
    """A bar inside a table's code has a backslash, which Python-Markdown leaves there. No line ends inside a number."""
    html = re.sub(r"<code>[^<]*</code>", lambda match: match[0].replace(r"\|", "|"), html)
    return WHOLE.sub(whole, html)


def whole(match: re.Match[str]) -> str:
    text = match[0]
    return text if text[0] == "<" or not re.search("[ –]", text) else f'<span class="whole">{text}</span>'


def linked(text: str, source: str) -> str:
    """`text` of the file `source` with links as the site has them; blocks of code stay as they are."""
    parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.MULTILINE | re.DOTALL)
    here = posixpath.dirname(site_path(source) or "")
    parts[::2] = [LINK.sub(lambda match: moved(match, source, here), part) for part in parts[::2]]
    return "".join(parts)


def moved(match: re.Match[str], source: str, here: str) -> str:
    picture, words, link = match.groups()
    path, _, anchor = link.partition("#")
    if "://" in link or not path:
        return match[0]
    goal = site_path(posixpath.normpath(posixpath.join(posixpath.dirname(source), path)))
    if goal is None:
        return words
    return f"{picture}[{words}]({posixpath.relpath(goal, here or '.')}{'#' + anchor if anchor else ''})"


def site_path(source: str) -> str | None:
    """Where the site has a file of the checkout; None: nowhere."""
    if source.startswith("docs/"):
        return source.removeprefix("docs/")
    if re.fullmatch(r"examples/\w+\.py", source):
        return source.removesuffix("py") + "md"
    return PAGES.get(source)


class Examples(Extension):
    """Examples in docstrings (`>>>` …) as blocks of code: in Markdown they would be quotations."""

    block = re.compile(r"((?:^>>> .*\n(?:.+\n)*)+)", re.MULTILINE)

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = self.block.sub(r"```pycon\n\1```\n", obj.docstring.value + "\n")
