"""Who may ask the dashboard: the address with its token, from a browser of this machine, and no other page."""

from dataclasses import dataclass, field

import pytest

from dashboard_calls import HOST, ORIGIN, PORT, TOKEN, dashboard, shop
from mooring.advisor.snapshot import Snapshot
from mooring.dashboard.gate import new_token

pytestmark = pytest.mark.req("D.1")


@dataclass(frozen=True)
class Asking:
    name: str
    status: int
    path: str = f"/{TOKEN}/"
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)


@pytest.mark.parametrize(
    "case",
    [
        Asking("the address as it was printed is answered", 200),
        Asking("localhost is the same machine", 200, headers={"host": f"localhost:{PORT}"}),
        Asking("an address without a token is refused", 403, path="/"),
        Asking("the icon that browsers ask for beside fragments needs no token", 200, path="/favicon.ico"),
        Asking("a wrong token is refused", 403, path="/another-token/"),
        Asking("the beginning of the token is not enough", 403, path=f"/{TOKEN[:-1]}/"),
        Asking("the style sheet needs the token too", 403, path="/static/dashboard.css"),
        Asking("another name that leads here is refused", 421, headers={"host": f"evil.example:{PORT}"}),
        Asking("another port is refused", 421, headers={"host": "127.0.0.1:1"}),
        Asking("no name at all is refused", 421, headers={"host": ""}),
        Asking("a typed address is answered", 200, headers={"sec-fetch-site": "none"}),
        Asking("an own link is answered", 200, headers={"sec-fetch-site": "same-origin"}),
        Asking("a link on another page is refused", 403, headers={"sec-fetch-site": "cross-site"}),
        Asking("another port of this machine is another page", 403, headers={"sec-fetch-site": "same-site"}),
        Asking("a script of another page is refused", 403, headers={"origin": "http://evil.example"}),
        Asking("a page without an origin is refused", 403, headers={"origin": "null"}),
        Asking("an own script is answered", 200, headers={"origin": ORIGIN}),
        Asking("a change that does not say where it comes from is refused", 403, method="POST"),
        Asking("other methods are refused", 405, method="DELETE", headers={"origin": ORIGIN}),
        Asking("there is nothing else", 404, path=f"/{TOKEN}/etc/passwd"),
        Asking("no file but the dashboard's own can be read", 404, path=f"/{TOKEN}/static/..%2Fapp.py"),
    ],
    ids=lambda case: case.name,
)
async def test_who_is_answered(case: Asking) -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        answer = await caller.send(case.method, case.path, headers={"host": HOST, **case.headers})
    assert answer.status == case.status, answer.text


async def test_a_refused_request_learns_nothing_of_the_cluster() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        answer = await caller.send("GET", "/wrong/", headers={"host": HOST})
    assert "east" not in answer.text
    assert TOKEN not in answer.text


async def test_pages_may_load_from_here_alone_and_nothing_inline() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        answer = await caller.get()
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"


def test_every_start_has_another_token() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 32
