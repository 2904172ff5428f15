"""Validate device requests of a claim, their constraints and driver configuration."""

from collections.abc import Mapping

import msgspec

from mooring.admission import checks, expressions
from mooring.admission.dra import names as dra_names
from mooring.admission.dra.taints import validate_tolerations
from mooring.admission.options import AdmissionOptions
from mooring.api import field_errors, names
from mooring.api import resource_v1 as v1
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

MAX_ALTERNATIVES = 8
_MAX_CONSTRAINTS = 32
_MODES = ("All", "ExactCount")
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_NOT_A_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
RequestNames = Mapping[str, frozenset[str]]
"""The names of a claim's requests, each with the names of its alternatives."""


class _ClaimContext(msgspec.Struct, frozen=True):
    options: AdmissionOptions
    known: RequestNames


def default_claim_requests(claim: v1.DeviceClaim) -> None:
    """Set the defaults of a claim's device requests in place: allocation mode, count and toleration operators."""
    for request in claim.requests:
        for each in (request.exactly, *request.first_available):
            if each is not None:
                each.allocation_mode = each.allocation_mode or "ExactCount"
                if each.allocation_mode == "ExactCount" and each.count == 0:
                    each.count = 1
                for toleration in each.tolerations:
                    toleration.operator = toleration.operator or "Equal"


def drop_disabled_fields(claim: v1.DeviceClaim) -> None:
    """Clear `derivedAttributes` of a claim's requests, in place: Mooring does not have the feature gate for it."""
    for request in claim.requests:
        for each in (request.exactly, *request.first_available):
            if each is not None:
                each.derived_attributes = []


def collect_request_names(claim: v1.DeviceClaim) -> RequestNames:
    """Return a claim's request names, each with the names of its `firstAvailable` subrequests."""
    return {request.name: frozenset(each.name for each in request.first_available) for request in claim.requests}


def collect_claim_tolerations(claim: v1.DeviceClaim) -> list[v1.DeviceToleration]:
    ways = (each for request in claim.requests for each in (request.exactly, *request.first_available))
    return [toleration for each in ways if each is not None for toleration in each.tolerations]


def validate_device_claim(claim: v1.DeviceClaim, path: Path, options: AdmissionOptions) -> Errors:
    context = _ClaimContext(options, collect_request_names(claim))
    errors = dra_names.validate_unique_list(
        claim.requests,
        dra_names.MAX_REQUESTS,
        path.child("requests"),
        lambda request, here: _validate_device_request(request, here, context),
        lambda request: request.name,
    )
    errors += dra_names.validate_bounded_list(
        claim.constraints,
        _MAX_CONSTRAINTS,
        path.child("constraints"),
        lambda constraint, here: _validate_device_constraint(constraint, here, context.known),
    )
    return errors + dra_names.validate_bounded_list(
        claim.config,
        dra_names.MAX_CONFIGS,
        path.child("config"),
        lambda config, here: _validate_claim_configuration(config, here, context.known),
    )


def validate_device_selectors(selectors: list[v1.DeviceSelector], path: Path, options: AdmissionOptions) -> Errors:
    def validate_selector(selector: v1.DeviceSelector, here: Path) -> Errors:
        if selector.cel is None:
            return [field_errors.required(here.child("cel"))]
        return expressions.validate(
            selector.cel.expression, here.child("cel", "expression"), options.expression_checks.new_device
        )

    return dra_names.validate_bounded_list(selectors, dra_names.MAX_SELECTORS, path, validate_selector)


def validate_opaque_configuration(config: v1.OpaqueDeviceConfiguration | None, path: Path) -> Errors:
    here = path.child("opaque")
    if config is None:
        return [field_errors.required(here)]
    errors = dra_names.validate_driver_name(config.driver, here.child("driver"))
    return errors + dra_names.validate_parameters(config.parameters, here.child("parameters"))


def require_known_request(name: str, path: Path, known: RequestNames) -> Errors:
    """Return errors unless a reference, such as `gpu` or `gpu/large`, names a request or subrequest in `known`."""
    parts = name.split("/")
    if len(parts) > 2:
        return [field_errors.invalid(path, name, _NOT_A_REQUEST)]
    errors = [error for part in parts for error in dra_names.validate_dns_label(part, path)]
    if parts[0] not in known or (len(parts) == 2 and parts[1] not in known[parts[0]]):
        errors.append(field_errors.invalid(path, name, _NOT_A_REQUEST))
    return errors


