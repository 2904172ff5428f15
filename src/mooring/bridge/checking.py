"""Report what a cluster lacks for the bridge, and whether an installed bridge answers: `mooring bridge --check`.

Every right is checked with a SelfSubjectAccessReview of the caller; each finding has a hint. A webhook that is
configured and does not answer refuses every pod with constraints. So an installed bridge needs an endpoint, a
certificate authority, a leader that renews its Lease, and a pod that the API server admits in a dry run.
"""

import base64
import binascii
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from cryptography import x509

from mooring.api import errors, times
from mooring.api.authorization_v1 import ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec
from mooring.api.coordination_v1 import Lease
from mooring.api.core_v1 import Container, Pod, PodSpec, Service
from mooring.api.meta_v1 import ObjectMeta
from mooring.bridge.pods import COMPONENT
from mooring.bridge.serving import AUTHORITY, CONFIGURATIONS
from mooring.client import Client
from mooring.constraints.annotations import TOLERATIONS

OLDEST_MINOR = 30
"""Scheduling gates are GA since 1.30."""

_CONFIGURATION = "/apis/admissionregistration.k8s.io/v1"
_USUAL_LEASE = timedelta(seconds=15)
_TOLERATION = '[{"key": "mooring-check", "operator": "Gt", "value": "1", "effect": "NoSchedule"}]'


@dataclass(frozen=True, slots=True)
class Right:
    """A right that the bridge needs; ``deploy/bridge/rights.yaml`` grants exactly these."""

    resource: str
    """As kubectl writes it: `leases.coordination.k8s.io`."""
    verbs: str
    hint: str
    is_needed: bool = True
    name: str = ""
    """The only object that the right covers, by default any; `create` cannot be restricted by name."""

    @property
    def is_namespaced(self) -> bool:
        """Return whether the right is needed in the namespace of the bridge alone."""
        return self.resource in (_LEASES, "secrets")


