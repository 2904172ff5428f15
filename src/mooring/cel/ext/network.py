"""The network library: `ip('10.0.0.1')`, `cidr('10.0.0.0/8')` and their methods.

CEL's own library (`NETWORK`) treats an IPv4-mapped IPv6 address in hexadecimal form as IPv4; Kubernetes rejects it, and
splits addresses and ranges into two libraries: `ip_library` and `cidr_library` build both.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from mooring.cel.costs import NOMINAL, STRING, CallCost, Range, Term, arg, fixed, scaled
from mooring.cel.errors import EvaluationError
from mooring.cel.ext.network_values import CIDR, IP, is_canonical, parse_cidr, parse_ip
from mooring.cel.ext.traversal import READ
from mooring.cel.library import Function, Library, Overload, function
from mooring.cel.types import BOOL, INT, Type
from mooring.cel.types import STRING as TEXT


def succeeds(parse: Callable[[str], object], text: str) -> bool:
    """Whether a string can be parsed."""
    try:
        parse(text)
    except EvaluationError:
        return False
    return True


# When the expression is compiled an address may have 4 or 16 bytes; when it runs, the bytes of the prefix are compared.
_PREFIX: Final = Term(lambda _sizes: Range(4, 16), "{0}")
_COMPARED: Final = scaled(_PREFIX + _PREFIX, STRING)
_ALSO_MASKED: Final = _COMPARED + scaled(_PREFIX, STRING) + fixed(1)
_PARSED: Final = scaled(arg(1), STRING)
_CANONICAL: Final = CallCost(scaled(arg(0), 2 * STRING))
_IP: Final = IP.cel_type
_CIDR: Final = CIDR.cel_type


def _global(
    name: str, overload: str, types: tuple[Type, Type], impl: Callable[..., Any], cost: CallCost = READ
) -> Function:
    return function(name, Overload(overload, (types[0],), types[1], impl, cost=cost))


def _accessor(name: str, overload: str, receiver: Type, result: Type, impl: Callable[..., Any]) -> Function:
    return function(name, Overload(overload, (receiver,), result, impl, member=True))


def ip_library(*, unmap: bool) -> Library:
    """Build the library of addresses; `unmap` treats `::ffff:c0a8:1` as IPv4 192.168.0.1 instead of an error."""
    parse = partial(parse_ip, unmap=unmap)
    return Library(
        "network.ip",
        functions=(
            _global("ip", "string_to_ip", (TEXT, _IP), parse),
            _global("isIP", "is_ip", (TEXT, BOOL), partial(succeeds, parse)),
            _global("ip.isCanonical", "ip_is_canonical", (TEXT, BOOL), partial(is_canonical, unmap=unmap), _CANONICAL),
            _global("string", "ip_to_string", (_IP, TEXT), str, NOMINAL),
            _accessor("family", "ip_family", _IP, INT, lambda ip: ip.address.version),
            _accessor("isUnspecified", "ip_is_unspecified", _IP, BOOL, lambda ip: ip.address.is_unspecified),
            _accessor("isLoopback", "ip_is_loopback", _IP, BOOL, lambda ip: ip.address.is_loopback),
            _accessor("isLinkLocalMulticast", "ip_is_link_local_multicast", _IP, BOOL, IP.is_link_local_multicast),
            _accessor("isLinkLocalUnicast", "ip_is_link_local_unicast", _IP, BOOL, lambda ip: ip.address.is_link_local),
            _accessor("isGlobalUnicast", "ip_is_global_unicast", _IP, BOOL, IP.is_global_unicast),
        ),
        types=(_IP,),
        equality={_IP: NOMINAL},
    )


def cidr_library(*, unmap: bool) -> Library:
    """Build the library of CIDR ranges; `unmap` as in `ip_library`."""
    return Library(
        "network.cidr",
        functions=(
            _global("cidr", "string_to_cidr", (TEXT, _CIDR), parse_cidr),
            _global("isCIDR", "is_cidr", (TEXT, BOOL), partial(succeeds, parse_cidr)),
            _global("string", "cidr_to_string", (_CIDR, TEXT), str, NOMINAL),
            _accessor("ip", "cidr_ip", _CIDR, _IP, lambda cidr: IP(cidr.address)),
            _accessor("prefixLength", "cidr_prefix_length", _CIDR, INT, lambda cidr: cidr.prefix_length),
            _accessor("masked", "cidr_masked", _CIDR, _CIDR, CIDR.masked),
            function(
                "containsIP",
                Overload(
                    "cidr_contains_ip_string",
                    (_CIDR, TEXT),
                    BOOL,
                    lambda cidr, text: cidr.contains_ip(parse_ip(text, unmap=unmap)),
                    member=True,
                    cost=CallCost(_COMPARED + _PARSED),
                ),
                Overload("cidr_contains_ip_ip", (_CIDR, _IP), BOOL, CIDR.contains_ip, True, CallCost(_COMPARED)),
            ),
            function(
                "containsCIDR",
                Overload(
                    "cidr_contains_cidr_string",
                    (_CIDR, TEXT),
                    BOOL,
                    lambda cidr, text: cidr.contains_cidr(parse_cidr(text)),
                    member=True,
                    cost=CallCost(_ALSO_MASKED + _PARSED),
                ),
                Overload("cidr_contains_cidr", (_CIDR, _CIDR), BOOL, CIDR.contains_cidr, True, CallCost(_ALSO_MASKED)),
            ),
        ),
        types=(_CIDR, _IP),
        equality={_CIDR: NOMINAL},
    )


NETWORK: Final = (ip_library(unmap=True), cidr_library(unmap=True))
