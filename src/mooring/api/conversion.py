"""Convert between the versions of a kind: each older type to the newest one (the hub) and back.

The scheme calls these through `Kind.to_hub` and `Kind.from_hub`; kinds whose versions share one type need none. No data
is lost: the types of every version have all current fields, only their positions differ. One exception: a v1 request
with an empty `exactly`, which no version accepts, loses it.

A converted object shares unchanged parts with the original. Read next: ``scheme.py``, which selects the conversion and
sets `apiVersion`.
"""

from functools import partial
from types import ModuleType
from typing import Any

from msgspec import structs

from mooring.api import core_v1, events_v1, flowcontrol_v1, resource_v1, resource_v1beta1

_EXACTLY = resource_v1.ExactDeviceRequest.__struct_fields__
_BASIC = resource_v1beta1.BasicDevice.__struct_fields__
_EMPTY = resource_v1.ExactDeviceRequest()
_ZERO_SHARES_ANNOTATION = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
_DEFAULT_SHARES = 30


def _convert_claim(to: ModuleType, claim: Any) -> Any:
    return to.ResourceClaim(metadata=claim.metadata, spec=_convert_claim_spec(to, claim.spec), status=claim.status)


def _convert_template(to: ModuleType, template: Any) -> Any:
    spec = to.ResourceClaimTemplateSpec(
        metadata=template.spec.metadata, spec=_convert_claim_spec(to, template.spec.spec)
    )
    return to.ResourceClaimTemplate(metadata=template.metadata, spec=spec)


def _convert_claim_spec(to: ModuleType, spec: Any) -> Any:
    convert = _request_from_v1beta1 if to is resource_v1 else _request_to_v1beta1
    devices = to.DeviceClaim(
        requests=list(map(convert, spec.devices.requests)),
        constraints=spec.devices.constraints,
        config=spec.devices.config,
    )
    return to.ResourceClaimSpec(devices=devices)


claim_from_v1beta1, claim_to_v1beta1 = partial(_convert_claim, resource_v1), partial(_convert_claim, resource_v1beta1)
template_from_v1beta1 = partial(_convert_template, resource_v1)
template_to_v1beta1 = partial(_convert_template, resource_v1beta1)


def _request_from_v1beta1(request: Any) -> Any:
    exactly = resource_v1.ExactDeviceRequest(**{name: getattr(request, name) for name in _EXACTLY})
    return resource_v1.DeviceRequest(
        name=request.name,
        exactly=None if exactly == _EMPTY else exactly,
        first_available=request.first_available,
    )


def _request_to_v1beta1(request: Any) -> Any:
    exactly = request.exactly or _EMPTY
    return resource_v1beta1.DeviceRequest(
        name=request.name,
        first_available=request.first_available,
        **{name: getattr(exactly, name) for name in _EXACTLY},
    )


def slice_from_v1beta1(slice_: resource_v1beta1.ResourceSlice) -> resource_v1.ResourceSlice:
    fields = structs.asdict(slice_.spec)
    fields["devices"] = [_device_from_v1beta1(device) for device in slice_.spec.devices]
    # v1beta1 does not distinguish absent and empty here; v1 rejects empty ones.
    fields["node_name"] = slice_.spec.node_name or None
    fields["all_nodes"] = slice_.spec.all_nodes or None
    return resource_v1.ResourceSlice(metadata=slice_.metadata, spec=resource_v1.ResourceSliceSpec(**fields))


def slice_to_v1beta1(slice_: resource_v1.ResourceSlice) -> resource_v1beta1.ResourceSlice:
    fields = structs.asdict(slice_.spec)
    fields["devices"] = [_device_to_v1beta1(device) for device in slice_.spec.devices]
    return resource_v1beta1.ResourceSlice(metadata=slice_.metadata, spec=resource_v1beta1.ResourceSliceSpec(**fields))


def _device_from_v1beta1(device: resource_v1beta1.Device) -> resource_v1.Device:
    basic = {} if device.basic is None else structs.asdict(device.basic)
    return resource_v1.Device(name=device.name, **basic)


def _device_to_v1beta1(device: resource_v1.Device) -> resource_v1beta1.Device:
    basic = resource_v1beta1.BasicDevice(**{name: getattr(device, name) for name in _BASIC})
    return resource_v1beta1.Device(name=device.name, basic=basic)


_EVENT_FIELDS = {
    "regarding": "involved_object",
    "note": "message",
    "reporting_controller": "reporting_component",
    "deprecated_source": "source",
    "deprecated_first_timestamp": "first_timestamp",
    "deprecated_last_timestamp": "last_timestamp",
    "deprecated_count": "count",
}
"""The fields of events.k8s.io/v1 that have another name in core/v1."""
_SAME_IN_EVENTS = ("metadata", "event_time", "reporting_instance", "action", "reason", "related", "type")


def event_to_core(event: events_v1.Event) -> core_v1.Event:
    """Convert an event of events.k8s.io/v1 to core/v1."""
    fields = {name: getattr(event, name) for name in _SAME_IN_EVENTS}
    fields |= {name: getattr(event, old) for old, name in _EVENT_FIELDS.items()}
    series = core_v1.EventSeries(**structs.asdict(event.series)) if event.series else None
    return core_v1.Event(**fields, series=series)


def event_from_core(event: core_v1.Event) -> events_v1.Event:
    """Convert an event of core/v1 to events.k8s.io/v1."""
    fields = {name: getattr(event, name) for name in _SAME_IN_EVENTS}
    fields |= {name: getattr(event, core) for name, core in _EVENT_FIELDS.items()}
    series = events_v1.EventSeries(**structs.asdict(event.series)) if event.series else None
    return events_v1.Event(**fields, series=series)


Level = flowcontrol_v1.PriorityLevelConfiguration


def priority_level_from_v1beta3(level: Level) -> Level:
    """Convert from v1beta3, where zero shares mean the default unless an annotation says otherwise."""
    annotations, limited = level.metadata.annotations, level.spec.limited
    if _ZERO_SHARES_ANNOTATION in annotations:
        kept = {key: value for key, value in annotations.items() if key != _ZERO_SHARES_ANNOTATION}
        return structs.replace(level, metadata=structs.replace(level.metadata, annotations=kept))
    if limited is None or limited.nominal_concurrency_shares:
        return level
    limited = structs.replace(limited, nominal_concurrency_shares=_DEFAULT_SHARES)
    return structs.replace(level, spec=structs.replace(level.spec, limited=limited))


def priority_level_to_v1beta3(level: Level) -> Level:
    limited = level.spec.limited
    if limited is None or limited.nominal_concurrency_shares != 0:
        return level
    annotations = {**level.metadata.annotations, _ZERO_SHARES_ANNOTATION: ""}
    return structs.replace(level, metadata=structs.replace(level.metadata, annotations=annotations))
