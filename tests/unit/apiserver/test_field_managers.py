"""Who owns the fields of new objects: what is remembered of like objects makes no difference."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import codec
from mooring.api.codec import FieldValidation
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.apply.field_managers import FieldManagers, Manager

pytestmark = pytest.mark.req("S.1")
_SCHEME = Scheme()
_KNOWING = FieldManagers(_SCHEME)
"""Remembers whatever was asked before."""
_NOW = Manager("m", "", datetime(2026, 1, 1, tzinfo=UTC))
_TEXTS = st.sampled_from(["", "a", "b", ":", ",", '"', "\\", '":', '","f":"', "[", "]", "{", "ä", "\n"])
_EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "note": _TEXTS,
        "reason": _TEXTS,
        "type": _TEXTS,
        "regarding": st.dictionaries(st.sampled_from(["kind", "name", "uid"]), _TEXTS),
        "series": st.fixed_dictionaries({"count": st.integers(0, 2)}),
        "metadata": st.fixed_dictionaries({"labels": st.dictionaries(_TEXTS, _TEXTS)}),
    },
)
_CONFIG_MAPS = st.fixed_dictionaries(
    {}, optional={"data": st.dictionaries(_TEXTS, _TEXTS), "immutable": st.sampled_from([True, False, None])}
)


def _owned(managers: FieldManagers, api_version: str, kind_name: str, tree: dict[str, Any]) -> Any:
    kind = _SCHEME.kind(api_version, kind_name)
    assert kind is not None
    tree = {"apiVersion": api_version, "kind": kind_name, **tree}
    obj: Resource = codec.decode_tree(tree, kind.type, FieldValidation.STRICT).object
    managers.create(kind, obj, _NOW)
    return [codec.to_tree(entry) for entry in obj.metadata.managed_fields]


@given(tree=_EVENTS)
def test_an_event_is_owned_as_if_it_were_the_first(tree: dict[str, Any]) -> None:
    given_now = _owned(_KNOWING, "events.k8s.io/v1", "Event", tree)
    assert given_now == _owned(FieldManagers(_SCHEME), "events.k8s.io/v1", "Event", tree)


@given(tree=_CONFIG_MAPS)
def test_a_map_is_owned_as_if_it_were_the_first(tree: dict[str, Any]) -> None:
    assert _owned(_KNOWING, "v1", "ConfigMap", tree) == _owned(FieldManagers(_SCHEME), "v1", "ConfigMap", tree)
