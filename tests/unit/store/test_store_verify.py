"""What `mooring store verify` finds in the objects of a store."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from mooring.api.scheme import Scheme
from mooring.store.kv import KeyValue
from mooring.store.tools import inventory
from mooring.store.tools.contents import Snapshot
from mooring.store.tools.verify import Problem, find_problems

pytestmark = pytest.mark.req("S.7")


def value(kind: str, namespace: str, name: str, **meta: Any) -> bytes:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "uid": f"uid-{kind}-{name}", **meta}
    tree: dict[str, Any] = {"kind": kind, "apiVersion": "v1", "metadata": metadata}
    return msgspec.json.encode(tree)


def owned_by(uid: str, name: str) -> list[dict[str, str]]:
    return [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}]


NAMESPACE = ("/registry/namespaces/a", value("Namespace", "", "a"))
OTHER_NAMESPACE = ("/registry/namespaces/b", value("Namespace", "", "b"))
OWNER = ("/registry/configmaps/a/o", value("ConfigMap", "a", "o"))
POD = "/registry/configmaps/a/p"


@dataclass(frozen=True)
class Case:
    id: str
    key: str
    value: bytes
    text: str
    is_remark: bool = False


CASES = [
    Case("a key outside", "/calico/x", b"{}", "is not a key of Mooring, which all begin with /registry/"),
    Case(
        "an unknown resource", "/registry/songs/a/b", b"{}", "belongs to no resource that this Mooring knows: 'songs'"
    ),
    Case("a namespace too few", "/registry/configmaps/p", b"{}", "should be namespace/name behind configmaps/"),
    Case("a namespace too many", "/registry/nodes/a/p", b"{}", "should be a name behind nodes/"),
    Case("a value of Kubernetes", POD, b"k8s\x00\n\x0f\n\x02v1", "is encoded as kube-apiserver does it"),
    Case("no JSON", POD, b"hello", "is no ConfigMap: JSON is malformed"),
    Case("no UTF-8", POD, b'{"kind":"\xff"}', "is no ConfigMap: "),
    Case("another kind", POD, value("Pod", "a", "p"), "holds 'v1' 'Pod', which is no version of ConfigMap"),
    Case("an unknown field", POD, value("ConfigMap", "a", "p", colour="red"), "metadata.colour"),
    Case("a wrong type", POD, value("ConfigMap", "a", "p", labels=5), "metadata.labels"),
    Case("another name", POD, value("ConfigMap", "a", "q"), "holds an object that calls itself a/q"),
    Case("another namespace", POD, value("ConfigMap", "b", "p"), "holds an object that calls itself b/p"),
    Case("no uid", POD, value("ConfigMap", "a", "p", uid=""), "has no metadata.uid"),
    Case("a resourceVersion", POD, value("ConfigMap", "a", "p", resourceVersion="5"), "has a resourceVersion"),
    Case(
        "a uid twice",
        POD,
        value("ConfigMap", "a", "p", uid="uid-ConfigMap-o"),
        "has the uid of /registry/configmaps/a/o",
    ),
    Case(
        "an owner without a uid",
        POD,
        value("ConfigMap", "a", "p", ownerReferences=owned_by("", "o")),
        "has an owner without uid, name, kind or apiVersion",
    ),
    Case(
        "an owner of another name",
        POD,
        value("ConfigMap", "a", "p", ownerReferences=owned_by("uid-ConfigMap-o", "x")),
        "has an owner ConfigMap x with the uid of /registry/configmaps/a/o",
    ),
    Case(
        "an owner that is gone",
        POD,
        value("ConfigMap", "a", "p", ownerReferences=owned_by("uid-1", "x")),
        "has an owner that is gone: ConfigMap x",
        is_remark=True,
    ),
    Case(
        "a namespace that is gone",
        "/registry/configmaps/c/p",
        value("ConfigMap", "c", "p"),
        "is in a namespace that does not exist",
        is_remark=True,
    ),
]


def found_in(*values: tuple[str, bytes]) -> list[Problem]:
    items = [KeyValue(key, each, i + 1, i + 1) for i, (key, each) in enumerate(values)]
    return list(find_problems(Snapshot("test", len(items), items), Scheme()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_value_that_is_wrong_is_named_with_its_key(case: Case) -> None:
    found = found_in(NAMESPACE, OTHER_NAMESPACE, OWNER, (case.key, case.value))
    assert [(each.key, each.is_remark) for each in found] == [(case.key, case.is_remark)]
    assert case.text in found[0].text


def test_sound_objects_have_no_problems() -> None:
    owned = value("ConfigMap", "a", "p", ownerReferences=owned_by("uid-ConfigMap-o", "o"))
    assert found_in(NAMESPACE, OWNER, (POD, owned)) == []


@dataclass(frozen=True)
class Revisions:
    id: str
    created: int
    modified: int
    text: str


REVISIONS = [
    Revisions("beyond the store's", 1, 9, "has revision 9, and the store is at 5"),
    Revisions("made after the last change", 4, 3, "was made at revision 4 and changed at 3"),
    Revisions("made never", 0, 3, "was made at revision 0 and changed at 3"),
    Revisions("shared with another key", 1, 2, "has revision 2, which another key has too"),
]


@pytest.mark.parametrize("case", REVISIONS, ids=lambda case: case.id)
def test_impossible_revisions_are_reported(case: Revisions) -> None:
    items = [KeyValue(NAMESPACE[0], NAMESPACE[1], 1, 2), KeyValue(*OWNER, case.created, case.modified)]
    assert list(find_problems(Snapshot("test", 5, items), Scheme())) == [Problem(OWNER[0], case.text)]


def test_an_inventory_counts_by_resource_and_names_the_largest() -> None:
    sizes = {"/registry/pods/a/1": 10, "/registry/pods/a/2": 30, "/registry/nodes/n": 25, "/else": 1}
    items = [KeyValue(key, bytes(size), 1, 1) for key, size in sizes.items()]
    counted = inventory.count(Snapshot("test", 1, items), 2)
    assert {name: (size.keys, size.value_bytes, size.largest) for name, size in counted.resources.items()} == {
        "pods": (2, 40, 30),
        "nodes": (1, 25, 25),
        "": (1, 1, 1),
    }
    assert list(counted.resources) == ["pods", "nodes", ""]
    assert [kv.key for kv in counted.largest] == ["/registry/pods/a/2", "/registry/nodes/n"]
    assert counted.total == inventory.Size(4, 66, 30)


def test_an_empty_store_has_an_empty_inventory() -> None:
    assert inventory.count(Snapshot("test", 1, []), 5).total == inventory.Size(0, 0, 0)
