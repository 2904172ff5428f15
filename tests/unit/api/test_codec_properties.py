"""What holds for every object and every input: round trips lose nothing, and only DecodeError comes out."""

import json
from collections.abc import Iterator
from contextlib import suppress
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mooring.api import codec
from mooring.api.apps_v1 import Deployment
from mooring.api.batch_v1 import CronJob
from mooring.api.codec import DecodeError, FieldValidation, decode, decode_own, decode_yaml, encode, read_yaml, to_yaml
from mooring.api.core_v1 import Node, PersistentVolume, Pod, Service
from mooring.api.excerpt import ITEMS, Excerpt
from mooring.api.field_path import Path
from mooring.api.quantity import Quantity, parse
from mooring.api.resource_v1 import ResourceClaim, ResourceSlice

KINDS: list[type[msgspec.Struct]] = [
    Pod,
    Node,
    Service,
    PersistentVolume,
    Deployment,
    CronJob,
    ResourceClaim,
    ResourceSlice,
]
SLOW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

_texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(
        ["y", "no", "010", "1e3", "~", "", "null", "a: b", "- a", "a\nb\n", " x", "<<", "1:30", "2024-01-01", "#", "{"]
    ),
)
_quantities = st.sampled_from(["0", "1", "100m", "1.5Gi", "1e3", "123456789Ki", "-5"]).map(parse)
_plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), _texts),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_texts, inner, max_size=2)),
    max_leaves=4,
)

_LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    str: _texts,
    bool: st.booleans(),
    float: st.floats(0, 1),
    Quantity: _quantities,
    type(None): st.none(),
    bytes: st.binary(max_size=4),
    msgspec.Raw: st.dictionaries(_texts, _plain, max_size=2).map(msgspec.json.encode).map(msgspec.Raw),
}


