"""Who creates an object owns all of it: found at once for kinds of which nothing is there before."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import codec
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.apply.comparison import compare
from mooring.apiserver.registry.apply.field_managers import of_small, relevant
from mooring.apiserver.registry.patch.schema import schema_of

pytestmark = pytest.mark.req("S.4")

_SCHEME = Scheme()
_words = st.sampled_from(["", "a", "b.c", "x/y"])
_maps = st.dictionaries(_words, _words, max_size=3)
_owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}
_metadata = st.fixed_dictionaries(
    {"name": _words, "uid": _words},
    optional={
        "labels": _maps,
        "annotations": _maps,
        "finalizers": st.lists(_words, max_size=2),
        "ownerReferences": st.just([_owner]),
        "generateName": _words,
    },
)
_objects = st.fixed_dictionaries(
    {"metadata": _metadata},
    optional={"data": _maps, "immutable": st.booleans(), "type": _words, "secrets": st.just([{"name": "s"}])},
)


@given(_objects, st.sampled_from(["ConfigMap", "Secret", "ServiceAccount"]))
def test_the_fields_are_those_that_a_comparison_with_nothing_finds(tree: dict[str, Any], name: str) -> None:
    kind = _SCHEME.kind("v1", name)
    assert kind is not None
    given_tree = {**tree, "data": {}} if name == "Secret" else tree
    obj = codec.to_tree(codec.from_tree(given_tree, kind.type, codec.FieldValidation.IGNORE)[0])
    nothing = relevant(codec.to_tree(kind.type()), kind, "")
    assert list(nothing) == ["metadata"]
    assert of_small(obj, kind) == compare(nothing, relevant(obj, kind, ""), schema_of(kind.type)).added
