"""Who may see the dashboard: browsers of this machine with the address, and no page of another site.

- The address has a random token; it is compared in constant time, and nothing is served without it.
- The `Host` header must name the loopback address, or a page whose name was pointed there (DNS rebinding) could read.
- A request that a page of another site has made (`Origin`, `Sec-Fetch-Site`) is refused, whatever it knows.
- What is sent needs POST and an own `Origin`; what changes the cluster needs a header, too, with a second token that
  only own pages have in them. Without `--allow-changes` there is none, and such addresses do not exist.
- Pages may load scripts and styles from here alone, nothing inline, and no site may put them into a frame.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "same-origin",  # the address is the key: it is sent to no other site
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
CHANGING = "x-mooring-changes"
"""The header of requests that change the cluster."""
_NAMES = ("127.0.0.1", "localhost", "[::1]")
_OWN_SITES = frozenset({"same-origin", "none"})
"""`none`: the address was typed or opened."""


class RefusedError(Exception):
    """A request that is refused with an HTTP status; the message may be shown to the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def new_token() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class Gate:
    """The access check of one dashboard server: its token, its port, and the token for changes."""

    token: str
    port: int
    changing: str = ""
    """The token of requests that change the cluster; empty where nothing does."""

    def check(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """Check host, token and origin of a request; return the path after the token. Raise `RefusedError`."""
        if headers.get("host", "") not in {f"{name}:{self.port}" for name in _NAMES}:
            raise RefusedError(421, "this address is not the dashboard's: use the one that the command has printed")
        given, _, rest = path.removeprefix("/").partition("/")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise RefusedError(403, "the address lacks its token: use the one that the command has printed")
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        own = {None, *(f"http://{name}:{self.port}" for name in _NAMES)}
        if (site is not None and site not in _OWN_SITES) or origin not in own:
            raise RefusedError(
                403, "another page has led here, and that is refused: paste the address into the address bar"
            )
        if method not in ("GET", "HEAD") and origin is None:
            raise RefusedError(403, "the request does not say where it comes from (Origin)")
        return rest

    def check_change(self, headers: Mapping[str, str]) -> None:
        """Check the header that requests for changes need, after `check`. Raise `RefusedError`."""
        given = headers.get(CHANGING, "")
        if not self.changing or not hmac.compare_digest(given.encode(), self.changing.encode()):
            raise RefusedError(403, "only the dashboard's own pages may change the cluster: load the page again")
