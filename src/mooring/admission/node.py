"""Default and validate Nodes: their taints and immutable fields.

A taint value is validated as a label value only, never as a number or version, because a node must always be able to
register (KEP-5471, KEP-5721).

The server sets `timeAdded` of a NoExecute taint when the taint is added or its value or effect changes, unless the
client set a new time. An unchanged taint keeps its time. If a client writes back the old time with a changed taint, it
counts as not set. No time is set when a node is created with a taint, because it has no pods, as in Kubernetes.
"""

import ipaddress
import re

from mooring.admission import checks
from mooring.admission.pod.defaults import round_to_milli
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors, names, times
from mooring.api.core_v1 import Node, Taint
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.quantity import Quantity
from mooring.api.quoting import go_quote
from mooring.constraints.expressions import parse_time_added
from mooring.constraints.requests import is_extended

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
_TAINTS = Path("metadata.taints")  # Kubernetes names this path instead of spec.taints
_POD_CIDRS = Path("spec.podCIDRs")
_FEATURE = re.compile("[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_MAX_FEATURE_BYTES = 253
_FEATURE_RULE = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_ONE_PER_FAMILY = "may specify no more than one CIDR for each IP family"


class NodeStrategy(Strategy[Node]):
    has_generation = False

    def default(self, obj: Node) -> None:
        status, spec = obj.status, obj.spec
        if status.capacity and not status.allocatable:
            status.allocatable = dict(status.capacity)
        round_to_milli(status.capacity)
        round_to_milli(status.allocatable)
        if spec.pod_cidr and spec.pod_cidrs[:1] != [spec.pod_cidr]:
            spec.pod_cidrs = [spec.pod_cidr]
        elif spec.pod_cidrs:
            spec.pod_cidr = spec.pod_cidrs[0]

    def mutate(self, obj: Node, old: Node | None, request: Request) -> None:
        """Add the not-ready taint to a new node; on update, set `timeAdded` of added and changed taints."""
        if old is None:
            if (NOT_READY.key, NOT_READY.effect) not in {(taint.key, taint.effect) for taint in obj.spec.taints}:
                obj.spec.taints.append(Taint(key=NOT_READY.key, effect=NOT_READY.effect))
        else:
            _set_time_added(obj.spec.taints, old.spec.taints, times.to_seconds(request.now))

    def prepare_for_create(self, obj: Node, request: Request) -> None:
        obj.spec.config_source = None

    def prepare_for_update(self, new: Node, old: Node, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        if old.spec.config_source is None:
            new.spec.config_source = None

    def validate(self, obj: Node, old: Node | None, request: Request) -> Errors:
        errors = validate_taints(obj.spec.taints, _TAINTS)
        errors += _validate_node_resources(obj.status.capacity, "capacity")
        errors += _validate_node_resources(obj.status.allocatable, "allocatable")
        errors += _validate_declared_features(obj.status.declared_features) + _validate_pod_cidrs(obj.spec.pod_cidrs)
        return errors if old is None else errors + _validate_immutable_node_fields(obj, old)

    def validate_status(self, new: Node, old: Node, request: Request) -> Errors:
        return self.validate(new, old, request)

    def warnings(self, new: Node, old: Node | None, request: Request) -> list[str]:
        found = []
        if new.spec.config_source is not None:
            found.append("spec.configSource: the feature is no longer available")
        if new.spec.external_id:
            found.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        return found


def validate_taints(taints: list[Taint], path: Path) -> Errors:
    errors: Errors = []
    seen = checks.UniqueKeys()
    for index, taint in enumerate(taints):
        here = path.index(index)
        errors += names.validate_label_key(taint.key, here.child("key"))
        if wrong := names.label_value(taint.value):
            errors.append(field_errors.invalid(here.child("value"), taint.value, ";".join(wrong)))
        errors += checks.require_one_of(taint.effect, EFFECTS, here.child("effect"))
        errors += seen.add((taint.key, taint.effect), here, taint, "taints must be unique by key and effect pair")
    return errors


def _validate_declared_features(features: list[str]) -> Errors:
    errors: Errors = []
    for index, feature in enumerate(features):
        here = Path("status.declaredFeatures").index(index)
        if len(feature.encode(errors="surrogatepass")) > _MAX_FEATURE_BYTES or not _FEATURE.fullmatch(feature):
            errors.append(
                field_errors.invalid(here, feature, f"invalid feature name {go_quote(feature)}: {_FEATURE_RULE}")
            )
        before = features[index - 1] if index else None
        if feature == before:
            errors.append(field_errors.duplicate(here, feature))
        elif before is not None and feature < before:
            errors.append(field_errors.invalid(here, feature, "list must be sorted alphabetically"))
    return errors


def _set_time_added(new: list[Taint], old: list[Taint], now: str) -> None:
    before = {(taint.key, taint.effect): taint for taint in old}
    sent_back = {(taint.key, parse_time_added(taint)) for taint in old}
    for taint in new:
        known = before.get((taint.key, taint.effect))
        if known is not None and known.value == taint.value:
            taint.time_added = taint.time_added or known.time_added
        elif taint.time_added is None or (taint.key, parse_time_added(taint)) in sent_back:
            taint.time_added = now if taint.effect == "NoExecute" else None


def _validate_pod_cidrs(cidrs: list[str]) -> Errors:
    errors: Errors = []
    families: list[int] = []
    problem = ""
    for index, cidr in enumerate(cidrs):
        try:
            families.append(ipaddress.ip_network(cidr, strict=False).version)
        except ValueError:
            detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            errors.append(field_errors.invalid(_POD_CIDRS.index(index), cidr, detail))
            problem = problem or f"invalid CIDR[{index}]: <nil> (invalid CIDR address: {cidr})"
    if problem and len(cidrs) > 1:
        detail = f"invalid PodCIDRs. failed to check with dual stack with error:{problem}"
        errors.append(field_errors.internal(_POD_CIDRS, detail))
    if len(cidrs) > 1 and sorted(families) != [4, 6]:
        errors.append(field_errors.invalid(_POD_CIDRS, cidrs, _ONE_PER_FAMILY))
    return errors


def _validate_node_resources(resources: dict[str, Quantity], name: str) -> Errors:
    errors: Errors = []
    for resource, quantity in resources.items():
        path = Path("status").child(name, resource)
        errors += checks.non_negative_quantity(quantity, path)
        if (resource == "pods" or is_extended(resource)) and quantity.milli_value() % 1000:
            errors.append(field_errors.invalid(path, str(quantity), "must be an integer"))
    return errors


def _validate_immutable_node_fields(new: Node, old: Node) -> Errors:
    errors = []
    seen = checks.UniqueKeys()
    for index, address in enumerate(new.status.addresses):
        pair = (address.type, address.address)
        errors += seen.add(pair, Path("status.addresses").index(index), address)
    if old.spec.pod_cidrs and new.spec.pod_cidrs != old.spec.pod_cidrs:
        detail = 'node updates may not change podCIDR except from "" to valid'
        errors.append(field_errors.forbidden(Path("spec.podCIDRs"), detail))
    if old.spec.provider_id and new.spec.provider_id != old.spec.provider_id:
        detail = f"field cannot be {'modified' if new.spec.provider_id else 'cleared'} once set"
        errors.append(field_errors.invalid(Path("spec.providerID"), None, detail))
    if new.spec.external_id != old.spec.external_id:
        errors.append(field_errors.forbidden(Path("spec.externalID"), "may not be updated"))
    return errors
