"""Namespaces, ConfigMaps, Secrets, and the finalizers of namespaces."""

import pytest

from admission_kinds import ABSENT, Create, Update, stored
from admission_pods import request
from mooring.admission.pipeline import admit_update
from mooring.api.base import copy_of

MIB = 1024 * 1024
KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
WHEN = "Forbidden: field is immutable when `immutable` is set"

CREATES = [
    Create("a key with a space", "ConfigMap", {"data": {"a b": "c"}}, [f'data[a b]: Invalid value: "a b": {KEY}']),
    Create(
        "a key in both maps",
        "ConfigMap",
        {"binaryData": {"a": "Yg=="}},
        ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
    ),
    Create(
        "too much", "ConfigMap", {"data": {"a": "x" * (MIB + 1)}}, [": Too long: may not be more than 1048576 bytes"]
    ),
    Create(
        "a name with a capital",
        "ConfigMap",
        {"metadata": {"name": "X"}},
        [
            (
                'metadata.name: Invalid value: "X": a lowercase RFC 1123 subdomain must consist of lower case '
                "alphanumeric "
                "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
                "'example.com', regex used "
                "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            )
        ],
    ),
    Create(
        "a token of nobody",
        "Secret",
        {"type": "kubernetes.io/service-account-token"},
        ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
    ),
    Create(
        "a TLS secret without a key",
        "Secret",
        {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "c"}},
        ["data[tls.key]: Required value"],
    ),
    Create(
        "basic authentication without anything",
        "Secret",
        {"type": "kubernetes.io/basic-auth"},
        [
            "data[username]: Required value",
            "data[password]: Required value",
        ],
    ),
    Create(
        "basic authentication with a password",
        "Secret",
        {"type": "kubernetes.io/basic-auth", "stringData": {"password": "p"}},
    ),
    Create(
        "an empty SSH key",
        "Secret",
        {"type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": ""}},
        ["data[ssh-privatekey]: Required value"],
    ),
    Create(
        "no registry credentials",
        "Secret",
        {"type": "kubernetes.io/dockerconfigjson"},
        ["data[.dockerconfigjson]: Required value"],
    ),
    Create("a type of one's own", "Secret", {"type": "example.com/mine"}),
    Create(
        "a namespace with a dot",
        "Namespace",
        {"metadata": {"name": "a.b"}},
        ['metadata.name: Invalid value: "a.b": must not contain dots'],
    ),
    Create(
        "an unknown finalizer",
        "Namespace",
        {"spec": {"finalizers": ["mine"]}},
        ['spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified'],
    ),
]


@pytest.mark.parametrize("case", CREATES, ids=lambda case: case.id)
def test_a_create_is_validated(case: Create) -> None:
    assert case.validate() == case.problems


UPDATES = [
    Update("data of an immutable ConfigMap", "ConfigMap", {"immutable": True}, {"data": {"a": "c"}}, [f"data: {WHEN}"]),
    Update("mutable again", "ConfigMap", {"immutable": True}, {"immutable": ABSENT}, [f"immutable: {WHEN}"]),
    Update("immutable from now on", "ConfigMap", {}, {"immutable": True}),
    Update("data of an immutable Secret", "Secret", {"immutable": True}, {"data": {"a": "Yw=="}}, [f"data: {WHEN}"]),
    Update(
        "another type of Secret",
        "Secret",
        {},
        {"type": "example.com/mine"},
        ['type: Invalid value: "example.com/mine": field is immutable'],
    ),
    Update(
        "another name",
        "ServiceAccount",
        {},
        {"metadata": {"name": "y"}},
        ['metadata.name: Invalid value: "y": field is immutable'],
    ),
    Update(
        "a phase too early",
        "Namespace",
        {},
        {"status": {"phase": "Terminating"}},
        ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"],
        subresource="status",
    ),
    Update(
        "a wrong finalizer",
        "Namespace",
        {},
        {"spec": {"finalizers": ["kubernetes", "x y/z"]}},
        [
            (
                'spec.finalizers[1]: Invalid value: "x y/z": prefix part a lowercase RFC 1123 subdomain must '
                "consist of lower "
                "case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
                "'example.com', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            )
        ],
        subresource="finalize",
    ),
]


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: case.id)
def test_an_update_is_validated(case: Update) -> None:
    assert case.validate() == case.problems


def test_a_namespace_is_born_active_and_carries_its_name() -> None:
    made = stored("Namespace")
    assert made.status.phase == "Active"
    assert made.spec.finalizers == ["kubernetes"]
    assert made.metadata.labels == {"kubernetes.io/metadata.name": "x"}


def test_a_generated_name_is_in_the_label_too() -> None:
    made = stored("Namespace", {"metadata": {"name": ABSENT, "generateName": "team-"}})
    assert made.metadata.name.startswith("team-")
    assert made.metadata.labels == {"kubernetes.io/metadata.name": made.metadata.name}


def test_finalizers_of_a_namespace_change_by_their_subresource_alone() -> None:
    old = stored("Namespace")
    new = copy_of(old)
    new.spec.finalizers = []
    assert admit_update(copy_of(new), old, request()).object.spec.finalizers == ["kubernetes"]
    assert admit_update(copy_of(new), old, request(), "finalize").object.spec.finalizers == []


def test_text_of_a_secret_becomes_data_and_is_opaque_by_default() -> None:
    made = stored("Secret", {"stringData": {"a": "text", "b": "more"}})
    assert made.type == "Opaque"
    assert made.data == {"a": b"text", "b": b"more"}
    assert made.string_data == {}
