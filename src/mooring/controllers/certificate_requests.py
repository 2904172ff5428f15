"""Approve CertificateSigningRequests of kubelets by Kubernetes' rules.

A request for a kubelet's client certificate is approved if its author may `create`
`certificatesigningrequests/nodeclient` (a joining node) or `…/selfnodeclient` (renewal). All others wait for `kubectl
certificate approve`; the API server signs approved requests.
"""

from contextlib import suppress

from msgspec import structs

from mooring.api import certificate_requests
from mooring.api.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from mooring.api.certificate_requests import CertificateRequest
from mooring.api.certificates_v1 import (
    APPROVED,
    DENIED,
    KUBELET_CLIENT,
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
)
from mooring.client import Informer
from mooring.controllers.controller import Context, Controller

_GROUP, _RESOURCE = "certificates.k8s.io", "certificatesigningrequests"
_SELF = ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
_OTHER = ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")


class CertificateApprovalController(Controller):
    """The controller that approves kubelets' certificate requests; reconciles them by name."""

    name = "certificatesigningrequest-approving"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._requests: Informer[CertificateSigningRequest] = context.informers.of(CertificateSigningRequest)
        self.follow(self._requests)

    async def reconcile(self, key: str) -> None:
        csr = self._requests.get(key)
        if csr is None or csr.status.certificate or csr.spec.signer_name != KUBELET_CLIENT:
            return
        if any(condition.type in (APPROVED, DENIED) for condition in csr.status.conditions):
            return
        with suppress(certificate_requests.RequestError):
            await self._approve_if_allowed(csr, certificate_requests.read(csr.spec.request))

    async def _approve_if_allowed(self, csr: CertificateSigningRequest, request: CertificateRequest) -> None:
        if certificate_requests.rejection_reason(KUBELET_CLIENT, request, csr.spec.usages):
            return
        for right, message in (_SELF, _OTHER) if csr.spec.username == request.common_name else (_OTHER,):
            if await self._is_author_allowed(csr, right):
                approved = CertificateSigningRequestCondition(
                    type=APPROVED, status="True", reason="AutoApproved", message=message
                )
                status = structs.replace(csr.status, conditions=[*csr.status.conditions, approved])
                await self.client.update(structs.replace(csr, status=status), subresource="approval")
                return

    async def _is_author_allowed(self, csr: CertificateSigningRequest, right: str) -> bool:
        spec = csr.spec
        wanted = ResourceAttributes(group=_GROUP, resource=_RESOURCE, subresource=right, verb="create", version="*")
        review = SubjectAccessReviewSpec(
            user=spec.username, uid=spec.uid, groups=spec.groups, extra=spec.extra, resource_attributes=wanted
        )
        return (await self.client.create(SubjectAccessReview(spec=review))).status.allowed
