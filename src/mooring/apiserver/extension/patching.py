"""Apply the patches of MutatingAdmissionPolicies: apply configurations and JSON patches."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from mooring.admission.policy.attributes import GroupVersionKind, Tree
from mooring.admission.policy.mutating import MutationError
from mooring.admission.registry import strategy_of
from mooring.api import codec, errors
from mooring.api.codec import DecodeError, FieldValidation
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.apply.comparison import merge
from mooring.apiserver.registry.patch import json_patch
from mooring.apiserver.registry.patch.json_patch import Inapplicable, PatchError
from mooring.apiserver.registry.patch.schema import MergeNode, schema_of

_OBJECTS = frozenset({"struct", "map"})


class TreePatching:
    """Applies the patches of MutatingAdmissionPolicies to JSON trees, by the schemas of a scheme's kinds."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def merge(self, tree: Tree, config: Tree, kind: GroupVersionKind) -> Tree:
        node = schema_of(self._find_kind(kind).type)
        unknown = [*_unknown_fields(config, node)]
        if unknown:
            problem = "\n".join(f"{path}: field not declared in schema" for path in unknown)
            raise MutationError(f"error applying patch: failed to convert patch object to typed object: {problem}")
        atomic = [*_atomic_fields(config, node)]
        if atomic:
            problem = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
            raise MutationError(f"error applying patch: invalid ApplyConfiguration: {problem}")
        merged: Tree = merge(tree, config, node)
        return merged

    def patch(self, tree: Tree, operations: Sequence[Tree]) -> Tree | None:
        made = [*operations]
        try:
            json_patch.check_operations(made)
            patched = json_patch.apply(copy.deepcopy(made), copy.deepcopy(tree))
        except PatchError as error:
            if isinstance(error, Inapplicable) and str(error).endswith("test failed"):
                return None
            raise MutationError(f"JSON Patch: {error}") from None
        return patched if isinstance(patched, dict) else None

    def decode(self, tree: Tree, kind: GroupVersionKind) -> Resource:
        known = self._find_kind(kind)
        try:
            decoded = codec.decode_tree(copy.deepcopy(tree), known.type, FieldValidation.STRICT).object
        except DecodeError as error:
            raise errors.internal_error(str(error)) from None
        obj = self._scheme.convert(decoded, self._scheme.hub(known))
        strategy_of(type(obj)).default(obj)
        return obj

    def _find_kind(self, kind: GroupVersionKind) -> Kind:
        found = self._scheme.kind(kind.api_version, kind.kind)
        if found is None:
            raise MutationError(f"Resource kind {kind.group}/{kind.version}, Kind={kind.kind} not found.")
        return found


def _unknown_fields(value: Any, node: MergeNode | None, path: str = "") -> Iterator[str]:
    """Yield the paths of an apply configuration's fields that the schema does not define, for the policy's error."""
    if node is None:
        yield path
    else:
        for place, each, child in _child_values(value, node, path):
            yield from _unknown_fields(each, child, place)


def _atomic_fields(value: Any, node: MergeNode | None, path: str = "") -> Iterator[str]:
    """Yield the paths of atomic lists, maps and structs in a value, which an apply may not set in part."""
    if node is None:
        return
    if node.is_atomic and _holds_children(value, node):
        yield path
    for place, each, child in _child_values(value, node, path):
        yield from _atomic_fields(each, child, place)


def _holds_children(value: Any, node: MergeNode) -> bool:
    return node.shape == "list" if isinstance(value, list) else isinstance(value, dict) and node.shape in _OBJECTS


def _child_values(value: Any, node: MergeNode, path: str) -> Iterator[tuple[str, Any, MergeNode | None]]:
    if not _holds_children(value, node):
        return
    if isinstance(value, dict):
        for name, each in value.items():
            yield f"{path}.{name}", each, node.child(name)
    else:
        for index, each in enumerate(value):
            yield f"{path}[{index}]", each, node.item
