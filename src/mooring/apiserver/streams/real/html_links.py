"""Rewrite links in proxied HTML pages, so that links to the same server go through the proxy.

``kubelets.py`` calls `rewrite_page` for uncompressed pages. It handles one tag at a time, without regard to its
context, and buffers at most one incomplete tag, so that pages of any size are streamed.
"""

import re
from collections.abc import AsyncIterator, Callable
from typing import Final

_LONGEST_TAG: Final = 64 * 1024
_LINKS: Final = {
    **dict.fromkeys(("a", "area", "base", "link"), ("href",)),
    **dict.fromkeys(("audio", "embed", "script", "source"), ("src",)),
    **dict.fromkeys(("blockquote", "del", "ins", "q"), ("cite",)),
    **dict.fromkeys(("frame", "iframe"), ("longdesc", "src")),
    "applet": ("codebase",),
    "body": ("background",),
    "button": ("formaction",),
    "command": ("icon",),
    "form": ("action",),
    "head": ("profile",),
    "html": ("manifest",),
    "img": ("longdesc", "src", "usemap"),
    "input": ("src", "usemap", "formaction"),
    "object": ("classid", "codebase", "data", "usemap"),
    "video": ("poster", "src"),
}
"""The attributes of each tag that hold links."""
_TAG: Final = re.compile(rb"<([a-zA-Z]+)(\s[^<>]*)>")
_ATTRIBUTE: Final = re.compile(rb"""(\s)([a-zA-Z]+)(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]+)""")


async def rewrite_page(page: AsyncIterator[bytes], change: Callable[[str], str]) -> AsyncIterator[bytes]:
    """Yield an HTML page in pieces, with its links (`href`, `src` and others) replaced by `change`."""
    rest = b""
    try:
        async for piece in page:
            text = rest + piece
            cut = text.rfind(b"<")
            is_whole = cut < 0 or b">" in text[cut:] or len(text) - cut > _LONGEST_TAG
            text, rest = (text, b"") if is_whole else (text[:cut], text[cut:])
            if text:
                yield _rewrite_links(text, change)
        if rest:
            yield rest
    finally:
        close = getattr(page, "aclose", None)
        if close:
            await close()


def _rewrite_links(text: bytes, change: Callable[[str], str]) -> bytes:
    def rewrite_attribute(names: tuple[str, ...], found: re.Match[bytes]) -> bytes:
        space, name, equals, value = found.groups()
        if name.decode().lower() not in names:
            return found[0]
        quote = value[:1] if value[:1] in (b'"', b"'") else b""
        link = value.strip(quote) if quote else value
        return space + name + equals + quote + change(link.decode("latin-1")).encode("latin-1") + quote

    def rewrite_tag(found: re.Match[bytes]) -> bytes:
        names = _LINKS.get(found[1].decode().lower())
        if not names:
            return found[0]
        return b"<" + found[1] + _ATTRIBUTE.sub(lambda each: rewrite_attribute(names, each), found[2]) + b">"

    return _TAG.sub(rewrite_tag, text)
