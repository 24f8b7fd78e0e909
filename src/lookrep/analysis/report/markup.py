"""HTML as text that cannot be mixed up: whatever is not `Html` is escaped when it enters a tag.

Titles, labels and settings come from files that anybody may have written, so safety must not depend on remembering
to escape. Knows nothing about studies.
"""

import base64
import html
from collections.abc import Iterable, Sequence

VOID = frozenset({"img", "meta", "br", "link", "wbr"})  # tags without an end


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Any value as HTML; only what is HTML already stays as it is.

    >>> text("5 < 7 & 'so on'")
    '5 &lt; 7 &amp; &#x27;so on&#x27;'
    """
    return value if isinstance(value, Html) else Html(html.escape(str(value), quote=True))


def join(parts: Iterable[object], between: object = "") -> Html:
    return Html(text(between).join(text(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """One element. `class_` is class, `data_value` is data-value; None and False leave the attribute out.

    >>> tag("p", "a < b", class_="note", hidden=True, id=None)
    '<p class="note" hidden>a &lt; b</p>'
    """
    written = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written += " " + key.rstrip("_").replace("_", "-")
        written += "" if value is True else f'="{html.escape(str(value), quote=True)}"'
    if name in VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def table_card(title: str, note: str, head: Sequence[Html], rows: Iterable[Html], kind: str) -> Html:
    """A table that scrolls inside its box, under a note that does not. `title` is for those who cannot see it."""
    anchor = "table-" + "".join(letter if letter.isalnum() else "-" for letter in title.lower())
    table = tag(
        "table",
        tag("thead", tag("tr", *head)) if head else "",
        tag("tbody", *rows),
        class_=kind,
        aria_label=title,
        aria_describedby=f"{anchor}-note" if note else None,
        id=anchor,
    )
    about = tag("p", note, class_="about", id=f"{anchor}-note") if note else ""
    box = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=title)
    return tag("div", about, tag("div", box, class_="sideways"), class_="card")


def data_uri(kind: str, content: bytes) -> str:
    """`content` as an address that needs no network.

    >>> data_uri("text/plain", b"hi")
    'data:text/plain;base64,aGk='
    """
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
