"""The OpenAPI document of version 2 as protobuf."""

import pytest

from mooring.api.meta_v1 import VersionInfo
from mooring.api.scheme import Scheme
from mooring.apiserver.output.openapi import OpenApi, protobuf


def test_every_schema_there_is_can_be_encoded() -> None:
    document = OpenApi(Scheme(), VersionInfo(git_version="v1.37.0")).build_v2()
    encoded = protobuf.encode_document(document)
    assert encoded.startswith(b"\x0a\x032.0\x12\x12\x0a\x07Mooring\x12\x07v1.37.0")
    assert all(name.encode() in encoded for name in document["definitions"])


def test_a_schema_is_a_message_of_numbered_fields() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "default": "x"}}}
    document = {"swagger": "2.0", "info": {"title": "t", "version": "v"}, "definitions": {"d": schema}}
    inner = b'\xb2\x01\x08\x0a\x06string\x2a\x05\x12\x03"x"'
    named = b"\x0a\x01a\x12" + bytes([len(inner)]) + inner
    properties = b"\x0a" + bytes([len(named)]) + named
    encoded = b"\xb2\x01\x08\x0a\x06object" + b"\x9a\x01\x01a" + b"\xca\x01" + bytes([len(properties)]) + properties
    assert protobuf.encode_document(document).endswith(b"\x0a\x01d\x12" + bytes([len(encoded)]) + encoded)


def test_a_part_of_a_schema_that_has_no_number_is_a_mistake() -> None:
    document = {"swagger": "2.0", "info": {"title": "t", "version": "v"}, "definitions": {"d": {"oneOf": []}}}
    with pytest.raises(ValueError, match="a schema has oneOf"):
        protobuf.encode_document(document)
