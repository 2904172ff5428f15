"""Parse URLs as Go's ``net/url`` does, because Kubernetes' `url()` and `isURL()` use it.

`parse` accepts what Go's ``ParseRequestURI`` accepts (an absolute URI or an absolute path) and then splits it as Go's
``Parse`` does. Percent-escapes encode bytes, so this module works on UTF-8 bytes and returns strings. Used by
`mooring.constraints.celenv.url` and by the `uri` format.
"""

import string
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from mooring.base.short_string_cache import cache_short_or_error
from mooring.cel.costs import MAX, STRING, Argument, CallCost, CallEstimate, Range
from mooring.cel.errors import EvaluationError
from mooring.cel.ext.network import succeeds
from mooring.cel.ext.traversal import READ_AND_KEEP_SIZE
from mooring.cel.library import Function, Library, Overload, function
from mooring.cel.types import BOOL, Type, list_of, map_of, object_type
from mooring.cel.types import STRING as TEXT

_UNRESERVED = frozenset((string.ascii_letters + string.digits + "-_.~").encode())
_SCHEME = frozenset((string.ascii_letters + string.digits + "+-.").encode())
_HOST = _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\"")
_USERINFO = _UNRESERVED | frozenset(b":!$&'()*+,;=%@")
_PATH = _UNRESERVED | frozenset(b"$&+,/:;=@")
_PATH_AS_WRITTEN = _PATH | frozenset(b"!'()*[]%")
_HEX = frozenset(string.hexdigits.encode())


class URLError(ValueError):
    """The string is not a URL; the message is that of Go's parser."""


class URL(msgspec.Struct, frozen=True):
    """The components of a URL; two are equal if their serialized forms are."""

    cel_type: ClassVar[Type] = object_type("kubernetes.URL")
    scheme: str
    opaque: str
    userinfo: str
    host: str
    escaped_path: str
    raw_query: str | None
    fragment: str

    def port(self) -> str:
        return self._split_host()[1]

    def hostname(self) -> str:
        name = self._split_host()[0]
        return name[1:-1] if name.startswith("[") and name.endswith("]") else name

    def query(self) -> dict[str, list[str]]:
        """Return the unescaped query values by key; skip what cannot be unescaped, as Go does."""
        values: dict[str, list[str]] = {}
        for pair in (self.raw_query or "").split("&"):
            if not pair or ";" in pair:
                continue
            key, _, value = pair.partition("=")
            try:
                key, value = (_text(_unescape(part.replace("+", " ").encode())) for part in (key, value))
            except URLError:
                continue
            values.setdefault(key, []).append(value)
        return values

    def _split_host(self) -> tuple[str, str]:
        name, colon, port = self.host.rpartition(":")
        return (name, port) if colon and _is_port(port) else (self.host, "")


@cache_short_or_error(1024, URLError)
def parse(text: str) -> URL:
    """Parse a URL; raise URLError."""
    raw = text.encode(errors="surrogatepass")
    try:
        _split(raw, is_request=True)  # a request URI has no fragment: `#` belongs to the path or the query
        rest, hash_sign, fragment = raw.partition(b"#")
        url = _split(rest, is_request=False)
        fragment = _unescape(fragment) if hash_sign else b""
    except URLError as error:
        raise URLError(f'parse "{text}": {error}') from None
    scheme, opaque, userinfo, host, path, query = url
    raw_query = None if query is None else _text(query)
    return URL(_text(scheme), _text(opaque), _text(userinfo), _text(host), _text(path), raw_query, _text(fragment))


def _split(raw: bytes, *, is_request: bool) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes | None]:
    if any(byte < 0x20 or byte == 0x7F for byte in raw):
        raise URLError("net/url: invalid control character in URL")
    if not raw and is_request:
        raise URLError("empty url")
    if raw == b"*":
        return b"", b"", b"", b"", b"*", None
    scheme, rest = _scheme(raw)
    rest, question_mark, query = rest.partition(b"?")
    asked = query if question_mark else None
    if not rest.startswith(b"/"):
        if scheme:
            return scheme, rest, b"", b"", b"", asked
        if is_request:
            raise URLError("invalid URI for request")
        if b":" in rest.partition(b"/")[0]:
            raise URLError("first path segment in URL cannot contain colon")
    userinfo = host = b""
    if rest.startswith(b"//") and (scheme or (not is_request and not rest.startswith(b"///"))):
        authority, slash, path = rest[2:].partition(b"/")
        userinfo, host = _authority(authority)
        rest = slash + path
    return scheme, b"", userinfo, host, _escape_path(rest), asked


