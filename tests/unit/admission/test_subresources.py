"""What a write of a subresource may change of an object's metadata, for every kind and every subresource."""

from typing import Any

import pytest

from admission_kinds import EXAMPLES, example, stored
from admission_pods import created, pod_of, request
from mooring.admission.pipeline import CLIENT_METADATA, WRITABLE_METADATA, admit_update
from mooring.admission.registry import strategy_of
from mooring.api.base import copy_of
from mooring.api.meta_v1 import OwnerReference

CHANGES: dict[str, Any] = {
    "labels": {"changed": "yes"},
    "annotations": {"changed": "yes"},
    "finalizers": ["example.com/changed"],
    "owner_references": [OwnerReference(api_version="v1", kind="Pod", name="victim", uid="of-another")],
    "generate_name": "changed-",
    "generation": 7,
    "deletion_timestamp": "2001-01-01T00:00:00Z",
}
"""A change of each field, which no update of the stored object made."""


def stored_object(kind: str) -> Any:
    return created(pod_of()) if kind == "Pod" else stored(kind)


SUBRESOURCES = [
    (kind, subresource)
    for kind in ("Pod", *EXAMPLES)
    for subresource in strategy_of(type(pod_of() if kind == "Pod" else example(kind))).subresources
]


@pytest.mark.parametrize(("kind", "subresource"), SUBRESOURCES, ids=lambda word: word)
@pytest.mark.req("S.6")
def test_a_subresource_changes_no_more_of_the_metadata_than_the_table_says(kind: str, subresource: str) -> None:
    old = stored_object(kind)
    strategy = strategy_of(type(old))
    new = copy_of(old)
    added = {name: {**getattr(old.metadata, name), **CHANGES[name]} for name in ("labels", "annotations")}
    changes = {**CHANGES, **added}
    for name, value in changes.items():
        setattr(new.metadata, name, copy_of(value))
    admitted = admit_update(new, copy_of(old), request(), subresource).object.metadata
    writable = WRITABLE_METADATA.get((strategy.group, strategy.resource, subresource), frozenset())
    for name, value in changes.items():
        assert getattr(admitted, name) == (value if name in writable else getattr(old.metadata, name)), name


@pytest.mark.req("S.6")
def test_no_subresource_changes_owners() -> None:
    """The garbage collector deletes what has no living owner: who sets owners may delete."""
    assert {name for fields in WRITABLE_METADATA.values() for name in fields} <= set(CLIENT_METADATA) - {
        "owner_references"
    }


def test_the_table_names_only_subresources_that_exist() -> None:
    known = {
        (strategy.group, strategy.resource, subresource)
        for kind in ("Pod", *EXAMPLES)
        for strategy in [strategy_of(type(stored_object(kind)))]
        for subresource in strategy.subresources
    }
    assert set(WRITABLE_METADATA) <= known
