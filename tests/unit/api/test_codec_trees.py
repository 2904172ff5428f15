"""Trees become objects on two roads, a fast and a talkative one, and both give the same."""

import pytest

from mooring.api import codec
from mooring.api.codec import DecodeError, FieldValidation, WrongFieldsError
from mooring.api.core_v1 import Pod, Secret
from mooring.api.json_tree import MAX_BYTES

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}},
    "spec": {
        "priority": None,
        "containers": [
            {"name": "c", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "ports": [None]}
        ],
    },
}


def test_a_tree_without_nulls_is_read_as_the_same_tree_with_nulls_is() -> None:
    plain = {**POD, "spec": {"containers": [{**POD["spec"]["containers"][0], "ports": [{}]}]}}  # type: ignore[index]
    assert codec.decode_tree(plain, Pod) == codec.decode_tree(POD, Pod)


@pytest.mark.parametrize("text", ["aGk=", "aG\nk="])
def test_base64_is_read_with_and_without_line_breaks(text: str) -> None:
    assert codec.decode_tree({"data": {"a": text}}, Secret).object.data == {"a": b"hi"}


def test_a_field_that_is_there_twice_is_reported() -> None:
    tree = codec.parse_json(b'{"kind": "Pod", "spec": {"containers": [{"name": "a", "name": "b"}]}}')
    with pytest.raises(DecodeError, match=r'duplicate field "spec.containers\[0\].name"'):
        codec.decode_tree(tree, Pod)
    assert codec.decode_tree(tree, Pod, FieldValidation.IGNORE).object.spec.containers[0].name == "b"


def test_values_of_a_wrong_type_are_reported_one_by_one() -> None:
    with pytest.raises(WrongFieldsError) as caught:
        codec.decode_tree({"spec": {"priority": "high", "hostNetwork": 3}}, Pod)
    assert caught.value.problems == (
        "spec.priority: expected a 32-bit integer, got a string",
        "spec.hostNetwork: expected a boolean, got the number 3",
    )


def test_large_yaml_is_read_by_those_who_allow_it() -> None:
    text = "a: " + "x" * MAX_BYTES
    with pytest.raises(codec.TooLargeError):
        codec.read_yaml(text)
    assert len(codec.read_yaml(text, max_bytes=len(text))) == 1