def _scheme(raw: bytes) -> tuple[bytes, bytes]:
    for index, byte in enumerate(raw):
        if byte == ord(":"):
            if index == 0:
                raise URLError("missing protocol scheme")
            return raw[:index].lower(), raw[index + 1 :]
        if byte not in _SCHEME or (index == 0 and not raw[:1].isalpha()):
            break
    return b"", raw


def _authority(authority: bytes) -> tuple[bytes, bytes]:
    userinfo, _, host = authority.rpartition(b"@")
    if any(byte not in _USERINFO for byte in userinfo):
        raise URLError("net/url: invalid userinfo")
    return _unescape(userinfo), _host(host)


def _host(host: bytes) -> bytes:
    if host.startswith(b"["):
        bracketed, closing, port = host.rpartition(b"]")
        if not closing:
            raise URLError("missing ']' in host")
        _check_port(port)
        name, zone_sign, zone = bracketed.partition(b"%25")
        if zone_sign:
            return _unescape_host(name) + b"%" + _unescape(zone) + b"]" + port
        return _unescape_host(host)
    name, colon, port = host.rpartition(b":")
    if colon:
        _check_port(colon + port)
        if b":" in name:
            raise URLError(f'invalid host "{_text(host)}": too many colons')
    return _unescape_host(host)


def _check_port(colon_port: bytes) -> None:
    if colon_port and not (colon_port.startswith(b":") and _is_port(_text(colon_port[1:]))):
        raise URLError(f'invalid port "{_text(colon_port)}" after host')


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit())


def _unescape_host(host: bytes) -> bytes:
    for index, byte in enumerate(host):
        if byte == ord("%"):
            escaped = host[index : index + 3]
            # Only bytes that are not ASCII may be escaped in a host, and the percent sign of a zone.
            if len(escaped) == 3 and escaped[1] in b"01234567" and escaped != b"%25":
                raise URLError(f'invalid URL escape "{_text(escaped)}"')
        elif byte < 0x80 and byte not in _HOST:
            raise URLError(f'invalid character "{chr(byte)}" in host name')
    return _unescape(host)


def _escape_path(path: bytes) -> bytes:
    """Return the path with escapes: as written if that is valid, otherwise escaped again."""
    plain = _unescape(path)
    if all(byte in _PATH_AS_WRITTEN for byte in path):
        return path
    return b"".join(bytes([byte]) if byte in _PATH else b"%%%02X" % byte for byte in plain)


def _unescape(escaped: bytes) -> bytes:
    first, *others = escaped.split(b"%")
    parts = [first]
    for part in others:
        if len(part) < 2 or part[0] not in _HEX or part[1] not in _HEX:
            raise URLError(f'invalid URL escape "%{_text(part[:2])}"')
        parts.append(bytes([int(part[:2], 16)]) + part[2:])
    return b"".join(parts)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def url(text: str) -> URL:
    try:
        return parse(text)
    except URLError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from error


def _estimate_equality(args: Sequence[Argument]) -> CallEstimate:
    """Charge a comparison with the whole right side, as Kubernetes does; an unknown length counts as one character."""
    longest = 1 if args[1].size.max == MAX else args[1].size.max
    return CallEstimate(Range(1, longest).scaled(STRING))


def _part(name: str, overload: str, result: Type, impl: Callable[[URL], Any]) -> Function:
    return function(name, Overload(overload, (URL.cel_type,), result, impl, member=True))


URL_LIBRARY: Final = Library(
    "kubernetes.urls",
    functions=(
        function("url", Overload("string_to_url", (TEXT,), URL.cel_type, url, cost=READ_AND_KEEP_SIZE)),
        function("isURL", Overload("is_url_string", (TEXT,), BOOL, partial(succeeds, url))),
        _part("getScheme", "url_get_scheme", TEXT, lambda value: value.scheme),
        _part("getHost", "url_get_host", TEXT, lambda value: value.host),
        _part("getHostname", "url_get_hostname", TEXT, URL.hostname),
        _part("getPort", "url_get_port", TEXT, URL.port),
        _part("getEscapedPath", "url_get_escaped_path", TEXT, lambda value: value.escaped_path),
        _part("getQuery", "url_get_query", map_of(TEXT, list_of(TEXT)), URL.query),
    ),
    equality={URL.cel_type: CallCost(estimator=_estimate_equality, counter=lambda _args, _result: 1)},
)
