"""Build pods and nodes from the fields of a trace line. Identical parts are shared."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import structs

from mooring.api.core_v1 import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.quantity import Quantity, parse
from mooring.scheduler.facade import DEFAULT_SCHEDULER

Amounts = tuple[tuple[str, str], ...]
_STATUS = PodStatus(phase="Pending")


def pod_of(
    name: str,
    namespace: str,
    resources: Amounts,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    priority: int = 0,
) -> Pod:
    """Build a pod with one container. Raise ValueError for an invalid quantity."""
    metadata = ObjectMeta(
        name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
    )
    return Pod(api_version="v1", kind="Pod", metadata=metadata, spec=_spec(resources, priority), status=_STATUS)


@lru_cache(4096)
def _spec(resources: Amounts, priority: int) -> PodSpec:
    asked = quantities(resources)
    scalar = {name: amount for name, amount in asked.items() if "/" in name}
    container = Container(name="main", resources=ResourceRequirements(requests=asked, limits=scalar))
    return PodSpec(containers=[container], scheduler_name=DEFAULT_SCHEDULER, priority=priority)


def node_of(name: str, resources: Mapping[str, str], labels: Mapping[str, str]) -> Node:
    amounts = quantities(resources.items())
    return Node(
        api_version="v1",
        kind="Node",
        metadata=ObjectMeta(name=name, labels=dict(labels)),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


def quantities(resources: Iterable[tuple[str, str]]) -> dict[str, Quantity]:
    found = {}
    for name, amount in resources:
        try:
            found[name] = parse(amount)
        except ValueError as problem:
            raise ValueError(f'{name} is "{amount[:40]}": {problem}') from None
    check(found)
    return found


def check(amounts: Mapping[str, Quantity]) -> None:
    """Raise ValueError for negative amounts."""
    negative = next((name for name, amount in amounts.items() if amount.sign() < 0), None)
    if negative is not None:
        raise ValueError(f"{negative} is {amounts[negative]}, a negative amount")


def rename(pod: Pod, name: str) -> Pod:
    """Return the pod under another name, without its uid."""
    return structs.replace(pod, metadata=structs.replace(pod.metadata, name=name, uid=""))
