"""Validate ResourceClaims and ResourceClaimTemplates.

The spec is immutable. The status has the allocation: the scheduler writes it once; it stays until the claim is
deallocated.
"""

import ipaddress
import re

from mooring.admission import checks, meta
from mooring.admission.dra import names as dra_names
from mooring.admission.dra import requests
from mooring.admission.dra.taints import validate_tolerations
from mooring.admission.node_selector import validate_node_selector
from mooring.admission.strategy import Request, Strategy
from mooring.admission.volume_sources import forbid_other_fields
from mooring.api import field_errors, names
from mooring.api import resource_v1 as v1
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.resource_v1 import DeviceClass

MAX_RESERVED_FOR = 256
_SPEC = Path("spec")
_STATUS = Path("status")
_MAX_CONDITIONS = 8
_MAX_BINDING_CONDITIONS = 4
_UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NOT_A_UID = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
    "characters"
)
Device = tuple[str, str, str, str | None]


class ResourceClaimStrategy(Strategy[v1.ResourceClaim]):
    has_generation = False
    immutable = ("spec",)

    def default(self, obj: v1.ResourceClaim) -> None:
        requests.default_claim_requests(obj.spec.devices)

    def mutate(self, obj: v1.ResourceClaim, old: v1.ResourceClaim | None, request: Request) -> None:
        requests.drop_disabled_fields(obj.spec.devices)

    def validate(self, obj: v1.ResourceClaim, old: v1.ResourceClaim | None, request: Request) -> Errors:
        if old is not None:
            return []
        errors = _validate_admin_access(obj.spec.devices, request)
        return errors + requests.validate_device_claim(obj.spec.devices, _SPEC.child("devices"), request.options)

    def validate_status(self, new: v1.ResourceClaim, old: v1.ResourceClaim, request: Request) -> Errors:
        return _validate_granted_admin_access(new, old, request) + _validate_status(new, old, request)

    def prepare_status(self, new: v1.ResourceClaim, old: v1.ResourceClaim, request: Request) -> None:
        if old.status.allocation is not None:  # device statuses are removed with the allocation
            held, had = _list_allocated_devices(new.status.allocation), _list_allocated_devices(old.status.allocation)
            new.status.devices = [
                each
                for each in new.status.devices
                if _identify_device(each) in held or _identify_device(each) not in had
            ]


class ResourceClaimTemplateStrategy(Strategy[v1.ResourceClaimTemplate]):
    has_generation = False

    def default(self, obj: v1.ResourceClaimTemplate) -> None:
        requests.default_claim_requests(obj.spec.spec.devices)

    def mutate(self, obj: v1.ResourceClaimTemplate, old: v1.ResourceClaimTemplate | None, request: Request) -> None:
        requests.drop_disabled_fields(obj.spec.spec.devices)

    def validate(self, obj: v1.ResourceClaimTemplate, old: v1.ResourceClaimTemplate | None, request: Request) -> Errors:
        if old is not None and obj.spec == old.spec:
            return []  # what is stored may use a gate that is off by now
        here, metadata = _SPEC.child("metadata"), obj.spec.metadata
        errors = _validate_admin_access(obj.spec.spec.devices, request) if old is None else []
        errors += checks.forbid_changes(obj, old, "spec")
        errors += meta.validate_annotations(metadata.annotations, here.child("annotations"))
        errors += names.validate_labels(metadata.labels, here.child("labels"))
        errors += forbid_other_fields(metadata, ("annotations", "labels"), here, "cannot be set")
        return errors + requests.validate_device_claim(
            obj.spec.spec.devices, _SPEC.child("spec", "devices"), request.options
        )


def _validate_admin_access(claim: v1.DeviceClaim, request: Request) -> Errors:
    """Return an error if a claim requests admin access in a namespace that lacks the label which permits it."""
    asks = [index for index, each in enumerate(claim.requests) if each.exactly and each.exactly.admin_access]
    here = _SPEC.child("devices", "requests")  # of templates too
    return _forbid_admin_access(here.index(asks[0]), request) if asks else []


def _forbid_admin_access(path: Path, request: Request) -> Errors:
    if request.lookups.allows_admin_access(request.namespace):
        return []
    detail = f"requires the `{v1.ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
    return [field_errors.forbidden(path.child("adminAccess"), f"admin access to devices {detail}")]


