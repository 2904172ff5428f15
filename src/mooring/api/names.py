"""Validate the syntax of names, label keys and values, ports and the like, with Kubernetes' messages.

Each function takes a value and returns the messages for a field error, none if it is valid. Results are cached where
clusters use the same few values repeatedly. `validate_*` return field errors. Used by validation, ``label_selector.py``
and the CEL format library.
"""

import re
from collections.abc import Mapping
from functools import cache

from mooring.api import field_errors
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.base.short_string_cache import cache_short

Messages = tuple[str, ...]

_DNS1123_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS1123_SUBDOMAIN = rf"{_DNS1123_LABEL}(\.{_DNS1123_LABEL})*"
_DNS1123_LABEL_UNDERSCORE = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_DNS1123_SUBDOMAIN_UNDERSCORE = rf"{_DNS1123_LABEL_UNDERSCORE}(\.{_DNS1123_LABEL_UNDERSCORE})*"
_WILDCARD_SUBDOMAIN = rf"\*\.{_DNS1123_SUBDOMAIN}"
_DNS1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_LABEL_NAME})?"
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_ENV_VAR_NAME = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_CONFIG_MAP_KEY = "[-._a-zA-Z0-9]+"
_HTTP_HEADER_NAME = "[-A-Za-z0-9]+"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PERCENT = "[0-9]+%"
_CONDITION_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

_LABEL_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)


def too_long(limit: int, unit: str = "characters") -> str:
    """Return the message for a string over the limit. Kubernetes counts bytes, and calls them characters in names."""
    return f"must be no more than {limit} {unit}"


def out_of_range(low: int, high: int) -> str:
    """Return the message for a number out of range."""
    return f"must be between {low} and {high}, inclusive"


def mismatch(rule: str, pattern: str, *examples: str) -> str:
    """Return the message for a string that does not match a regular expression."""
    if not examples:
        return f"{rule} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _check(
    value: str, pattern: str, limit: int | None, rule: str, *examples: str, unit: str = "characters"
) -> Messages:
    """Return what is wrong with a string that a regular expression should match; nearly always nothing is."""
    matches = _compiled(pattern).fullmatch(value)
    if matches and (limit is None or len(value) <= limit):  # a matching string is ASCII
        return ()
    messages: Messages = ()
    if limit is not None and len(value.encode(errors="surrogatepass")) > limit:
        messages = (too_long(limit, unit),)
    return messages if matches else (*messages, mismatch(rule, pattern, *examples) if examples else rule)


_compiled = cache(re.compile)


@cache_short(4096)
def dns1123_label(value: str) -> Messages:
    """Check an RFC 1123 label: namespaces, containers, volumes."""
    if "." in value and re.fullmatch(_DNS1123_SUBDOMAIN, value):
        return (*((too_long(63),) if len(value) > 63 else ()), "must not contain dots")
    rule = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
    )
    return _check(value, _DNS1123_LABEL, 63, rule, "my-name", "123-abc")


@cache_short(4096)
def dns1123_subdomain(value: str) -> Messages:
    """Check an RFC 1123 subdomain: most object names."""
    rule = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return _check(value, _DNS1123_SUBDOMAIN, 253, rule, "example.com")


def dns1123_subdomain_with_underscore(value: str) -> Messages:
    """Check a subdomain whose labels may contain underscores: search domains of a pod."""
    rule = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    pattern = _DNS1123_SUBDOMAIN_UNDERSCORE
    return _check(value, pattern, 253, rule, "example.com")


def wildcard_dns1123_subdomain(value: str) -> Messages:
    """Check a subdomain after `*.`."""
    rule = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
        "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
    )
    return _check(value, _WILDCARD_SUBDOMAIN, 253, rule, "*.example.com")


@cache_short(1024)
def dns1035_label(value: str) -> Messages:
    """Check an RFC 1035 label: services."""
    rule = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character"
    )
    return _check(value, _DNS1035_LABEL, 63, rule, "my-name", "abc-123")


