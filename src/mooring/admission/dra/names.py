"""Validation rules that all DRA kinds share: names of drivers, pools and attributes, bounded lists, node selectors."""

import json
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from mooring.admission import checks
from mooring.admission.node_selector import NodeSelectorRules
from mooring.admission.volume_sources import validate_csi_driver_name
from mooring.api import field_errors, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

T = TypeVar("T")
Check = Callable[[T, Path], Errors]

MAX_POOL_BYTES = 253
MAX_ID_BYTES = 32
MAX_PARAMETERS_BYTES = 10 * 1024
MAX_REQUESTS = 32
MAX_CONFIGS = 32
MAX_SELECTORS = 32

validate_driver_name = validate_csi_driver_name

NODE_SELECTOR_RULES = NodeSelectorRules(
    semver_operators=False,
    check_expression=None,
    cel_refusal="CEL expressions are not supported in the node selectors of devices",
)
"""The node selector rules of devices, without version operators and CEL (KEP-5500)."""


def validate_bounded_list(items: list[T], limit: int, path: Path, check: Check[T]) -> Errors:
    """Return one `Too many` error for a list above the limit, else the errors of `check(item, path)` for all items."""
    if len(items) > limit:
        return [field_errors.too_many(path, len(items), limit)]
    return [error for index, item in enumerate(items) for error in check(item, path.index(index))]


def validate_unique_list(
    items: list[T], limit: int, path: Path, check: Check[T], key: Callable[[T], Hashable] = lambda item: item
) -> Errors:
    errors = validate_bounded_list(items, limit, path, check)
    if len(items) > limit:
        return errors
    seen = checks.UniqueKeys()
    for index, item in enumerate(items):
        errors += seen.add(key(item), path.index(index))
    return errors


def validate_dns_label(name: str, path: Path) -> Errors:
    return names.validate(path, name, names.dns1123_label(name))


def validate_pool_name(name: str, path: Path) -> Errors:
    if not name:
        return [field_errors.required(path)]
    errors = checks.limit_bytes(name, MAX_POOL_BYTES, path)
    for part in name.split("/"):
        errors += names.validate(path, part, names.dns1123_subdomain(part))
    return errors


def validate_qualified_name(name: str, path: Path) -> Errors:
    """Return errors for the name of a device attribute or capacity: an identifier, optionally after `domain/`."""
    parts = name.split("/")
    if len(parts) == 1:
        return _validate_identifier(name, path)
    if len(parts) > 2:
        return [field_errors.invalid(path, name, "must not contain more than one slash")]
    domain, identifier = parts
    errors = checks.invalid_if(not domain, path, "", "the domain must not be empty")
    errors = errors or validate_driver_name(domain, path)
    if not identifier:
        return [*errors, field_errors.invalid(path, "", "the name must not be empty")]
    return errors + _validate_identifier(identifier, path)


def validate_fully_qualified_name(name: str, path: Path) -> Errors:
    errors = validate_qualified_name(name, path)
    detail = "a fully qualified name must be a domain and a name separated by a slash"
    errors += checks.invalid_if("/" not in name, path, name, detail)
    return errors


def _validate_identifier(name: str, path: Path) -> Errors:
    return checks.limit_bytes(name, MAX_ID_BYTES, path) + names.validate(path, name, names.c_identifier(name))


def validate_parameters(parameters: dict[str, Any] | None, path: Path) -> Errors:
    if parameters is None:
        return [field_errors.required(path)]
    return checks.limit_bytes(json.dumps(parameters), MAX_PARAMETERS_BYTES, path)
