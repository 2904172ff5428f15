"""What MutatingAdmissionPolicies do to trees: merging as server-side apply does, JSON patches, decoding."""

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
from mooring.apiserver.registry.apply.merging import merge
from mooring.apiserver.registry.patch import json_patch
from mooring.apiserver.registry.patch.errors import Inapplicable, PatchError
from mooring.apiserver.registry.patch.schema import Node, schema_of


class TreePatching:
    """`Patching` with the kinds of a scheme."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def merge(self, tree: Tree, config: Tree, kind: GroupVersionKind) -> Tree:
        node = schema_of(self._kind(kind).type)
        unknown = [*_unknown(config, node)]
        if unknown:
            problem = "\n".join(f"{path}: field not declared in schema" for path in unknown)
            raise MutationError(f"error applying patch: failed to convert patch object to typed object: {problem}")
        atomic = [*_atomics(config, node)]
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
        except Inapplicable as error:
            if str(error).endswith("test failed"):
                return None
            raise MutationError(f"JSON Patch: {error}") from None
        except PatchError as error:
            raise MutationError(f"JSON Patch: {error}") from None
        return patched if isinstance(patched, dict) else None

    def decode(self, tree: Tree, kind: GroupVersionKind) -> Resource:
        known = self._kind(kind)
        try:
            decoded = codec.decode_tree(copy.deepcopy(tree), known.type, FieldValidation.STRICT).object
        except DecodeError as error:
            raise errors.internal_error(str(error)) from None
        obj = self._scheme.convert(decoded, self._scheme.hub(known))
        strategy_of(type(obj)).default(obj)
        return obj

    def _kind(self, kind: GroupVersionKind) -> Kind:
        found = self._scheme.kind(kind.api_version, kind.kind)
        if found is None:
            raise MutationError(f"Resource kind {kind.group}/{kind.version}, Kind={kind.kind} not found.")
        return found


def _unknown(value: Any, node: Node | None, path: str = "") -> Iterator[str]:
    """The fields that a type does not have."""
    if node is None:
        yield path
    elif isinstance(value, dict) and node.shape in {"struct", "map"}:
        for name, each in value.items():
            yield from _unknown(each, node.child(name), f"{path}.{name}")
    elif isinstance(value, list) and node.shape == "list":
        for index, each in enumerate(value):
            yield from _unknown(each, node.item, f"{path}[{index}]")


def _atomics(value: Any, node: Node | None, path: str = "") -> Iterator[str]:
    """The lists, maps and structs that would be replaced as a whole: what they have beside would be lost."""
    if node is None:
        return
    if isinstance(value, dict) and node.shape in {"struct", "map"}:
        if node.is_atomic:
            yield path
        for name, each in value.items():
            yield from _atomics(each, node.child(name), f"{path}.{name}")
    elif isinstance(value, list) and node.shape == "list":
        if node.is_atomic:
            yield path
        for index, each in enumerate(value):
            yield from _atomics(each, node.item, f"{path}[{index}]")