def path_segment_name(value: str) -> Messages:
    """Check a URL path segment: names of roles and bindings."""
    if value in {".", ".."}:
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{char}'" for char in "/%" if char in value)


def as_generated_name(value: str) -> str:
    """Return a `generateName` as it is validated: with the trailing dash replaced."""
    return f"{value[:-2]}a" if len(value) > 1 and value.endswith("-") else value


@cache_short(4096)
def label_key(value: str) -> Messages:
    """Check a key of a label, annotation, taint or resource: a name with an optional DNS prefix and `/`."""
    prefix, slash, name = value.rpartition("/")
    wrong_name = _check(
        name, _LABEL_NAME, 63, f"name part {_LABEL_NAME_RULE}", "MyName", "my.name", "123-abc", unit="bytes"
    )
    if not wrong_name and (not slash or (prefix and not dns1123_subdomain(prefix))):
        return ()
    if "/" in prefix:
        shown = mismatch(_LABEL_NAME_RULE, _LABEL_NAME, "MyName", "my.name", "123-abc")
        hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {shown} {hint}",)
    messages: Messages = ()
    if slash:
        wrong = dns1123_subdomain(prefix) if prefix else ("must be non-empty",)
        in_bytes = {too_long(253): too_long(253, "bytes")}
        messages = tuple(f"prefix part {in_bytes.get(message, message)}" for message in wrong)
    if not name:
        messages += ("name part must be non-empty",)
    return messages + tuple(
        message if message.startswith("name part ") else f"name part {message}" for message in wrong_name
    )


@cache_short(4096)
def label_value(value: str) -> Messages:
    """Check a label value, which may be empty."""
    rule = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return _check(value, _LABEL_VALUE, 63, rule, "MyValue", "my_value", "12345", unit="bytes")


def c_identifier(value: str) -> Messages:
    """Check a C identifier."""
    rule = (
        "a valid C identifier must start with alphabetic character or '_', "
        "followed by a string of alphanumeric characters or '_'"
    )
    return _check(value, _C_IDENTIFIER, None, rule, "my_name", "MY_NAME", "MyName")


def env_var_name(value: str) -> Messages:
    """Check the name of an environment variable by the rule before it was relaxed."""
    rule = (
        "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', "
        "and must not start with a digit"
    )
    examples = ("my.env-name", "MY_ENV.NAME", "MyEnvName1")
    return _check(value, _ENV_VAR_NAME, None, rule, *examples) + _leaves_directory(value)


def relaxed_env_var_name(value: str) -> Messages:
    """Check the name of an environment variable."""
    if not value:
        return ("environment variable name must be non-empty",)
    if value.isascii() and value.isprintable() and "=" not in value:
        return ()
    return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)


def config_map_key(value: str) -> Messages:
    """Check a key of a ConfigMap or Secret, which may become a file name."""
    rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
    examples = ("key.name", "KEY_NAME", "key-name")
    return _check(value, _CONFIG_MAP_KEY, 253, rule, *examples) + _leaves_directory(value)


def is_valid_config_key(value: str) -> bool:
    """Whether a ConfigMap key is valid, in one match; `config_map_key` returns the messages."""
    return _sound_config_key(value) is not None


_sound_config_key = re.compile(rf"(?!\.\.|\.\Z)(?=.{{1,253}}\Z){_CONFIG_MAP_KEY}").fullmatch


def _leaves_directory(value: str) -> Messages:
    if value in {".", ".."}:
        return (f"must not be '{value}'",)
    return ("must not start with '..'",) if value.startswith("..") else ()


def http_header_name(value: str) -> Messages:
    """Check the name of an HTTP header, as in probes."""
    rule = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return _check(value, _HTTP_HEADER_NAME, None, rule, "X-Header-Name")


