"""Rules that depend on the emulated version, on the minimum compatibility version, or on a gate.

Upstream has them in code, not in tables: validation of Services and pods, and the integration test of label keys in pod
affinity. Each case admits one object with the options of a version, and compares whether it is admitted, or a field.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mooring.admission.options import for_component
from mooring.admission.pipeline import admit_create
from mooring.admission.strategy import Request
from mooring.api.codec import FieldValidation, from_tree, to_tree
from mooring.api.core_v1 import Pod, Service
from mooring.api.errors import StatusError
from mooring.base import component
from upstream_tables.case import Tree, difference

_ZONES = ("PreferClose", "PreferSameZone", "PreferSameNode")
_DISTRIBUTIONS = {"1.31": _ZONES[:1], "1.33": _ZONES[:1], "1.34": _ZONES, "1.37": _ZONES}
"""The values of a Service's traffic distribution by release."""
_MINIMUM = {"1.31": (False, False), "1.32": (True, False), "1.33": (True, False), "1.34": (True, True)}
"""By minimum compatibility version: whether a pod may have resources of its own, and a Service a name such as 1abc."""
_FOO, _BAR = {"key": "foo", "operator": "Exists"}, {"key": "bar", "operator": "In", "values": ["a"]}
_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


class Case(NamedTuple):
    """An object, the settings of the server, and what is expected: whether it is admitted, or the value of a field."""

    name: str
    tree: Tree
    settings: dict[str, str]
    wanted: Any
    field: tuple[str | int, ...] = ()


def _service(name: str = "s", **spec: Any) -> Tree:
    return {"kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 1}], **spec}}


def _pod(**spec: Any) -> Tree:
    containers = [{"name": "c", "image": "i"}]
    metadata = {"name": "p", "labels": {"foo": "", "bar": "a"}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def cases() -> Iterator[Case]:
    for version, known in _DISTRIBUTIONS.items():
        for value in (*_ZONES, "Bogus"):
            name, service = f"trafficDistribution {value} at {version}", _service(trafficDistribution=value)
            yield Case(name, service, {"emulation": version}, value in known)
    for version, (has_resources, has_name) in _MINIMUM.items():
        settings, pod = {"min_compatibility": version}, _pod(resources={"requests": {"cpu": "1"}})
        yield Case(f"resources of a pod at minimum compatibility version {version}", pod, settings, has_resources)
        yield Case(f"Service 1abc at minimum compatibility version {version}", _service("1abc"), settings, has_name)
    ranges = _service(type="LoadBalancer", loadBalancerSourceRanges=["x"])
    yield Case("a source range that is no CIDR", ranges, {}, wanted=False)
    certificate: Tree = {"signerName": "a.b/c", "keyType": "ED25519", "credentialBundlePath": "x"}
    source = {"podCertificate": certificate | {"userAnnotations": {"bad key!": "x"}}}
    yield Case(
        "a bad key in a pod certificate", _pod(volumes=[{"name": "v", "projected": {"sources": [source]}}]), {}, False
    )
    resize = {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}
    yield Case(
        "a resize policy of an init container", _pod(initContainers=[{"name": "i", "image": "i", **resize}]), {}, True
    )
    grace = ("spec", "terminationGracePeriodSeconds")
    yield Case("a negative grace period", _pod(terminationGracePeriodSeconds=-1), {}, 1, grace)
    term = {"topologyKey": "node", "labelSelector": {"matchExpressions": [_FOO]}, "matchLabelKeys": ["bar"]}
    off = "MatchLabelKeysInPodAffinity=false"
    for name, gates, wanted in (("on", "", [_FOO, _BAR]), ("off", off, [_FOO]), ("on again", "", [_FOO, _BAR])):
        pod = _pod(affinity={"podAffinity": {_AFFINITY: [term]}})
        field = ("spec", "affinity", "podAffinity", _AFFINITY, 0, "labelSelector", "matchExpressions")
        yield Case(f"label keys in pod affinity, {name}", pod, {"emulation": "1.32", "gates": gates}, wanted, field)


def play_all() -> Iterator[tuple[str, str | None]]:
    """Play every case; yield its name and the difference, or None."""
    for case in cases():
        yield f"by version: {case.name}", _play(case)


def _play(case: Case) -> str | None:
    """Admit a case's object; return the difference from upstream, or None."""
    get = case.settings.get
    running = component.resolve(
        gates=get("gates", ""), emulation=get("emulation"), min_compatibility=get("min_compatibility")
    )
    request = Request(options=for_component(running), now=datetime.now(UTC), namespace="default")
    kind = Pod if case.tree["kind"] == "Pod" else Service
    try:
        found: Any = to_tree(admit_create(from_tree(case.tree, kind, FieldValidation.STRICT)[0], request).object)
    except StatusError as error:
        return None if case.wanted is False else f"rejected: {error}"
    for step in case.field:
        found = found[step]
    return difference(found if case.field else True, case.wanted)
