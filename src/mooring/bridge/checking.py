"""Report what a cluster lacks for the bridge: `mooring bridge --check`.

Every right is checked with a SelfSubjectAccessReview of the caller; each finding has a hint.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import Enum

import msgspec

from mooring.api import errors
from mooring.api.authorization_v1 import ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec
from mooring.bridge.pods import COMPONENT
from mooring.bridge.serving import AUTHORITY, CONFIGURATIONS
from mooring.client import Client

OLDEST_MINOR = 30
"""Scheduling gates are GA since 1.30."""


class Scope(Enum):
    """The scope in which a right is needed."""

    EVERYWHERE = "everywhere"
    NAMESPACE = "in the namespace of the bridge"


@dataclass(frozen=True, slots=True)
class Right:
    """A right that the bridge needs; ``deploy/bridge/rights.yaml`` grants exactly these."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    hint: str
    """What does not work without it."""
    scope: Scope = Scope.EVERYWHERE
    name: str = ""
    """The only object that the right covers; `create` cannot be restricted by name."""
    is_needed: bool = True


_NO_AUTHORITY = "without it there are no webhooks: the bridge does not begin with --webhook-port"
_NO_EVICTION = "without it a pod whose tolerationSeconds are over may stay"
RIGHTS = (
    Right("", "pods", ("list", "watch", "patch"), "without it no pod is released"),
    Right(
        "",
        "pods",
        ("get",),
        "without it the webhook on nodes refuses a taint while others write to the pods there",
        is_needed=False,
    ),
    Right("", "nodes", ("get",), "without it a pod may be evicted by a new value that it tolerates", is_needed=False),
    Right("", "pods", ("delete",), _NO_EVICTION, is_needed=False),
    Right("", "pods/status", ("patch",), _NO_EVICTION, is_needed=False),
    Right("", "nodes", ("list", "watch", "patch"), "without it nodes get no labels, and pods with node affinity wait"),
    Right(
        "", "persistentvolumes", ("list", "watch"), "without it the bridge does not begin: volumes ask for labels, too"
    ),
    Right("events.k8s.io", "events", ("create", "patch"), "without it nobody is told why a pod waits"),
    Right(
        "coordination.k8s.io",
        "leases",
        ("get", "create", "update"),
        "without it two copies would both write",
        Scope.NAMESPACE,
        COMPONENT,
    ),
    Right(
        "coordination.k8s.io",
        "leases",
        ("watch",),
        "without it a copy that waits takes over later",
        Scope.NAMESPACE,
        COMPONENT,
        is_needed=False,
    ),
    Right("", "secrets", ("get", "create"), _NO_AUTHORITY, Scope.NAMESPACE, AUTHORITY, is_needed=False),
    *(
        Right(
            "admissionregistration.k8s.io",
            plural,
            ("get", "patch"),
            "without it the API server is not told to trust the webhooks",
            name=name,
            is_needed=False,
        )
        for plural, name in CONFIGURATIONS.items()
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One requirement, and whether the cluster meets it."""

    what: str
    is_there: bool
    is_needed: bool = True
    """Without it the bridge does not work at all."""
    hint: str = ""


async def check(client: Client, namespace: str) -> AsyncIterator[Finding]:
    """Yield every requirement. Raise the client's error when the server cannot be reached."""
    yield await _version(client)
    for right in RIGHTS:
        for verb in right.verbs:
            is_there = await _may(client, right, verb, namespace)
            yield Finding(f"the right to {verb} {right.resource}", is_there, right.is_needed, right.hint)
    for plural, name in CONFIGURATIONS.items():
        yield await _webhooks(client, plural, name)


async def _version(client: Client) -> Finding:
    found = msgspec.json.decode((await client.raw("GET", "/version")).body, type=dict[str, str])
    minor = "".join(letter for letter in found.get("minor", "") if letter.isdecimal())
    shown = f"{found.get('major')}.{found.get('minor')}"
    return Finding(
        f"Kubernetes 1.{OLDEST_MINOR} or newer (this is {shown})",
        minor.isdecimal() and int(minor) >= OLDEST_MINOR,
        hint="older ones have no scheduling gates",
    )


async def _may(client: Client, right: Right, verb: str, namespace: str) -> bool:
    resource, _, subresource = right.resource.partition("/")
    wanted = ResourceAttributes(
        group=right.group,
        resource=resource,
        subresource=subresource,
        verb=verb,
        namespace=namespace if right.scope is Scope.NAMESPACE else "",
        name="" if verb == "create" else right.name,
    )
    review = SelfSubjectAccessReview(spec=SelfSubjectAccessReviewSpec(resource_attributes=wanted))
    return (await client.create(review)).status.allowed


async def _webhooks(client: Client, plural: str, name: str) -> Finding:
    what = f"the {plural.removesuffix('s')} {name}"
    if plural.startswith("mutating"):
        hint = "without it pods must bring the gate themselves, and annotations are judged only afterwards"
    else:
        hint = "without it a NoExecute taint that changes to another tolerated value may evict before it is tolerated"
    try:
        await client.raw("GET", f"/apis/admissionregistration.k8s.io/v1/{plural}/{name}")
    except (errors.NotFound, errors.Forbidden):
        return Finding(what, is_there=False, is_needed=False, hint=hint)
    return Finding(what, is_there=True, is_needed=False)
