"""Links in pages that pass through a proxy."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.apiserver.streams.real.html_links import rewrite_page

pytestmark = pytest.mark.req("N.7")


def change(link: str) -> str:
    return f"/below{link}" if link.startswith("/") else link


async def passed(*pieces: bytes) -> bytes:
    async def page() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return b"".join([piece async for piece in rewrite_page(page(), change)])


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (b'<a href="/x">test</a>', b'<a href="/below/x">test</a>'),
        (b"<A class=c HREF='/x'>", b"<A class=c HREF='/below/x'>"),
        (b"<img alt=/y src=/x>", b"<img alt=/y src=/below/x>"),
        (b'<a href="x">', b'<a href="x">'),
        (b'<a href="https://other/x">', b'<a href="https://other/x">'),
        (b'<p href="/x">/x</p>', b'<p href="/x">/x</p>'),
        (b'<form action = "/x" method=post>', b'<form action = "/below/x" method=post>'),
        (b'1 < 2 and <a href="/x"', b'1 < 2 and <a href="/x"'),
        (b'<a href="/x">\xff\xfe', b'<a href="/below/x">\xff\xfe'),
    ],
)
async def test_a_page(page: bytes, expected: bytes) -> None:
    assert await passed(page) == expected
    assert await passed(*[page[index : index + 1] for index in range(len(page))]) == expected, "byte by byte"


async def test_a_tag_without_an_end_is_not_kept_for_ever() -> None:
    pieces = [b"<a " + b"x" * 100_000, b"y" * 100_000]
    assert await passed(*pieces) == b"".join(pieces)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary())
async def test_what_has_no_links_passes_as_it_is(page: bytes) -> None:
    plain = page.replace(b"=", b"")
    assert await passed(plain[:7], plain[7:]) == plain
