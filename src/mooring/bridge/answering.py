"""Prove that an installed bridge answers: `mooring bridge --check` where its webhooks are configured.

A webhook that is configured and does not answer refuses every pod with constraints, so that all of these are needed: an
endpoint, a certificate authority, a leader that renews its lease, and a pod that the API server admits in a dry run.
"""

import base64
import binascii
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from cryptography import x509

from mooring.api import errors, times
from mooring.api.coordination_v1 import Lease
from mooring.api.core_v1 import Container, Pod, PodSpec, Service
from mooring.api.meta_v1 import ObjectMeta
from mooring.bridge.checking import Finding
from mooring.bridge.pods import COMPONENT
from mooring.bridge.serving import CONFIGURATIONS
from mooring.client import Client
from mooring.constraints.annotations import TOLERATIONS

_USUAL_LEASE = timedelta(seconds=15)
_TOLERATION = '[{"key": "mooring-check", "operator": "Gt", "value": "1", "effect": "NoSchedule"}]'


async def check_answers(client: Client, namespace: str) -> AsyncIterator[Finding]:
    """Yield whether the bridge answers; nothing where its webhook for pods is not configured."""
    plural, name = next((plural, name) for plural, name in CONFIGURATIONS.items() if plural.startswith("mutating"))
    try:
        answer = await client.raw("GET", f"/apis/admissionregistration.k8s.io/v1/{plural}/{name}")
    except (errors.NotFound, errors.Forbidden):
        return
    hooks = msgspec.json.decode(answer.body)["webhooks"]
    config = hooks[0].get("clientConfig", {}) if hooks else {}
    yield await _endpoint(client, config)
    yield _authority(config, datetime.now(UTC))
    yield await _leader(client, namespace)
    yield await _dry_run(client)


async def _endpoint(client: Client, config: dict[str, Any]) -> Finding:
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


def _authority(config: dict[str, Any], now: datetime) -> Finding:
    what = "a certificate authority in the webhook's caBundle that is valid now"
    hint = "the API server cannot verify the bridge: it writes the bundle when it starts; see its log"
    try:
        found = x509.load_pem_x509_certificates(base64.b64decode(config.get("caBundle", ""), validate=True))
    except (ValueError, binascii.Error):
        return Finding(what, is_there=False, hint=hint)
    valid = any(each.not_valid_before_utc <= now <= each.not_valid_after_utc for each in found)
    return Finding(what, valid, hint=hint)


async def _leader(client: Client, namespace: str) -> Finding:
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


async def _dry_run(client: Client) -> Finding:
    what = "a pod with constraints that the API server admits (dry run)"
    meta = ObjectMeta(name="mooring-check", namespace="default", annotations={TOLERATIONS: _TOLERATION})
    pod = Pod(metadata=meta, spec=PodSpec(containers=[Container(name="check", image="check")]))
    try:
        admitted = await client.create(pod, dry_run=True)
    except errors.StatusError as error:
        return Finding(what, is_there=False, hint=str(error))
    gated = bool(admitted.spec.scheduling_gates)
    return Finding(what, gated, hint="it was admitted without the gate: the webhook was not called")
