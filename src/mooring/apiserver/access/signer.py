"""Sign approved CertificateSigningRequests with the authority of the data directory.

It follows the requests of three signers of Kubernetes: for clients, for kubelets as clients and for kubelets as
servers. A request that breaks its signer's rules gets the condition Failed. If several servers share an authority, each
tries to sign and the first write wins; a kube-controller-manager with the authority's key gets a head start. Requests
are approved by people or a controller.
"""

import asyncio
from datetime import timedelta
from typing import Final

from mooring.api import certificate_requests, errors, times
from mooring.api.certificates_v1 import APPROVED, FAILED, CertificateSigningRequest, CertificateSigningRequestCondition
from mooring.api.scheme import Scheme
from mooring.apiserver.access.pki import Pki
from mooring.apiserver.registry.cluster.loopback_client import LoopbackClient
from mooring.apiserver.registry.storage.objects import Follower
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.base.tasks import run_until_one_ends
from mooring.store.kv import Store

log = logs.get(__name__)

_SHORTEST: Final = timedelta(minutes=10)
_OTHERS_FIRST_SECONDS: Final = 1.0
"""The delay before signing, so that a kube-controller-manager with the key signs first and reports conflicts."""


class Signer:
    """Signs approved CertificateSigningRequests of three Kubernetes signers with this server's authority."""

    def __init__(
        self, store: Store, scheme: Scheme, calls: LoopbackClient, pki: Pki, clock: Clock, *, longest: timedelta
    ) -> None:
        kind = scheme.hub_of(CertificateSigningRequest)
        self._changed = asyncio.Event()
        self._requests: Follower[CertificateSigningRequest] = Follower(store, scheme, kind, self._changed.set)
        self._calls = calls
        self._pki = pki
        self._clock = clock
        self._longest = longest

    async def run(self) -> None:
        await run_until_one_ends(self._requests.run(), self._sign_approved())

    async def _sign_approved(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            ready = [csr for csr in self._requests.objects.values() if _is_ready(csr)]
            if ready:
                await self._clock.sleep(_OTHERS_FIRST_SECONDS)
            for csr in ready:
                await self._sign(csr)

    async def _sign(self, csr: CertificateSigningRequest) -> None:
        latest = await self._calls.get(CertificateSigningRequest, csr.metadata.name)
        if latest is None or not _is_ready(latest):
            return
        why = self._set_certificate(latest)
        try:
            await self._calls.update(latest, "status")
        except (errors.Conflict, errors.NotFound):
            return  # a conflict: the watch will bring the change
        fields = {"name": csr.metadata.name, "signer": csr.spec.signer_name, "for": csr.spec.username, "why": why}
        log.info("A certificate was %s", "refused" if why else "signed", extra={"fields": fields})

    def _set_certificate(self, csr: CertificateSigningRequest) -> str:
        """Set the certificate in a request's status or, if its signer's rules refuse it, Failed; return why, or ""."""
        request = certificate_requests.read(csr.spec.request)
        why = certificate_requests.rejection_reason(csr.spec.signer_name, request, csr.spec.usages) or ""
        if why:
            now = times.to_seconds(self._clock.now())
            failed = CertificateSigningRequestCondition(
                type=FAILED, status="True", reason="SignerValidationFailure", message=why, last_update_time=now
            )
            csr.status.conditions = [*csr.status.conditions, failed]
        else:
            seconds = csr.spec.expiration_seconds
            wanted = self._longest if seconds is None else max(_SHORTEST, timedelta(seconds=seconds))
            csr.status.certificate = self._pki.sign_request(request, csr.spec.usages, min(wanted, self._longest))
        return why


def _is_ready(csr: CertificateSigningRequest) -> bool:
    decided = {entry.type for entry in csr.status.conditions if entry.status == "True"}
    return (
        certificate_requests.is_known(csr.spec.signer_name)
        and APPROVED in decided
        and FAILED not in decided
        and not csr.status.certificate
    )
