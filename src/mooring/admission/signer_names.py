"""Validate the names of certificate signers, for every kind and volume that refers to one."""

from collections.abc import Callable

from mooring.api import field_errors, names
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.api.quoting import go_quote

_MAX_DOMAIN_LENGTH = 253
_MAX_LENGTH = 2 * 253 + 63 + 2


def validate_signer_name(name: str, path: Path) -> list[FieldError]:
    """Check that a name is a domain of several labels, a slash and a path."""
    if not name:
        return [field_errors.required(path, "")]
    parts = name.split("/")
    if len(parts) != 2:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [field_errors.invalid(path, name, text)]
    domain, rest = parts
    errors = [field_errors.too_long(path, _MAX_DOMAIN_LENGTH)] if len(domain) > _MAX_DOMAIN_LENGTH else []
    errors += _validate_labels(path, domain, names.dns1123_label)
    if "." not in domain:
        text = "should be a domain with at least two segments separated by dots"
        errors.append(field_errors.invalid(path, domain, text))
    errors += _validate_labels(path, rest, names.dns1123_subdomain)
    if len(name) > _MAX_LENGTH:
        errors.append(field_errors.too_long(path, _MAX_LENGTH))
    return errors


def _validate_labels(path: Path, text: str, check: Callable[[str], names.Messages]) -> list[FieldError]:
    for label in text.split("."):
        if wrong := check(label):
            return [field_errors.invalid(path, text, f"validating label {go_quote(label)}: {why}") for why in wrong]
    return []