def _validate_granted_admin_access(new: v1.ResourceClaim, old: v1.ResourceClaim, request: Request) -> Errors:
    if new.status.allocation is None or _find_admin_access_results(old):
        return []
    here = _STATUS.child("allocation", "devices", "results")
    return [
        error
        for index in _find_admin_access_results(new)[:1]
        for error in _forbid_admin_access(here.index(index), request)
    ]


def _find_admin_access_results(claim: v1.ResourceClaim) -> list[int]:
    results = claim.status.allocation.devices.results if claim.status.allocation is not None else []
    return [index for index, result in enumerate(results) if result.admin_access]


def _validate_status(new: v1.ResourceClaim, old: v1.ResourceClaim, request: Request) -> Errors:
    status, reserved = new.status, _STATUS.child("reservedFor")
    errors = dra_names.validate_unique_list(
        status.reserved_for, MAX_RESERVED_FOR, reserved, _validate_consumer, lambda each: each.uid
    )
    held = _list_allocated_devices(status.allocation)
    errors += dra_names.validate_unique_list(
        status.devices,
        len(status.devices),
        _STATUS.child("devices"),
        lambda device, here: _validate_device_status(device, here, held),
        _identify_device,
    )
    if status.reserved_for and status.allocation is None:
        errors.append(field_errors.forbidden(reserved, "may not be specified when `allocated` is not set"))
    elif new.metadata.deletion_timestamp is not None and any(
        each not in old.status.reserved_for for each in status.reserved_for
    ):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(field_errors.forbidden(reserved, detail))
    here = _STATUS.child("allocation")
    if status.allocation is None or status.allocation == old.status.allocation:
        return errors
    if old.status.allocation is not None:
        return [*errors, field_errors.invalid(here, status.allocation, meta.IMMUTABLE)]
    return errors + _validate_allocation(status.allocation, here, new.spec.devices, request)


def _list_allocated_devices(allocation: v1.AllocationResult | None) -> set[Device]:
    results = allocation.devices.results if allocation is not None else []
    return {(result.driver, result.pool, result.device, result.share_id) for result in results}


def _identify_device(device: v1.AllocatedDeviceStatus) -> Device:
    return (device.driver, device.pool, device.device, device.share_id)


def _validate_consumer(consumer: v1.ResourceClaimConsumerReference, path: Path) -> Errors:
    return checks.require_fields(consumer, path, "resource", "name", "uid")


def _validate_allocation(
    allocation: v1.AllocationResult, path: Path, claim: v1.DeviceClaim, request: Request
) -> Errors:
    devices, known = path.child("devices"), requests.collect_request_names(claim)
    stored = requests.collect_claim_tolerations(claim)
    errors = dra_names.validate_bounded_list(
        allocation.devices.results,
        dra_names.MAX_REQUESTS,
        devices.child("results"),
        lambda result, here: _validate_allocation_result(result, here, known, stored, request),
    )
    errors += dra_names.validate_bounded_list(
        allocation.devices.config,
        2 * dra_names.MAX_CONFIGS,  # from the class and from the claim
        devices.child("config"),
        lambda config, here: _validate_allocation_configuration(config, here, known),
    )
    selector, here = allocation.node_selector, path.child("nodeSelector")
    return errors + checks.optional(selector, here, validate_node_selector, dra_names.NODE_SELECTOR_RULES)


def _validate_allocation_result(
    result: v1.DeviceRequestAllocationResult,
    path: Path,
    known: requests.RequestNames,
    stored: list[v1.DeviceToleration],
    request: Request,
) -> Errors:
    errors = requests.require_known_request(result.request, path.child("request"), known)
    errors += dra_names.validate_driver_name(result.driver, path.child("driver"))
    errors += dra_names.validate_pool_name(result.pool, path.child("pool"))
    errors += dra_names.validate_dns_label(result.device, path.child("device"))
    errors += validate_binding_conditions(result.binding_conditions, result.binding_failure_conditions, path)
    # The scheduler copies the request's tolerations, which are stored already, whatever the state of the gate.
    numeric = request.options.comparison_operators
    errors += validate_tolerations(result.tolerations, path.child("tolerations"), numeric=numeric, stored=stored)
    return errors + _validate_share_id(result.share_id, path)


def _validate_allocation_configuration(
    config: v1.DeviceAllocationConfiguration, path: Path, known: requests.RequestNames
) -> Errors:
    errors = checks.require_one_of(config.source, ("FromClaim", "FromClass"), path.child("source"))
    errors += requests.require_known_requests(config.requests, path.child("requests"), known)
    return errors + requests.validate_opaque_configuration(config.opaque, path)


