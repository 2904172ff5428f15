"""String formats in a schema (`format: date-time`) that Kubernetes supports, by name without dashes."""

import base64
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from email.utils import parseaddr
from functools import partial
from urllib.parse import urlsplit

_HOST = re.compile(r"([a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)(\.[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d([.,]\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_GO_DURATION = re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_LONG_UNITS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_SHORT_UNITS = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_DURATION_PART = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_SHORT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONG_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ISBN_10 = re.compile(r"\d{9}[\dX]", re.ASCII)
_MAC = re.compile(
    r"([0-9a-fA-F]{2}([:-])([0-9a-fA-F]{2}\2){4}[0-9a-fA-F]{2}(\2[0-9a-fA-F]{2}\2[0-9a-fA-F]{2})?)"
    r"|([0-9a-fA-F]{4}\.){2,3}[0-9a-fA-F]{4}"
)
_HEX = "[0-9a-fA-F]"


def _can_parse(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _pattern_matcher(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid_matcher(third: str, fourth: str) -> Callable[[str], bool]:
    return _pattern_matcher(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{third}-?{fourth}-?{_HEX}{{12}}")


def _is_uri(text: str) -> bool:
    if not text or any(char <= " " or char == "\x7f" for char in text):
        return False
    return _can_parse(lambda uri: urlsplit(uri).port, text) and (text.startswith("/") or bool(urlsplit(text).scheme))


def _is_email(text: str) -> bool:
    address = parseaddr(text)[1]
    local, at, domain = address.rpartition("@")
    return bool(local and at and domain) and " " not in address


def _is_hostname(text: str) -> bool:
    if len(text) > 255 or not _HOST.fullmatch(text):
        return False
    last = text.rpartition(".")[2]
    return "." not in text or (len(last) >= 2 and last.isalpha())


def _is_cidr(text: str) -> bool:
    return text.rpartition("/")[2].isdigit() and "/" in text and _can_parse(ipaddress.ip_interface, text)


def _is_base64(text: str) -> bool:
    return bool(text) and _can_parse(partial(base64.b64decode, validate=True), text)


def _is_date(text: str) -> bool:
    return len(text) == 10 and _can_parse(date.fromisoformat, text)


def _is_date_time(text: str) -> bool:
    return _DATE_TIME.fullmatch(text) is not None and _is_date(text[:10])


def _is_duration(text: str) -> bool:
    if _GO_DURATION.fullmatch(text):
        return True
    units = [unit.lower() for _, unit in _DURATION_PART.findall(text)]
    return any(unit in _SHORT_UNITS or unit.startswith(_LONG_UNITS) for unit in units)


def _is_isbn10(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if not _ISBN_10.fullmatch(digits):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((10 - place) * value for place, value in enumerate(values)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if len(digits) != 13 or not digits.isdecimal():
        return False
    return sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10 == 0


def _is_credit_card_number(text: str) -> bool:
    digits = [int(char) for char in text if char in "0123456789"]
    if not 12 <= len(digits) <= 19:
        return False
    doubled = [sum(divmod(digit * 2, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_rgb_color(text: str) -> bool:
    found = re.fullmatch(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)", text, re.ASCII)
    return found is not None and all(int(part) <= 255 for part in found.groups())


_ANY_FOUR, _VARIANT = f"{_HEX}{{4}}", f"[89abAB]{_HEX}{{3}}"
FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _pattern_matcher(f"{_HEX}{{24}}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": partial(_can_parse, ipaddress.IPv4Address),
    "ipv6": partial(_can_parse, ipaddress.IPv6Address),
    "cidr": _is_cidr,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": _uuid_matcher(_ANY_FOUR, _ANY_FOUR),
    "uuid3": _uuid_matcher(f"3{_HEX}{{3}}", _ANY_FOUR),
    "uuid4": _uuid_matcher(f"4{_HEX}{{3}}", _VARIANT),
    "uuid5": _uuid_matcher(f"5{_HEX}{{3}}", _VARIANT),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card_number,
    "ssn": _pattern_matcher(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _pattern_matcher(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _is_rgb_color,
    "byte": _is_base64,
    "password": lambda _: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": lambda text: len(text) <= 63 and _SHORT_NAME.fullmatch(text) is not None,
    "k8slongname": lambda text: len(text) <= 253 and _LONG_NAME.fullmatch(text) is not None,
}
"""Functions that check a string, by the name of its format without dashes."""

NEW_FORMATS = frozenset({"k8sshortname", "k8slongname"})
"""Formats introduced in 1.34."""


def get_format_checker(name: str) -> Callable[[str], bool] | None:
    """Return a function that checks strings of an OpenAPI format such as `date-time`; None for unknown formats."""
    return FORMATS.get(name.replace("-", ""))