_NO_AUTHORITY = "without it there are no webhooks: the bridge does not begin with --webhook-port"
_NO_TRUST = "without it the API server does not trust the webhooks"
_LEASES, _ADMISSION = "leases.coordination.k8s.io", "admissionregistration.k8s.io"
_NO_EVICTION = "without it a pod whose tolerationSeconds are over may stay"
RIGHTS = (
    Right("pods", "list watch patch", "without it no pod is released"),
    Right("pods", "get", "without it the webhook on nodes refuses a taint while others write to the pods there", False),
    Right("nodes", "get", "without it a pod may be evicted by a new value that it tolerates", False),
    Right("pods", "delete", _NO_EVICTION, False),
    Right("pods/status", "patch", _NO_EVICTION, False),
    Right("nodes", "list watch patch", "without it nodes get no labels, and pods with node affinity wait"),
    Right("persistentvolumes", "list watch", "without it the bridge does not begin: volumes ask for labels, too"),
    Right("events.events.k8s.io", "create patch", "without it there are no events that say why a pod waits"),
    Right(_LEASES, "get create update", "without it two copies would both write", name=COMPONENT),
    Right(_LEASES, "watch", "without it a copy that waits takes over later", False, COMPONENT),
    Right("secrets", "get create", _NO_AUTHORITY, False, AUTHORITY),
    *(Right(f"{plural}.{_ADMISSION}", "get patch", _NO_TRUST, False, name) for plural, name in CONFIGURATIONS.items()),
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
    """Yield every requirement of the bridge, and whether the cluster meets it. Raise ClientError without a server."""
    yield await _check_version(client)
    for right in RIGHTS:
        for verb in right.verbs.split():
            is_there = await _is_allowed(client, right, verb, namespace)
            what = f"the right to {verb} {right.resource.partition('.')[0]}"
            yield Finding(what, is_there, right.is_needed, right.hint)
    for plural, name in CONFIGURATIONS.items():
        yield await _check_webhooks(client, plural, name)


async def _check_version(client: Client) -> Finding:
    found = msgspec.json.decode((await client.raw("GET", "/version")).body, type=dict[str, str])
    minor = "".join(letter for letter in found.get("minor", "") if letter.isdecimal())
    shown = f"{found.get('major')}.{found.get('minor')}"
    return Finding(
        f"Kubernetes 1.{OLDEST_MINOR} or newer (this is {shown})",
        minor.isdecimal() and int(minor) >= OLDEST_MINOR,
        hint="older ones have no scheduling gates",
    )


async def _is_allowed(client: Client, right: Right, verb: str, namespace: str) -> bool:
    whole, _, group = right.resource.partition(".")
    resource, _, subresource = whole.partition("/")
    wanted = ResourceAttributes(
        group=group,
        resource=resource,
        subresource=subresource,
        verb=verb,
        namespace=namespace if right.is_namespaced else "",
        name="" if verb == "create" else right.name,
    )
    review = SelfSubjectAccessReview(spec=SelfSubjectAccessReviewSpec(resource_attributes=wanted))
    return (await client.create(review)).status.allowed


async def _check_webhooks(client: Client, plural: str, name: str) -> Finding:
    what = f"the {plural.removesuffix('s')} {name}"
    if plural.startswith("mutating"):
        hint = "without it pods must bring the gate themselves, and annotations are validated only afterwards"
    else:
        hint = "without it a NoExecute taint that changes to another tolerated value may evict before it is tolerated"
    try:
        await client.raw("GET", f"{_CONFIGURATION}/{plural}/{name}")
    except (errors.NotFound, errors.Forbidden):
        return Finding(what, is_there=False, is_needed=False, hint=hint)
    return Finding(what, is_there=True, is_needed=False)


# -- an installed bridge


async def check_answers(client: Client, namespace: str) -> AsyncIterator[Finding]:
    """Yield findings on whether an installed bridge works; nothing if its webhook for pods is not configured."""
    plural, name = next((plural, name) for plural, name in CONFIGURATIONS.items() if plural.startswith("mutating"))
    try:
        answer = await client.raw("GET", f"{_CONFIGURATION}/{plural}/{name}")
    except (errors.NotFound, errors.Forbidden):
        return
    hooks = msgspec.json.decode(answer.body)["webhooks"]
    config = hooks[0].get("clientConfig", {}) if hooks else {}
    yield await _check_endpoint(client, config)
    yield _check_authority(config, datetime.now(UTC))
    yield await _check_leader(client, namespace)
    yield await _check_dry_run(client)


async def _check_endpoint(client: Client, config: dict[str, Any]) -> Finding:
    service = config.get("service")
    if service is None:
        return Finding(f"the webhook at {config.get('url', 'no address')}", is_there=bool(config.get("url")))
    space, name = service["namespace"], service["name"]
    path = f"/apis/discovery.k8s.io/v1/namespaces/{space}/endpointslices"
    what = f"a ready endpoint of the Service {space}/{name}"
    try:
        answer = await client.raw("GET", path, query=[("labelSelector", f"kubernetes.io/service-name={name}")])
    except errors.StatusError as error:
        return Finding(what, is_there=False, is_needed=False, hint=f"it could not be read: {error}")
    slices = msgspec.json.decode(answer.body)["items"] or []
    if not slices and await _is_external(client, space, name):
        return Finding(what, is_there=True)
    ready = [
        each
        for piece in slices
        for each in piece.get("endpoints") or ()
        if (each.get("conditions") or {}).get("ready") is not False
    ]
    return Finding(
        what, bool(ready), hint="no bridge answers: pods with constraints are refused; is its Deployment running?"
    )


async def _is_external(client: Client, namespace: str, name: str) -> bool:
    try:
        return (await client.get(Service, name, namespace)).spec.type == "ExternalName"
    except errors.StatusError:
        return False


def _check_authority(config: dict[str, Any], now: datetime) -> Finding:
    what = "a certificate authority in the webhook's caBundle that is valid now"
    hint = "the API server cannot verify the bridge: it writes the bundle when it starts; see its log"
    try:
        found = x509.load_pem_x509_certificates(base64.b64decode(config.get("caBundle", ""), validate=True))
    except (ValueError, binascii.Error):
        return Finding(what, is_there=False, hint=hint)
    valid = any(each.not_valid_before_utc <= now <= each.not_valid_after_utc for each in found)
    return Finding(what, valid, hint=hint)


async def _check_leader(client: Client, namespace: str) -> Finding:
    what = f"a leader that renews the Lease {namespace}/{COMPONENT}"
    try:
        lease = await client.get(Lease, COMPONENT, namespace)
    except errors.StatusError as error:
        return Finding(what, is_there=False, hint=f"no bridge has taken it: {error}")
    spec = lease.spec
    length = timedelta(seconds=spec.lease_duration_seconds) if spec.lease_duration_seconds else _USUAL_LEASE
    try:
        renewed = times.parse(spec.renew_time or "")
    except times.TimeError:
        renewed = None
    is_held = bool(spec.holder_identity) and renewed is not None and datetime.now(UTC) - renewed <= 2 * length
    return Finding(what, is_held, hint=f"it was renewed last at {spec.renew_time}: no bridge runs")


async def _check_dry_run(client: Client) -> Finding:
    what = "a pod with constraints that the API server admits (dry run)"
    meta = ObjectMeta(name="mooring-check", namespace="default", annotations={TOLERATIONS: _TOLERATION})
    pod = Pod(metadata=meta, spec=PodSpec(containers=[Container(name="check", image="check")]))
    try:
        admitted = await client.create(pod, dry_run=True)
    except errors.StatusError as error:
        return Finding(what, is_there=False, hint=str(error))
    gated = bool(admitted.spec.scheduling_gates)
    return Finding(what, gated, hint="it was admitted without the gate: the webhook was not called")
