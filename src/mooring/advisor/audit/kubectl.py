"""Write the kubectl commands that an audit recommends."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from mooring.advisor.audit.results import ObjectReference
from mooring.api.kinds import GroupVersion


def resource_of(kind: str, api_version: str) -> str:
    """Return the name of a kind as kubectl takes it: `pod`, `deployment.apps`."""
    group = GroupVersion.parse(api_version).group
    return f"{kind.lower()}.{group}" if group else kind.lower()


def kubectl(verb: str, reference: ObjectReference, resource: str = "") -> str:
    """Return a kubectl command about one object, optionally as another resource or version."""
    namespace = f" -n {shlex.quote(reference.namespace)}" if reference.namespace else ""
    resource = resource or resource_of(reference.kind, reference.api_version)
    return f"kubectl {verb}{namespace} {resource} {shlex.quote(reference.name)}"


def json_patch(reference: ObjectReference, operations: Sequence[dict[str, Any]], resource: str = "") -> str:
    """Return the command that applies a JSON patch."""
    body = shlex.quote(json.dumps(operations, ensure_ascii=False))
    return f"{kubectl('patch', reference, resource)} --type=json -p {body}"
