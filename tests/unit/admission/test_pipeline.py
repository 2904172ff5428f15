"""The pipeline around every kind: namespaces, names, what the server stamps on objects, and which strategy is asked."""

import os
import re
from dataclasses import dataclass

import pytest

from admission_pods import NOW, ON, created, pod_of, request
from mooring.admission import registry
from mooring.admission.pipeline import admit_create, admit_update, generate_uid
from mooring.admission.strategy import NoCluster, Request
from mooring.api import errors
from mooring.api.base import copy_of
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import list_of


class Namespaces(NoCluster):
    """Some namespaces and their phases."""

    def namespace_phase(self, name: str) -> str | None:
        return {"default": "Active", "going": "Terminating"}.get(name)


@dataclass(frozen=True)
class Case:
    name: str
    sent_to: str
    object_says: str
    error: type[errors.StatusError]
    message: str


@pytest.mark.parametrize(
    "case",
    [
        Case(
            "another namespace than the path's",
            "default",
            "other",
            errors.BadRequest,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        Case("a namespace that is not there", "nope", "", errors.NotFound, 'namespaces "nope" not found'),
        Case(
            "a namespace that is going away",
            "going",
            "",
            errors.Forbidden,
            'pods "p" is forbidden: unable to create new content in namespace going because it is being terminated',
        ),
    ],
    ids=lambda case: case.name,
)
def test_a_create_is_refused_in(case: Case) -> None:
    sent = Request(options=ON, lookups=Namespaces(), now=NOW, namespace=case.sent_to)
    with pytest.raises(case.error) as refusal:
        admit_create(pod_of({}, {"namespace": case.object_says}), sent)
    assert refusal.value.status.message == case.message


def test_a_refusal_in_a_terminating_namespace_has_a_machine_readable_cause() -> None:
    with pytest.raises(errors.Forbidden) as refusal:
        admit_create(pod_of(), Request(options=ON, lookups=Namespaces(), now=NOW, namespace="going"))
    details = refusal.value.status.details
    assert details is not None
    assert [cause.reason for cause in details.causes] == ["NamespaceTerminating"]


def test_the_server_says_when_and_who() -> None:
    sent = {"uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z", "deletionTimestamp": "1999-01-01T00:00:00Z"}
    metadata = created(pod_of({}, sent)).metadata
    assert metadata.creation_timestamp == "2026-01-02T03:04:05Z"
    assert metadata.deletion_timestamp is None
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata.uid)
    assert metadata.namespace == "default"


def test_a_process_and_its_child_make_different_ids() -> None:
    generate_uid()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, generate_uid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 36).decode() != generate_uid()
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("prefix", ["web-", "x" * 80], ids=["short", "too long"])
def test_a_name_is_made_from_its_prefix(prefix: str) -> None:
    pod = pod_of({}, {"name": "", "generateName": prefix})
    name = created(pod).metadata.name
    assert re.fullmatch(rf"{prefix[:58]}[bcdfghjklmnpqrstvwxz2456789]{{5}}", name)


def test_a_name_must_be_given() -> None:
    with pytest.raises(errors.Invalid, match="name or generateName is required"):
        created(pod_of({}, {"name": ""}))


def test_an_update_must_have_the_name_in_its_path() -> None:
    old = created(pod_of())
    sent = request()
    sent.name = "q"
    with pytest.raises(
        errors.BadRequest, match=r"the name of the object \(p\) does not match the name on the URL \(q\)"
    ):
        admit_update(copy_of(old), old, sent)


def test_warnings_are_sent_once() -> None:
    sent = request()
    sent.warn("a")
    sent.warn("a")
    assert sent.warnings == ["a"]


def test_only_stored_kinds_have_a_strategy() -> None:
    assert registry.strategy_of(Pod).resource == "pods"
    with pytest.raises(KeyError):
        registry.strategy_of(list_of(Pod))  # type: ignore[arg-type] # not a kind with metadata of an object
