"""Pods for the tests of admission: made from plain trees, admitted, and what was wrong with them as text."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.admission.options import AdmissionOptions
from mooring.admission.pipeline import admit_create, admit_update
from mooring.admission.strategy import Lookups, NoCluster, Request
from mooring.api import codec, errors
from mooring.api.base import copy_of
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource

ON = AdmissionOptions()
OFF = replace(ON, comparison_operators=False, semver_operators=False, cel=False)
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
Tree = dict[str, Any]


def pod_of(spec: Tree | None = None, metadata: Tree | None = None) -> Pod:
    """Return a pod with one container, unless `spec` says otherwise."""
    spec = {"containers": [{"name": "c", "image": "i"}], **(spec or {})}
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **(metadata or {})}, "spec": spec}
    return codec.decode(msgspec.json.encode(tree), Pod).object


def request(options: AdmissionOptions = ON, lookups: Lookups | None = None) -> Request:
    return Request(options=options, lookups=lookups or NoCluster(), now=NOW, namespace="default")


def created(obj: Any, options: AdmissionOptions = ON) -> Any:
    """Return the object as it is stored after a create."""
    stored = admit_create(obj, request(options)).object
    stored.metadata.resource_version = "1"
    return stored


def create_problems(obj: Resource, options: AdmissionOptions = ON) -> list[str]:
    """Return what a create is refused for, a line for each cause."""
    try:
        admit_create(obj, request(options))
    except errors.StatusError as refusal:
        return causes(refusal)
    return []


def update_problems(new: Resource, old: Resource, options: AdmissionOptions = ON, subresource: str = "") -> list[str]:
    """Return what an update is refused for, a line for each cause."""
    try:
        admit_update(copy_of(new), old, request(options), subresource)
    except errors.StatusError as refusal:
        return causes(refusal)
    return []


def causes(refusal: errors.StatusError) -> list[str]:
    details = refusal.status.details
    if details is None or not details.causes:
        return [refusal.status.message]
    return [f"{cause.field}: {cause.message}" for cause in details.causes]


def toleration(**fields: Any) -> Tree:
    return {"tolerations": [fields]}


def required(**term: Any) -> Tree:
    """Return a spec whose required node affinity is one term."""
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


def preferred(**term: Any) -> Tree:
    """Return a spec whose preferred node affinity is one term."""
    return {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": term}]}}}


def requirement(operator: str, *values: str, key: str = "k") -> Tree:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


# -- the three new gates


@dataclass(frozen=True)
class Feature:
    """A use of one of the gates in one place of a PodSpec."""

    name: str
    gate: str
    place: str
    spec: Tree


FEATURES = [
    Feature("Gt in a toleration", "comparison_operators", "tolerations", toleration(key="k", operator="Gt", value="1")),
    Feature(
        "Lt in a toleration", "comparison_operators", "tolerations", toleration(key="k", operator="Lt", value="-1")
    ),
    *(
        feature
        for operator in ("SemverLt", "SemverGt", "SemverEq")
        for feature in (
            Feature(
                f"{operator} in a toleration",
                "semver_operators",
                "tolerations",
                toleration(key="k", operator=operator, value="1.2.3+build"),
            ),
            Feature(
                f"{operator} in a required term",
                "semver_operators",
                "required",
                required(**requirement(operator, "1.2")),
            ),
            Feature(
                f"{operator} in a preferred term",
                "semver_operators",
                "preferred",
                preferred(**requirement(operator, "1.2.0+build")),
            ),
        )
    ),
    Feature("CEL in a toleration", "cel", "tolerations", toleration(expression="taint.key == 'k'")),
    Feature("CEL in a required term", "cel", "required", required(matchCELExpressions=["'k' in node.labels"])),
    Feature("CEL in a preferred term", "cel", "preferred", preferred(matchCELExpressions=["'k' in node.labels"])),
]


def without(gate: str) -> AdmissionOptions:
    switch: Any = {gate: False}
    return replace(ON, **switch)


def only(gate: str) -> AdmissionOptions:
    switch: Any = {gate: True}
    return replace(OFF, **switch)


def relabelled(obj: Any) -> Any:
    changed = copy_of(obj)
    changed.metadata.labels["more"] = "yes"
    return changed