def require_known_requests(references: list[str], path: Path, known: RequestNames) -> Errors:
    return dra_names.validate_unique_list(
        references, dra_names.MAX_REQUESTS, path, lambda name, here: require_known_request(name, here, known)
    )


def _validate_device_request(request: v1.DeviceRequest, path: Path, context: _ClaimContext) -> Errors:
    errors = dra_names.validate_dns_label(request.name, path.child("name"))
    if request.exactly is not None and request.first_available:
        errors.append(field_errors.invalid(path, None, f"{_ONE_OF}, but multiple fields are set"))
        errors += _validate_surplus_request(request.exactly, path.child("exactly"), context)
        return errors + dra_names.validate_unique_list(
            request.first_available,
            MAX_ALTERNATIVES,
            path.child("firstAvailable"),
            lambda each, here: _validate_class_name(each, here) + _validate_surplus_request(each, here, context),
            lambda each: each.name,
        )
    if request.exactly is not None:
        return errors + _validate_single_request(request.exactly, path.child("exactly"), context)
    if not request.first_available:
        return [*errors, field_errors.required(path, _ONE_OF)]
    return errors + dra_names.validate_unique_list(
        request.first_available,
        MAX_ALTERNATIVES,
        path.child("firstAvailable"),
        lambda each, here: (
            dra_names.validate_dns_label(each.name, here.child("name")) + _validate_single_request(each, here, context)
        ),
        lambda each: each.name,
    )


def _validate_single_request(
    request: v1.ExactDeviceRequest | v1.DeviceSubRequest, path: Path, context: _ClaimContext
) -> Errors:
    options = context.options
    errors = _validate_class_name(request, path)
    errors += validate_device_selectors(request.selectors, path.child("selectors"), options)
    errors += _validate_allocation_mode(request, path)
    return errors + validate_tolerations(
        request.tolerations, path.child("tolerations"), numeric=options.comparison_operators
    )


def _validate_class_name(request: v1.ExactDeviceRequest | v1.DeviceSubRequest, path: Path) -> Errors:
    return checks.require_name(request.device_class_name, path.child("deviceClassName"), names.dns1123_subdomain)


def _validate_surplus_request(
    request: v1.ExactDeviceRequest | v1.DeviceSubRequest, path: Path, context: _ClaimContext
) -> Errors:
    """Return the errors that Kubernetes reports in a request that wrongly has both `exactly` and `firstAvailable`."""
    errors = checks.limit_items(request.selectors, dra_names.MAX_SELECTORS, path.child("selectors"))
    errors += checks.one_of(request.allocation_mode, _MODES, path.child("allocationMode"))
    here, numeric = path.child("tolerations"), context.options.comparison_operators
    found = validate_tolerations(request.tolerations, here, numeric=numeric)
    return errors + [error for error in found if not str(error.path).endswith(".value")]


def _validate_allocation_mode(request: v1.ExactDeviceRequest | v1.DeviceSubRequest, path: Path) -> Errors:
    count = path.child("count")
    match request.allocation_mode:
        case "All":
            if request.count:
                detail = "must not be specified when allocationMode is 'All'"
                return [field_errors.invalid(count, request.count, detail)]
        case "ExactCount":
            if request.count <= 0:
                return [field_errors.invalid(count, request.count, "must be greater than zero")]
        case mode:
            return [field_errors.not_supported(path.child("allocationMode"), mode, _MODES)]
    return []


def _validate_device_constraint(constraint: v1.DeviceConstraint, path: Path, known: RequestNames) -> Errors:
    errors = require_known_requests(constraint.requests, path.child("requests"), known)
    match, distinct = constraint.match_attribute, constraint.distinct_attribute
    detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required'
    errors += checks.require(match is not None or distinct is not None, path, detail)
    for field, name in (("matchAttribute", match), ("distinctAttribute", distinct)):
        errors += [] if name is None else dra_names.validate_fully_qualified_name(name, path.child(field))
    return errors


def _validate_claim_configuration(config: v1.DeviceClaimConfiguration, path: Path, known: RequestNames) -> Errors:
    errors = require_known_requests(config.requests, path.child("requests"), known)
    return errors + validate_opaque_configuration(config.opaque, path)
