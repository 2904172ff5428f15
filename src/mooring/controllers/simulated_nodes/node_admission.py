"""Decide whether a node admits a pod that was bound without the scheduler: ports and resources must be free.

Otherwise the pod fails at once, as with a kubelet: phase Failed, and a reason such as NodePorts or OutOfcpu. Pods that
the scheduler bound are not checked again. Called by ``pods.py``.
"""

from collections.abc import Iterable
from typing import NamedTuple

from mooring.admission.pod.requests import aggregate_requests
from mooring.api.core_v1 import Node, Pod
from mooring.api.quantity import Quantity
from mooring.api.states import has_ended

_ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not listened on
_MILLI = ("cpu",)


class Rejection(NamedTuple):
    """Why a kubelet rejects a pod."""

    reason: str
    message: str


class _Port(NamedTuple):
    protocol: str
    number: int
    address: str

    def conflicts(self, other: "_Port") -> bool:
        same = (self.protocol, self.number) == (other.protocol, other.number)
        return same and (self.address == other.address or self.address in _ANY_ADDRESS or other.address in _ANY_ADDRESS)


def was_scheduled(pod: Pod) -> bool:
    return any(each.type == "PodScheduled" and each.status == "True" for each in pod.status.conditions)


def rejection_of(pod: Pod, node: Node, others: Iterable[Pod]) -> Rejection | None:
    """Return why the node rejects the pod beside the others; None if it admits it."""
    there = [other for other in others if other.metadata.uid != pod.metadata.uid and not has_ended(other)]
    short = _short_of(pod, node, [other for other in there if other.status.start_time is not None])
    if short is not None:
        return short
    taken = [port for other in there if other.status.start_time is not None for port in _host_ports(other)]
    if any(port.conflicts(other) for port in _host_ports(pod) for other in taken):
        why = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
        return Rejection("NodePorts", f"Pod was rejected: {why}")
    return None


def _host_ports(pod: Pod) -> list[_Port]:
    return [
        _Port(port.protocol or "TCP", port.host_port, port.host_ip)
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for port in container.ports
        if port.host_port
    ]


def _short_of(pod: Pod, node: Node, others: list[Pod]) -> Rejection | None:
    room = node.status.allocatable
    if "pods" in room and len(others) + 1 > int(room["pods"].value()):
        return _insufficient("pods", 1, len(others), int(room["pods"].value()))
    wanted = aggregate_requests(pod.spec)
    if not wanted:
        return None
    used: dict[str, Quantity] = {}
    for other in others:
        for name, amount in aggregate_requests(other.spec).items():
            used[name] = used[name] + amount if name in used else amount
    for name, amount in wanted.items():
        if name not in room or amount.sign() <= 0:
            continue  # a resource that the node does not report
        asked, taken, all_of_it = (_number(name, each) for each in (amount, used.get(name), room[name]))
        if taken + asked > all_of_it:
            return _insufficient(name, asked, taken, all_of_it)
    return None


def _number(name: str, amount: Quantity | None) -> int:
    if amount is None:
        return 0
    return amount.milli_value() if name in _MILLI else amount.value()


def _insufficient(name: str, asked: int, used: int, capacity: int) -> Rejection:
    detail = f"Node didn't have enough resource: {name}, requested: {asked}, used: {used}, capacity: {capacity}"
    return Rejection(f"OutOf{name}", f"Pod was rejected: {detail}")
