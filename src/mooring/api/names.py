"""The syntax of names, label keys and values, ports and the like, with Kubernetes' messages.

Each function takes a value and returns what is wrong with it: messages for a field error, none if it is right. The
results are remembered where clusters use the same few values over and over. `validate_*` make field errors of them.
Called by validation, by ``label_selector.py`` and by the CEL format library.
"""

import re
from collections.abc import Mapping
from functools import cache

from mooring.api import field_errors
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.base.remembering import remembered

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


def too_long(limit: int) -> str:
    """The message for a text of more bytes than the limit."""
    return f"must be no more than {limit} bytes"


def outside(low: int, high: int) -> str:
    """The message for a number outside of a range."""
    return f"must be between {low} and {high}, inclusive"


def mismatch(rule: str, pattern: str, *examples: str) -> str:
    """The message for a text that a regular expression does not match."""
    if not examples:
        return f"{rule} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _check(value: str, pattern: str, limit: int | None, rule: str, *examples: str) -> Messages:
    """What is wrong with a text that a regular expression should match; nearly always nothing is."""
    matches = _compiled(pattern).fullmatch(value)
    if matches and (limit is None or len(value) <= limit):  # what matches has one byte for each character
        return ()
    messages: Messages = ()
    if limit is not None and len(value.encode(errors="surrogatepass")) > limit:
        messages = (too_long(limit),)
    return messages if matches else (*messages, mismatch(rule, pattern, *examples) if examples else rule)


_compiled = cache(re.compile)


# -- names of objects and DNS


@remembered(4096)
def dns1123_label(value: str) -> Messages:
    """A label of RFC 1123: namespaces, containers, volumes."""
    if "." in value and re.fullmatch(_DNS1123_SUBDOMAIN, value):
        return (*((too_long(63),) if len(value) > 63 else ()), "must not contain dots")
    rule = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
    )
    return _check(value, _DNS1123_LABEL, 63, rule, "my-name", "123-abc")


@remembered(4096)
def dns1123_subdomain(value: str) -> Messages:
    """A subdomain of RFC 1123: most objects."""
    rule = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return _check(value, _DNS1123_SUBDOMAIN, 253, rule, "example.com")


def is_dns1123_subdomain(value: str) -> bool:
    """The same for names that are new, of which there is nothing to remember, and no words for what is wrong."""
    return len(value) <= 253 and _compiled(_DNS1123_SUBDOMAIN).fullmatch(value) is not None


def dns1123_subdomain_with_underscore(value: str) -> Messages:
    """A subdomain whose labels may hold underscores: search domains of a pod."""
    rule = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    pattern = _DNS1123_SUBDOMAIN_UNDERSCORE
    return _check(value, pattern, 253, rule, "example.com")


def wildcard_dns1123_subdomain(value: str) -> Messages:
    """A subdomain after `*.`."""
    rule = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
        "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
    )
    return _check(value, _WILDCARD_SUBDOMAIN, 253, rule, "*.example.com")


@remembered(1024)
def dns1035_label(value: str) -> Messages:
    """A label of RFC 1035: services."""
    rule = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character"
    )
    return _check(value, _DNS1035_LABEL, 63, rule, "my-name", "abc-123")


def path_segment_name(value: str) -> Messages:
    """What may stand in a URL: the names of roles and bindings."""
    if value in {".", ".."}:
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{char}'" for char in "/%" if char in value)


def generated(value: str) -> str:
    """A `generateName` as its check sees it: a dash at the end will be followed by more."""
    return f"{value[:-2]}a" if len(value) > 1 and value.endswith("-") else value


# -- labels


@remembered(4096)
def label_key(value: str) -> Messages:
    """A key of a label, annotation, taint or resource: a name with an optional DNS subdomain and `/` before it."""
    prefix, slash, name = value.rpartition("/")
    wrong_name = _check(name, _LABEL_NAME, 63, f"name part {_LABEL_NAME_RULE}", "MyName", "my.name", "123-abc")
    if not wrong_name and (not slash or (prefix and not dns1123_subdomain(prefix))):
        return ()
    if "/" in prefix:
        shown = mismatch(_LABEL_NAME_RULE, _LABEL_NAME, "MyName", "my.name", "123-abc")
        hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {shown} {hint}",)
    messages: Messages = ()
    if slash:
        wrong = dns1123_subdomain(prefix) if prefix else ("must be non-empty",)
        messages = tuple(f"prefix part {message}" for message in wrong)
    if not name:
        messages += ("name part must be non-empty",)
    return messages + tuple(
        message if message.startswith("name part ") else f"name part {message}" for message in wrong_name
    )


@remembered(4096)
def label_value(value: str) -> Messages:
    """The value of a label, or nothing."""
    rule = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return _check(value, _LABEL_VALUE, 63, rule, "MyValue", "my_value", "12345")


# -- environment variables, keys, ports, numbers


def c_identifier(value: str) -> Messages:
    """An identifier of the language C."""
    rule = (
        "a valid C identifier must start with alphabetic character or '_', "
        "followed by a string of alphanumeric characters or '_'"
    )
    return _check(value, _C_IDENTIFIER, None, rule, "my_name", "MY_NAME", "MyName")


def env_var_name(value: str) -> Messages:
    """The name of an environment variable, by the rule before it was relaxed."""
    rule = (
        "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', "
        "and must not start with a digit"
    )
    examples = ("my.env-name", "MY_ENV.NAME", "MyEnvName1")
    return _check(value, _ENV_VAR_NAME, None, rule, *examples) + _leaves_directory(value)


