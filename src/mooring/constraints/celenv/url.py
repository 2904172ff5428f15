"""Kubernetes' URL library: `url()`, `isURL()` and the components of a URL."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from mooring.cel.costs import MAX, STRING, Argument, CallCost, CallEstimate, Range
from mooring.cel.errors import EvaluationError
from mooring.cel.ext.traversal import READ_AND_KEEP_SIZE
from mooring.cel.library import Function, Library, Overload, function
from mooring.cel.types import BOOL, Type, list_of, map_of
from mooring.cel.types import STRING as TEXT
from mooring.constraints.celenv.url_values import URL, URLError, parse


def url(text: str) -> URL:
    try:
        return parse(text)
    except URLError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from error


def is_url(text: str) -> bool:
    try:
        parse(text)
    except URLError:
        return False
    return True


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
        function("isURL", Overload("is_url_string", (TEXT,), BOOL, is_url)),
        _part("getScheme", "url_get_scheme", TEXT, lambda value: value.scheme),
        _part("getHost", "url_get_host", TEXT, lambda value: value.host),
        _part("getHostname", "url_get_hostname", TEXT, URL.hostname),
        _part("getPort", "url_get_port", TEXT, URL.port),
        _part("getEscapedPath", "url_get_escaped_path", TEXT, lambda value: value.escaped_path),
        _part("getQuery", "url_get_query", map_of(TEXT, list_of(TEXT)), URL.query),
    ),
    equality={URL.cel_type: CallCost(estimator=_estimate_equality, counter=lambda _args, _result: 1)},
)
