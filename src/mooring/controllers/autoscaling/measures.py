"""What is measured: of pods, of objects, of things outside. Values are in thousandths of a unit, as Kubernetes counts.

Simulated pods use nothing, so annotations say what they would:

    metrics.mooring.dev/cpu: 250m             # on a pod: what it uses; also memory, or a metric of one's own
    metrics.mooring.dev/cpu.sidecar: 50m      # on a pod: what one container of it uses
    metrics.mooring.dev/total-cpu: "4"        # on the scaled workload: what all its running pods use, shared equally
    metrics.mooring.dev/queue_length: "30"    # on an object that a metric describes; on the autoscaler: an external one

Where no annotation says anything and the server has `metrics.k8s.io`, that is asked. Called by ``horizontal.py``.
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
    """Nobody says how much it is; the message is for a condition."""


class Measures(msgspec.Struct, frozen=True):
    """What each pod uses, by name, in thousandths; pods that nobody says anything about are not there."""

    values: Mapping[str, int] = msgspec.field(default_factory=dict)


def annotated(metadata: ObjectMeta, name: str) -> int | None:
    """The value that an annotation has, in thousandths."""
    text = metadata.annotations.get(PREFIX + name)
    if text is None:
        return None
    try:
        return parse(text).milli_value()
    except QuantityError:
        return None


def of_pods(pods: Sequence[Pod], target: ObjectMeta, name: str, container: str = "") -> Measures:
    """What annotations say that pods use; those that do not run use nothing that can be measured."""
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
    """What a metrics API (metrics.k8s.io) says. Raises NoMeasureError where there is none."""
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
    """What pods ask for, in thousandths. Raises NoMeasureError if one of them does not say."""
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