def relaxed_env_var_name(value: str) -> Messages:
    """The name of an environment variable."""
    if not value:
        return ("environment variable name must be non-empty",)
    if value.isascii() and value.isprintable() and "=" not in value:
        return ()
    return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)


def config_map_key(value: str) -> Messages:
    """A key of a ConfigMap or Secret, which may become the name of a file."""
    rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
    examples = ("key.name", "KEY_NAME", "key-name")
    return _check(value, _CONFIG_MAP_KEY, 253, rule, *examples) + _leaves_directory(value)


def is_sound_config_key(value: str) -> bool:
    """Whether there is nothing wrong with a key of a ConfigMap, in one look: `config_map_key` says what is."""
    return _sound_config_key(value) is not None


_sound_config_key = re.compile(rf"(?!\.\.|\.\Z)(?=.{{1,253}}\Z){_CONFIG_MAP_KEY}").fullmatch


def _leaves_directory(value: str) -> Messages:
    if value in {".", ".."}:
        return (f"must not be '{value}'",)
    return ("must not start with '..'",) if value.startswith("..") else ()


def http_header_name(value: str) -> Messages:
    """The name of an HTTP header, as in probes."""
    rule = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return _check(value, _HTTP_HEADER_NAME, None, rule, "X-Header-Name")


def condition_reason(value: str) -> Messages:
    """The reason of a condition."""
    rule = (
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
        "characters or '_,:', and must end with an alphanumeric character or '_'"
    )
    examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
    return _check(value, _CONDITION_REASON, None, rule, *examples)


@remembered(1024)
def port_name(value: str) -> Messages:
    """The name of a port: an IANA service name."""
    messages = _check(value, "[-a-z0-9]+", 15, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        messages += ("must contain at least one letter (a-z)",)
    if "--" in value:
        messages += ("must not contain consecutive hyphens",)
    if value.startswith("-") or value.endswith("-"):
        messages += ("must not begin or end with a hyphen",)
    return messages


def port_number(value: int) -> Messages:
    """The number of a port."""
    return in_range(value, 1, 65535)


def in_range(value: int, low: int, high: int) -> Messages:
    """A number between two others."""
    return () if low <= value <= high else (outside(low, high),)


def user_id(value: int) -> Messages:
    """The id of a Unix user or group."""
    return in_range(value, 0, 2**31 - 1)


def percent(value: str) -> Messages:
    """A percentage such as `25%`."""
    rule = "a valid percent string must be a numeric string followed by an ending '%'"
    return _check(value, _PERCENT, None, rule, "1%", "93%")


# -- as field errors


def validate(path: Path, value: str, messages: Messages) -> list[FieldError]:
    """A field error for each message about a value."""
    return [field_errors.invalid(path, value, message) for message in messages]


def validate_label_key(key: str, path: Path) -> list[FieldError]:
    """The field errors of a label key."""
    return validate(path, key, label_key(key))


def is_sound_label(key: str, value: str) -> bool:
    """Whether there is nothing wrong with a label, in one look: `label_key` and `label_value` say what is."""
    if (key, value) in _sound_labels:
        return True
    if _sound_label_key(key) is None or _sound_label_value(value) is None:
        return False
    if len(_sound_labels) >= _MOST_LABELS:
        _sound_labels.clear()
    _sound_labels.add((key, value))  # and so not long, either
    return True


def are_known_labels(labels: Mapping[str, str]) -> bool:
    """Whether all labels were found to be sound before; `validate_labels` says what is wrong with others."""
    return labels.items() <= _sound_labels


def validate_labels(labels: Mapping[str, str], path: Path) -> list[FieldError]:
    """The field errors of labels: wrong keys and wrong values, all at the path of the map."""
    errors: list[FieldError] = []
    if are_known_labels(labels):
        return errors
    for key, value in labels.items():
        if is_sound_label(key, value):
            continue
        if wrong := label_key(key):
            errors += validate(path, key, wrong)
        if wrong := label_value(value):
            errors += validate(path, value, wrong)
    return errors


_sound_label_key = re.compile(rf"(?:(?=[^/]{{1,253}}/){_DNS1123_SUBDOMAIN}/)?(?=[^/]{{1,63}}\Z){_LABEL_NAME}").fullmatch
_sound_label_value = re.compile(rf"(?=.{{0,63}}\Z){_LABEL_VALUE}").fullmatch
_MOST_LABELS = 16 * 1024
_sound_labels: set[tuple[str, str]] = set()
"""Labels in which nothing was wrong: whether all of an object's are among them is one question."""


def validate_fully_qualified_name(name: str, path: Path) -> list[FieldError]:
    """The field errors of a domain of at least three segments, such as the name of a signer."""
    if not name:
        return [field_errors.required(path)]
    wrong = dns1123_subdomain(name)
    if wrong:
        return [field_errors.invalid(path, name, ",".join(wrong))]
    if name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        return [field_errors.invalid(path, name, detail)]
    return []


def validate_domain_prefixed_path(value: str, path: Path) -> list[FieldError]:
    """The field errors of a path after a domain, such as `acme.io/foo`."""
    if not value:
        return [field_errors.required(path)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [field_errors.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = validate(path, host, dns1123_subdomain(host))
    if not re.fullmatch(_HTTP_PATH, rest):
        errors.append(field_errors.invalid(path, rest, mismatch("Invalid path", _HTTP_PATH)))
    return errors
