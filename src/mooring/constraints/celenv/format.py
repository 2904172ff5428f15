"""Kubernetes' format library: `format.dns1123Label().validate(text)` returns the errors, or none."""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Any, ClassVar, Final

from mooring.api import names
from mooring.cel.costs import REGEX, STRING, CallCost, CallEstimate, between, rounded_up, scaled
from mooring.cel.library import Function, Library, Overload, function
from mooring.cel.types import STRING as TEXT
from mooring.cel.types import Type, list_of, object_type, optional_of
from mooring.cel.values import NONE, Optional
from mooring.constraints.celenv.url import URLError
from mooring.constraints.celenv.url import parse as parse_url

_MAX_REGEX: Final = 128
"""The pattern length that the cost estimate assumes; the runtime cost uses each format's own."""
_MAX_NAME: Final = 64
_UUID: Final = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_DATETIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d([.,]\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format as a CEL value; formats of the same name are equal."""

    cel_type: ClassVar[Type] = object_type("kubernetes.NamedFormat")
    name: str
    validate: Callable[[str], Sequence[str]] = field(compare=False)
    regex_size: int = field(compare=False)


def _uri(text: str) -> Sequence[str]:
    try:
        parse_url(text)
    except URLError as error:
        return [str(error)]
    return []


def _uuid(text: str) -> Sequence[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> Sequence[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _date(text: str) -> Sequence[str]:
    return [] if _is_date(text) else ["invalid date"]


def _datetime(text: str) -> Sequence[str]:
    return [] if _DATETIME.fullmatch(text) and _is_date(text[:10]) else ["invalid datetime"]


def _validate_prefix(check: Callable[[str], Sequence[str]], text: str) -> Sequence[str]:
    return check(names.as_generated_name(text))


FORMATS: Final = {
    name: NamedFormat(shown, validate, regex_size)
    for name, shown, validate, regex_size in (
        ("dns1123Label", "DNS1123Label", names.dns1123_label, 30),
        ("dns1123Subdomain", "DNS1123Subdomain", names.dns1123_subdomain, 60),
        ("dns1035Label", "DNS1035Label", names.dns1035_label, 30),
        ("qualifiedName", "QualifiedName", names.label_key, 60),
        ("dns1123LabelPrefix", "DNS1123LabelPrefix", partial(_validate_prefix, names.dns1123_label), 30),
        ("dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", partial(_validate_prefix, names.dns1123_subdomain), 60),
        ("dns1035LabelPrefix", "DNS1035LabelPrefix", partial(_validate_prefix, names.dns1035_label), 30),
        ("labelValue", "LabelValue", names.label_value, 40),
        ("uri", "URI", _uri, 1080),
        ("uuid", "uuid", _uuid, 70),
        ("byte", "byte", _byte, 84),
        ("date", "date", _date, 71),
        ("datetime", "datetime", _datetime, 71),
    )
}


def find_format(name: str) -> Optional:
    found = FORMATS.get(name)
    return NONE if found is None else Optional.of(found)


def validate(named_format: NamedFormat, text: str) -> Optional:
    messages = named_format.validate(text)
    return Optional.of(list(messages)) if messages else NONE


def _count_validate(args: Sequence[Any], _result: Any) -> int:
    named_format, text = args
    return rounded_up((1 + len(text)) * STRING) * rounded_up(named_format.regex_size * REGEX)


_F: Final = NamedFormat.cel_type
_VALIDATE: Final = CallCost(
    estimator=lambda args: CallEstimate(args[1].size.scaled(STRING).scaled(_MAX_REGEX * REGEX)),
    counter=_count_validate,
)
_EQUALITY: Final = CallCost(scaled(between(1, _MAX_NAME, counted=1), STRING))


def _constant(name: str, named_format: NamedFormat) -> Function:
    return function(f"format.{name}", Overload(f"format.{name}", (), _F, lambda: named_format))


FORMAT_LIBRARY: Final = Library(
    "kubernetes.format",
    functions=(
        *(_constant(name, each) for name, each in FORMATS.items()),
        function("format.named", Overload("format-named", (TEXT,), optional_of(_F), find_format)),
        function(
            "validate",
            Overload("format-validate", (_F, TEXT), optional_of(list_of(TEXT)), validate, member=True, cost=_VALIDATE),
        ),
    ),
    equality={_F: _EQUALITY},
)
