"""Validate client configurations of conversion and admission webhooks."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from mooring.admission import checks
from mooring.api import field_errors, names
from mooring.api.admissionregistration_v1 import ServiceReference as AdmissionService
from mooring.api.admissionregistration_v1 import WebhookClientConfig as AdmissionClient
from mooring.api.apiextensions_v1 import ServiceReference as ConversionService
from mooring.api.apiextensions_v1 import WebhookClientConfig as ConversionClient
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

REVIEWS = ("v1", "v1beta1")
"""The AdmissionReview and ConversionReview versions that this server can send."""
_FORM = "; desired format: https://host[/path]"


def validate_client_config(config: AdmissionClient | ConversionClient, path: Path) -> Errors:
    if (config.url is None) == (config.service is None):
        return [field_errors.required(path, "exactly one of url or service is required")]
    if config.url is not None:
        return _validate_webhook_url(config.url, path.child("url"))
    return _validate_webhook_service(config.service, path.child("service")) if config.service else []


def _validate_webhook_url(url: str, path: Path) -> Errors:
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError as error:
        return [field_errors.required(path, f"url must be a valid URL: {error}{_FORM}")]
    detail = f"'https' is the only allowed URL scheme{_FORM}"
    errors = checks.invalid_if(parts.scheme != "https", path, parts.scheme, detail)
    errors += checks.invalid_if(not host, path, host, f"host must be specified{_FORM}")
    if "@" in parts.netloc:
        user = parts.netloc.rpartition("@")[0]
        errors.append(field_errors.invalid(path, user, "user information is not permitted in the URL"))
    errors += checks.invalid_if(parts.fragment, path, parts.fragment, "fragments are not permitted in the URL")
    errors += checks.invalid_if(parts.query, path, parts.query, "query parameters are not permitted in the URL")
    return errors


def _validate_webhook_service(service: AdmissionService | ConversionService, path: Path) -> Errors:
    errors = [
        field_errors.required(path.child(name))
        for name, value in (("name", service.namespace), ("namespace", service.name))  # Kubernetes mixes them up
        if not value
    ]
    if wrong := names.port_number(service.port or 0):
        errors.append(field_errors.invalid(path.child("port"), service.port, f"port is not valid: {', '.join(wrong)}"))
    where = service.path
    if where is None or where in {"", "/"}:
        return errors
    here = path.child("path")
    if where == "//":
        return [*errors, field_errors.invalid(here, where, "segment[0] may not be empty")]
    errors += checks.invalid_if(not where.startswith("/"), here, where, "must start with a '/'")
    for index, step in enumerate(where[1:].removesuffix("/").split("/")):
        problems = [f": {wrong}" for wrong in names.dns1123_subdomain(step)] if step else [" may not be empty"]
        errors += [field_errors.invalid(here, where, f"segment[{index}]{problem}") for problem in problems]
    return errors


def validate_review_versions(versions: Sequence[str], path: Path, *, must_know_one: bool = True) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            errors.append(field_errors.invalid(path.index(index), version, "duplicate version"))
            continue
        seen.add(version)
        errors += [field_errors.invalid(path.index(index), version, wrong) for wrong in names.dns1035_label(version)]
    if must_know_one and seen.isdisjoint(REVIEWS):
        errors.append(field_errors.invalid(path, [*versions], f"must include at least one of {', '.join(REVIEWS)}"))
    return errors
