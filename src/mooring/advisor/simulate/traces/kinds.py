"""Decode objects of any known kind and version from trees in a trace."""

from typing import Any

from mooring.advisor.simulate.traces import objects
from mooring.advisor.snapshot.objects import newest_of, scheme
from mooring.api import codec
from mooring.api.codec import FieldValidation
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource
from mooring.constraints.requests import requests_of


def from_tree_of(tree: Any) -> Resource:
    """Decode an object; raise ValueError."""
    if not isinstance(tree, dict):
        raise ValueError("an object is a map")
    kind = scheme().kind(str(tree.get("apiVersion", "")), str(tree.get("kind", "")))
    if kind is None:
        raise ValueError(f"Mooring does not know {tree.get('apiVersion')} {tree.get('kind')}")
    obj = newest_of(codec.decode_tree(tree, kind.type, FieldValidation.IGNORE).object)
    if kind.namespaced and not obj.metadata.namespace:
        obj.metadata.namespace = "default"
    if not obj.metadata.name:
        raise ValueError(f"a {obj.kind} without a name")
    if isinstance(obj, Pod):
        objects.check(requests_of(obj, pod_level=True))
    elif isinstance(obj, Node):
        objects.check(obj.status.allocatable)
    return obj
