"""A hook of mkdocs: links out of docs/ lead nowhere on the site, and become names of files in the repository."""

import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")


def without_outside_links(markdown: str, folder: str) -> str:
    """Replace links to files outside of docs/ on a page of a folder of docs/ (empty for docs/ itself) by their text."""
    depth = len([part for part in folder.split("/") if part])

    def shown(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        ups = re.match(r"(?:\.\./)+", target)
        if ups is None or len(ups[0]) // 3 <= depth:
            return found[0]
        path = target.replace("../", "")
        return text if text.strip("`") == path else f"{text} (`{path or '.'}` in the repository)"

    return _LINK.sub(shown, markdown)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return without_outside_links(markdown, page.file.src_uri.rpartition("/")[0])
