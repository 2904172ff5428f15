"""Sets of field paths in Kubernetes' FieldsV1 form: a tree of dicts in which "." marks that a path itself is a member.

    {"f:spec": {"f:replicas": {}, "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}}}}}

has the members .spec.replicas, .spec.containers[name="c"] and .spec.containers[name="c"].image. A node without children
is a member too; an empty root is the empty set. Sets are never changed in place.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

Fields = dict[str, Any]
SELF = "."
_IN_ORDER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder()
_TOP_LEVEL = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)


def item_element(keys: dict[str, Any]) -> str:
    """Return a list item's path element in FieldsV1: `k:` and its keys as JSON, in their order."""
    return f"k:{msgspec.json.encode(keys).decode()}"


def value_element(scalar: Any) -> str:
    """Return a set value's path element in FieldsV1: `v:` and the value as JSON."""
    return f"v:{msgspec.json.encode(scalar).decode()}"


def top_level_names(encoded: msgspec.Raw) -> Iterable[str]:
    """Return the names at the top of an encoded field set, without decoding what is below them."""
    return _TOP_LEVEL.decode(encoded) or ()


def is_member(node: Fields) -> bool:
    """Return whether the path of a node is in the field set itself, and not only paths below it."""
    return not node or SELF in node


def children_of(node: Fields | None) -> Fields:
    """Return a node's children in a field set, without the mark that the node is a member."""
    if not node or SELF not in node:
        return node or {}
    return {element: child for element, child in node.items() if element != SELF}


def node_of(children: Fields, *, member: bool) -> Fields | None:
    """Return a node with these children for a field set; None if it would be neither member nor have children."""
    if not children:
        return {} if member else None
    return {SELF: {}, **children} if member else children


def union(a: Fields, b: Fields) -> Fields:
    """Return the field set with the members of either set."""
    if not a or a == b:
        return b
    if not b:
        return a
    result = dict(a)
    for element, theirs in b.items():
        ours = result.get(element)
        result[element] = theirs if ours is None else _union_node(ours, theirs)
    return result


def _union_node(a: Fields, b: Fields) -> Fields:
    node = union(a, b) if a and b else {SELF: {}, **a, **b}
    return node if len(node) > 1 or SELF not in node else {}


def difference(a: Fields, b: Fields) -> Fields:
    """Return the field set with the members of `a` that are not in `b`."""
    if not b:
        return a
    result: Fields = {}
    for element, ours in a.items():
        theirs = b.get(element)
        if theirs is None or not (ours or is_member(theirs)):
            result[element] = ours
        if theirs is None or not ours:
            continue
        member = is_member(ours) and not is_member(theirs)
        kept = node_of(difference(children_of(ours), children_of(theirs)), member=member)
        if kept is not None:
            result[element] = kept
    return result


def intersection(a: Fields, b: Fields) -> Fields:
    """Return the field set with the members of both sets."""
    result: Fields = {}
    for element, ours in a.items():
        theirs = b.get(element)
        if theirs is not None:
            member = is_member(ours) and is_member(theirs)
            kept = node_of(intersection(children_of(ours), children_of(theirs)), member=member)
            if kept is not None:
                result[element] = kept
    return result


def encode(fields: Fields) -> msgspec.Raw:
    """Encode a field set with its elements in Kubernetes' order, since Go programs compare the bytes."""
    return msgspec.Raw(_IN_ORDER.encode(fields))


def decode(encoded: msgspec.Raw) -> Fields:
    """Decode a field set; return the empty set for null."""
    return _DECODER.decode(encoded) or {}


def paths(fields: Fields, above: str = "") -> Iterator[str]:
    """Yield the paths in a field set in readable form, such as `.spec.containers[name="c"].image`."""
    for element, node in fields.items():
        here = above + _format_element(element)
        if is_member(node):
            yield here
        yield from paths(children_of(node), here)


def _format_element(element: str) -> str:
    sort, _, text = element.partition(":")
    if sort == "f":
        return f".{text}"
    if sort == "k":
        keys = json.loads(text)
        return "[" + ",".join(f"{name}={json.dumps(keys[name], ensure_ascii=False)}" for name in sorted(keys)) + "]"
    return f"[={text}]" if sort == "v" else f"[{text}]"