def values_of(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    """Values of a type of the API."""
    if get_origin(kind) is Annotated:
        base, *notes = get_args(kind)
        meta = next((note for note in notes if isinstance(note, msgspec.Meta)), None)
        if base is int and meta is not None:
            return st.integers(int(meta.ge or 0), int(meta.le or 0))
        return values_of(base, depth)
    origin, args = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return st.one_of(*(values_of(arg, depth) for arg in args))
    if origin is list:
        return st.lists(values_of(args[0], depth + 1), max_size=2)
    if origin is dict:
        return st.dictionaries(_texts, values_of(args[1], depth + 1), max_size=2)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return structs(kind, depth)
    return _LEAVES.get(kind, _plain)


@st.composite
def structs(draw: st.DrawFn, cls: type[msgspec.Struct], depth: int = 0) -> msgspec.Struct:
    """Structs with up to four fields set, of which those that lead deeper are chosen less the deeper it is."""
    fields = msgspec.structs.fields(cls)
    chosen = draw(st.lists(st.sampled_from(fields), max_size=4 if depth < 5 else 1, unique_by=lambda field: field.name))
    return cls(**{field.name: draw(values_of(field.type, depth + 1)) for field in chosen})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@SLOW
def test_nothing_is_lost_in_json_and_yaml(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    value = data.draw(structs(kind))
    body = encode(value)
    assert decode(body, kind).object == value
    assert decode_own(body, kind) == value
    assert encode(decode(body, kind).object) == body
    assert codec.from_tree(json.loads(body), kind, FieldValidation.STRICT)[0] == value
    assert codec.to_tree(decode_yaml(to_yaml([value]), kind).object) == codec.to_tree(value), "YAML is sorted"


def paths_in(tree: Any) -> Iterator[tuple[str, ...]]:
    """All paths of a tree, those through the items of a list once for each."""
    if isinstance(tree, dict | list):
        for name, value in tree.items() if isinstance(tree, dict) else ((ITEMS, item) for item in tree):
            yield (name,)
            yield from ((name, *path) for path in paths_in(value))


def at(tree: Any, path: tuple[str, ...]) -> Any:
    """Return what is at the end of a path, of a path through items a list of it."""
    if not path:
        return tree
    if isinstance(tree, list) and path[0] == ITEMS:
        return [at(item, path[1:]) for item in tree]
    return at(tree[path[0]], path[1:]) if isinstance(tree, dict) and path[0] in tree else "absent"


@pytest.mark.req("X.7")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@SLOW
def test_an_excerpt_has_what_the_whole_has(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    value = data.draw(structs(kind))
    tree = codec.to_tree(value)
    paths = data.draw(st.lists(st.sampled_from([*paths_in(tree), ("spec", "nothing")]), max_size=5))
    excerpt = Excerpt()
    for path in paths:
        excerpt.add(path)
    shown = excerpt.tree(value)
    assert [at(shown, path) for path in paths] == [at(tree, path) for path in paths]


@given(st.binary(max_size=200))
@settings(max_examples=100)
def test_any_bytes_are_an_object_or_a_decode_error(body: bytes) -> None:
    for read in (lambda: decode(body, Pod), lambda: read_yaml(body), lambda: decode_yaml(body, Pod)):
        with suppress(DecodeError):
            read()


@given(st.text(alphabet='{}[]":,\\u0dn1-.eE \n&*!|>?%@\t', max_size=60))
@settings(max_examples=100)
def test_any_text_like_json_or_yaml_is_an_object_or_a_decode_error(text: str) -> None:
    body = text.encode()
    for read in (lambda: decode(body, Pod), lambda: read_yaml(body), lambda: codec.parse_json(body)):
        with suppress(DecodeError):
            read()


@given(data=st.data(), name=st.text(alphabet="abcXYZ-_", min_size=1, max_size=6))
@SLOW
def test_an_unknown_field_is_always_reported_by_its_path(data: st.DataObject, name: str) -> None:
    pod = data.draw(structs(Pod))
    tree = codec.to_tree(pod)
    holder, path = data.draw(st.sampled_from(list(_objects(pod, tree, None))))
    assume(name not in holder)
    holder[name] = data.draw(_plain)
    where = Path(name) if path is None else path.child(name)
    body = json.dumps(tree).encode()
    assume(path is not None or name not in {"kind", "apiVersion", "metadata", "spec", "status"})
    assert f'unknown field "{where}"' in decode(body, Pod, FieldValidation.WARN).warnings
    with pytest.raises(DecodeError, match="strict decoding error"):
        decode(body, Pod)


def _objects(value: Any, tree: Any, path: Path | None) -> Any:
    """Each struct in an object, as the dict in its tree and the path to it."""
    if isinstance(value, msgspec.Struct):
        yield tree, path
        for field in msgspec.structs.fields(value):
            if field.encode_name in tree:
                below = Path(field.encode_name) if path is None else path.child(field.encode_name)
                yield from _objects(getattr(value, field.name), tree[field.encode_name], below)
    elif isinstance(value, list) and path is not None:
        for index, item in enumerate(value):
            yield from _objects(item, tree[index], path.index(index))


@given(data=st.data())
@settings(max_examples=100)
def test_no_repeated_field_escapes_the_quick_look(data: st.DataObject) -> None:
    keys = st.sampled_from(["a", "b", ":", "a\\", '"', '":', "é", " :"])
    scalars = st.one_of(st.integers(0, 9), keys, st.sampled_from(["\\", '\\":', " "]))
    trees = st.recursive(scalars, lambda inner: st.lists(st.tuples(keys, inner), min_size=1, max_size=3), max_leaves=6)
    repeated = False

    def written(tree: Any) -> str:
        nonlocal repeated
        if not isinstance(tree, list):
            return _json_text(tree, data)
        repeated = repeated or len({key for key, _ in tree}) < len(tree)
        gap = data.draw(st.sampled_from(["", " ", "\n"]))
        members = (f"{_json_text(key, data)}{gap}:{written(item)}" for key, item in tree)
        return "{" + ",".join(members) + "}"

    body = written(data.draw(trees)).encode()
    assert codec._may_have_duplicate_fields(body, json.loads(body)) or not repeated


def _json_text(value: Any, data: st.DataObject) -> str:
    """JSON of a scalar; characters of a text that may be written as `\\u0022` sometimes are."""
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    if not isinstance(value, str) or data.draw(st.booleans()):
        return text
    return '"' + "".join(f"\\u{ord(character):04x}" for character in value) + '"'


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"a":"1 \\u003c 2 \\u0026\\u0026 3 \\u003e 2"}', id="the signs that Go's encoder escapes"),
        pytest.param(b'{"a":"\\u00e9t\\u00e9"}', id="letters that Python's encoder escapes"),
        pytest.param(b'{"a":"first :second","b":"\\tthird\\n:"}', id="a text with a colon behind a space"),
    ],
)
def test_what_cannot_hide_a_field_does_not_take_the_slow_road(body: bytes) -> None:
    assert not codec._may_have_duplicate_fields(body, json.loads(body))
