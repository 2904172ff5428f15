"""Format a JSON response as requested: compact, indented, YAML or protobuf. Called by every handler."""

import re
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from mooring.api import codec, yaml_documents
from mooring.api.protobuf_table import Unsupported
from mooring.apiserver.messages.http import PROTOBUF, YAML, Accepted, Request
from mooring.apiserver.output import protobuf

MAX_BLOCK_YAML_BYTES = 512 * 1024
"""Up to this number of bytes, JSON is converted to block YAML, which takes 0.2 s; above it, to flow YAML."""
MAX_INDENTED_BYTES = 16 * 1024 * 1024
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML does not allow unescaped, or treats as line breaks."""
_HUMAN_AGENTS = ("curl", "Wget", "Mozilla/5.0")
"""User agents whose users read the output, so that they get indented JSON as from kube-apiserver."""


def format_json(body: bytes, accepted: Accepted, request: Request) -> tuple[bytes, str]:
    """Return a JSON body as the client requested it (compact, indented, YAML, protobuf), and its media type."""
    if accepted.format == "protobuf":
        with suppress(Unsupported):
            return protobuf.encode_object(body), PROTOBUF
    if accepted.format == "yaml":
        if len(body) > MAX_BLOCK_YAML_BYTES:
            return flow_yaml(body) + b"\n", YAML
        return yaml_documents.write([codec.parse_json(body)]).encode(), YAML
    if _is_pretty(request):
        body = msgspec.json.format(body, indent=2)
    return body + b"\n", "application/json"


def flow_yaml(body: bytes | memoryview) -> bytes:
    """Return JSON as valid YAML in flow style, by escaping the few characters that YAML does not allow in strings."""
    text = bytes(body)
    if text.isascii() and b"\x7f" not in text:
        return text
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text.decode(errors="surrogateescape")).encode(
        errors="surrogateescape"
    )


def is_too_long(values: Iterable[bytes], accepted: Accepted, request: Request) -> bool:
    """Return whether a list must be sent in pieces of JSON, since it is too large to indent or convert to YAML."""
    if accepted.format == "yaml":
        return sum(map(len, values)) > MAX_BLOCK_YAML_BYTES
    return accepted.format == "json" and (not _is_pretty(request) or sum(map(len, values)) > MAX_INDENTED_BYTES)


def _is_pretty(request: Request) -> bool:
    return request.flag("pretty") if "pretty" in request.query else request.user_agent.startswith(_HUMAN_AGENTS)
