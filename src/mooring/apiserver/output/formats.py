"""Format a JSON response as the client asked: compact, indented, YAML or protobuf. Called by every handler."""

from contextlib import suppress

import msgspec

from mooring.api import codec, yaml_documents
from mooring.api.protobuf_table import Unsupported
from mooring.apiserver.messages.http import PROTOBUF, YAML, Accepted, Request
from mooring.apiserver.output import protobuf

_HUMAN_AGENTS = ("curl", "Wget", "Mozilla/5.0")
"""User agents that get indented JSON, as kube-apiserver sends them."""


def formatted(body: bytes, accepted: Accepted, request: Request) -> tuple[bytes, str]:
    """JSON as the client wants it: on one line, indented for people, or as YAML."""
    if accepted.format == "protobuf":
        with suppress(Unsupported):
            return protobuf.document(body), PROTOBUF
    if accepted.format == "yaml":
        return yaml_documents.write([codec.json_tree(body)]).encode(), YAML
    if _is_pretty(request):
        body = msgspec.json.format(body, indent=2)
    return body + b"\n", "application/json"


def is_plain_json(accepted: Accepted, request: Request) -> bool:
    """Whether the client takes JSON as views make it, so that it can be sent in pieces."""
    return accepted.format == "json" and not _is_pretty(request)


def _is_pretty(request: Request) -> bool:
    return request.flag("pretty") if "pretty" in request.query else request.user_agent.startswith(_HUMAN_AGENTS)