def condition_reason(value: str) -> Messages:
    """Check the reason of a condition."""
    rule = (
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
        "characters or '_,:', and must end with an alphanumeric character or '_'"
    )
    examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
    return _check(value, _CONDITION_REASON, None, rule, *examples)


@cache_short(1024)
def port_name(value: str) -> Messages:
    """Check the name of a port: an IANA service name."""
    messages = _check(value, "[-a-z0-9]+", 15, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        messages += ("must contain at least one letter (a-z)",)
    if "--" in value:
        messages += ("must not contain consecutive hyphens",)
    if value.startswith("-") or value.endswith("-"):
        messages += ("must not begin or end with a hyphen",)
    return messages


def port_number(value: int) -> Messages:
    """Check a port number."""
    return in_range(value, 1, 65535)


def in_range(value: int, low: int, high: int) -> Messages:
    """Check that a number is in a range."""
    return () if low <= value <= high else (out_of_range(low, high),)


def user_id(value: int) -> Messages:
    """Check the id of a Unix user or group."""
    return in_range(value, 0, 2**31 - 1)


def percent(value: str) -> Messages:
    """Check a percentage such as `25%`."""
    rule = "a valid percent string must be a numeric string followed by an ending '%'"
    return _check(value, _PERCENT, None, rule, "1%", "93%")


def validate(path: Path, value: str, messages: Messages) -> Errors:
    """Return a field error for each message about a value."""
    return [field_errors.invalid(path, value, message) for message in messages]


def validate_label_key(key: str, path: Path) -> Errors:
    return validate(path, key, label_key(key))


def is_valid_label(key: str, value: str) -> bool:
    """Whether a label is valid, cached; `label_key` and `label_value` return the messages."""
    if (key, value) in _valid_labels:
        return True
    if _sound_label_key(key) is None or _sound_label_value(value) is None:
        return False
    if len(_valid_labels) >= _MAX_CACHED_LABELS:
        _valid_labels.clear()
    _valid_labels.add((key, value))  # valid, hence short
    return True


def are_cached_labels(labels: Mapping[str, str]) -> bool:
    """Whether all labels are in the cache of valid labels."""
    return labels.items() <= _valid_labels


def validate_labels(labels: Mapping[str, str], path: Path) -> Errors:
    """Validate the keys and values of labels; all errors have the path of the map."""
    errors: Errors = []
    if are_cached_labels(labels):
        return errors
    for key, value in labels.items():
        if is_valid_label(key, value):
            continue
        if wrong := label_key(key):
            errors += validate(path, key, wrong)
        if wrong := label_value(value):
            errors += validate(path, value, wrong)
    return errors


_sound_label_key = re.compile(rf"(?:(?=[^/]{{1,253}}/){_DNS1123_SUBDOMAIN}/)?(?=[^/]{{1,63}}\Z){_LABEL_NAME}").fullmatch
_sound_label_value = re.compile(rf"(?=.{{0,63}}\Z){_LABEL_VALUE}").fullmatch
_MAX_CACHED_LABELS = 16 * 1024
_valid_labels: set[tuple[str, str]] = set()
"""Cache of valid labels."""


def validate_fully_qualified_name(name: str, path: Path) -> Errors:
    """Validate a domain of at least three segments, such as the name of a signer."""
    if not name:
        return [field_errors.required(path)]
    wrong = dns1123_subdomain(name)
    if wrong:
        return [field_errors.invalid(path, name, ",".join(wrong))]
    if name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        return [field_errors.invalid(path, name, detail)]
    return []


def validate_domain_prefixed_path(value: str, path: Path) -> Errors:
    """Validate a path after a domain, such as `acme.io/foo`."""
    if not value:
        return [field_errors.required(path)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [field_errors.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = validate(path, host, dns1123_subdomain(host))
    if not re.fullmatch(_HTTP_PATH, rest):
        errors.append(field_errors.invalid(path, rest, mismatch("Invalid path", _HTTP_PATH)))
    return errors
