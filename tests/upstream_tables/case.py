"""What the modules of this package share: decoding of objects and of their parts, and the type of a case's player."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from mooring.api.codec import FieldValidation, from_tree
from mooring.api.core_v1 import Node, NodeSelector, Pod, PodSpec, Taint, Toleration
from mooring.api.meta_v1 import Resource

T = TypeVar("T", bound=Resource)
Tree = dict[str, Any]
Play = Callable[[Tree], str | None]
"""Play a case; return the difference from upstream, or None."""


class NotPlayableError(Exception):
    """A case that has no counterpart here; `str()` gives the reason."""


def decode(tree: Tree, kind: type[T]) -> T:
    found, _ = from_tree({"metadata": {}, **tree}, kind, FieldValidation.IGNORE)
    return found


def pod_spec(tree: Tree) -> PodSpec:
    return decode({"spec": {"containers": [], **tree}}, Pod).spec


def tolerations(trees: Iterable[Tree]) -> list[Toleration]:
    return pod_spec({"tolerations": list(trees)}).tolerations


def taints(trees: Iterable[Tree]) -> list[Taint]:
    return decode({"spec": {"taints": list(trees)}}, Node).spec.taints


def node_selector(tree: Tree) -> NodeSelector:
    spec = pod_spec({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": tree}}})
    affinity = spec.affinity and spec.affinity.node_affinity
    selector = affinity and affinity.required_during_scheduling_ignored_during_execution
    return selector or NodeSelector()


def difference(ours: object, upstream: object) -> str | None:
    return None if ours == upstream else f"{ours!r}, upstream {upstream!r}"