def _validate_share_id(share_id: str | None, path: Path) -> Errors:
    if share_id is None or _UID.fullmatch(share_id):
        return []
    return [field_errors.invalid(path.child("shareID"), share_id, _NOT_A_UID)]


def _validate_device_status(device: v1.AllocatedDeviceStatus, path: Path, held: set[Device]) -> Errors:
    errors = dra_names.validate_driver_name(device.driver, path.child("driver"))
    errors += dra_names.validate_pool_name(device.pool, path.child("pool"))
    errors += dra_names.validate_dns_label(device.device, path.child("device"))
    errors += _validate_share_id(device.share_id, path)
    if _identify_device(device) not in held:
        shown = "/".join(filter(None, _identify_device(device)))
        errors.append(field_errors.invalid(path, shown, "must be an allocated device in the claim"))
    here = path.child("conditions")
    errors += checks.limit_items(device.conditions, _MAX_CONDITIONS, here)
    errors += checks.validate_conditions(device.conditions, here)
    if device.data:
        errors += dra_names.validate_parameters(device.data, path.child("data"))
    return errors + checks.optional(device.network_data, path.child("networkData"), _validate_network_data)


def _validate_network_data(data: v1.NetworkDeviceData, path: Path) -> Errors:
    errors = checks.limit_bytes(data.interface_name, 256, path.child("interfaceName"))
    errors += checks.limit_bytes(data.hardware_address, 128, path.child("hardwareAddress"))
    return errors + dra_names.validate_unique_list(data.ips, 16, path.child("ips"), _validate_interface_address)


def _validate_interface_address(address: str, path: Path) -> Errors:
    try:
        valid = "/" in address and str(ipaddress.ip_interface(address)) == address
    except ValueError:
        valid = False
    if valid:
        return []
    detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
    return [field_errors.invalid(path, address, detail)]


def validate_binding_conditions(wanted: list[str], failed: list[str], path: Path) -> Errors:
    """Return errors unless a device's binding conditions and failure conditions differ, and both or neither are set."""
    success, failure = path.child("bindingConditions"), path.child("bindingFailureConditions")
    errors = dra_names.validate_unique_list(wanted, _MAX_BINDING_CONDITIONS, success, names.validate_label_key)
    errors += dra_names.validate_unique_list(failed, _MAX_BINDING_CONDITIONS, failure, names.validate_label_key)
    waited_for = frozenset(wanted)
    for index, condition in enumerate(failed):
        detail = "bindingFailureConditions must not overlap with bindingConditions"
        errors += checks.invalid_if(condition in waited_for, failure.index(index), condition, detail)
    detail = "bindingConditions are required to use bindingFailureConditions"
    errors += checks.invalid_if(failed and not wanted, success, None, detail)
    detail = "bindingFailureConditions are required to use bindingConditions"
    errors += checks.invalid_if(wanted and not failed, failure, None, detail)
    return errors


class DeviceClassStrategy(Strategy[DeviceClass]):
    def validate(self, obj: DeviceClass, old: DeviceClass | None, request: Request) -> Errors:
        spec = obj.spec
        errors: Errors = []
        if old is None or spec.selectors != old.spec.selectors:
            errors += requests.validate_device_selectors(spec.selectors, _SPEC.child("selectors"), request.options)
        if old is None or spec.config != old.spec.config:
            errors += dra_names.validate_bounded_list(
                spec.config,
                dra_names.MAX_CONFIGS,
                _SPEC.child("config"),
                lambda each, here: requests.validate_opaque_configuration(each.opaque, here),
            )
        if spec.extended_resource_name is not None:
            errors += _validate_extended_resource(spec.extended_resource_name, _SPEC.child("extendedResourceName"))
        return errors


def _validate_extended_resource(name: str, path: Path) -> Errors:
    wrong: names.Messages = ()
    if "/" not in name:
        wrong = ("a name must be a domain-prefixed path, such as 'example.com/my-prop'",)
    elif "kubernetes.io/" in name:
        wrong = ('must not have "kubernetes.io/" domain',)
    if name.startswith("requests."):
        wrong += ('must not have "requests." prefix',)
    return names.validate(path, name, wrong + names.label_key(f"requests.{name}"))
