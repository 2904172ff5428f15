"""Read metrics of pods, objects and external sources, in thousandths of a unit as Kubernetes does.

Simulated pods use nothing, so annotations provide values:

    metrics.mooring.dev/cpu: 250m             # on a pod: its usage; also memory, or a custom metric
    metrics.mooring.dev/cpu.sidecar: 50m      # on a pod: the usage of one container
    metrics.mooring.dev/total-cpu: "4"        # on the scaled workload: usage of all running pods, divided equally
    metrics.mooring.dev/queue_length: "30"    # on an object of an object metric; on the autoscaler: an external one

Without annotations, `metrics.k8s.io` is read if the server has it. Called by ``horizontal.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mooring.api import errors
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.quantity import Quantity, QuantityError, parse
from mooring.client import Client
from mooring.constraints.requests import is_sidecar

PREFIX = "metrics.mooring.dev/"


class NoMeasureError(Exception):
    """The metric has no value; the message is for a condition."""


class Measures(msgspec.Struct, frozen=True):
    """Usage by pod name, in thousandths; pods without a value are missing."""

    values: Mapping[str, int] = msgspec.field(default_factory=dict)


def annotated(metadata: ObjectMeta, name: str) -> int | None:
    """Return the value of an annotation, in thousandths."""
    text = metadata.annotations.get(PREFIX + name)
    if text is None:
        return None
    try:
        return parse(text).milli_value()
    except QuantityError:
        return None


def of_pods(pods: Sequence[Pod], target: ObjectMeta, name: str, container: str = "") -> Measures:
    """Return the annotated usage of running pods."""
    running = [pod for pod in pods if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]
    key = f"{name}.{container}" if container else name
    found = {pod.metadata.name: value for pod in running if (value := annotated(pod.metadata, key)) is not None}
    total = annotated(target, f"total-{key}")
    rest = [pod for pod in running if pod.metadata.name not in found]
    if total is not None and rest:
        share = max(0, total - sum(found.values())) // len(rest)
        found |= {pod.metadata.name: share for pod in rest}
    return Measures(found)


class _Usage(msgspec.Struct):
    name: str = ""
    usage: dict[str, str] = {}


class _PodMetrics(msgspec.Struct):
    metadata: dict[str, Any] = {}
    containers: list[_Usage] = []


class _PodMetricsList(msgspec.Struct):
    items: list[_PodMetrics] = []


async def from_api(client: Client, namespace: str, selector: str, name: str, container: str = "") -> Measures:
    """Read usage from metrics.k8s.io. Raise NoMeasureError if it is not served."""
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
    try:
        answer = await client.raw("GET", path, query=[("labelSelector", selector)])
        listed = msgspec.json.decode(answer.body, type=_PodMetricsList)
    except errors.StatusError as error:
        raise NoMeasureError(
            f"no annotation {PREFIX}{name} on the pods, and the server has no metrics API: {error}"
        ) from None
    except msgspec.DecodeError as error:
        raise NoMeasureError(f"the metrics API cannot be understood: {error}") from None
    found: dict[str, int] = {}
    for pod in listed.items:
        parts = [_milli(each.usage.get(name)) for each in pod.containers if not container or each.name == container]
        if parts and None not in parts:
            found[str(pod.metadata.get("name", ""))] = sum(part or 0 for part in parts)
    return Measures(found)


def _milli(text: str | None) -> int | None:
    try:
        return parse(text).milli_value() if text is not None else None
    except QuantityError:
        return None


def requests_of(pods: Sequence[Pod], name: str, container: str = "") -> dict[str, int]:
    """Return the requests of pods, in thousandths. Raise NoMeasureError if one has none."""
    found: dict[str, int] = {}
    for pod in pods:
        total = 0
        for each in (*pod.spec.containers, *filter(is_sidecar, pod.spec.init_containers)):
            if container and each.name != container:
                continue
            asked: Quantity | None = each.resources.requests.get(name)
            if asked is None:
                where = f"container {each.name} of Pod {pod.metadata.name}"
                raise NoMeasureError(f"missing request for {name} in {where}")
            total += asked.milli_value()
        found[pod.metadata.name] = total
    return found
