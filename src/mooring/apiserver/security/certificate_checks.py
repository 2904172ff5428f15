"""Who may ask for, approve and sign certificates, besides having the right to write the request.

By Kubernetes' rules: approving or denying needs the verb `approve` on the resource `signers` of that name, writing a
certificate or a failure needs `sign`. Nobody gets a certificate for `system:masters`. Called with every object that is
written (`context.Guard`).
"""

from mooring.api import certificate_requests, errors
from mooring.api.authentication_v1 import UserInfo
from mooring.api.certificates_v1 import APPROVED, CLIENT, DENIED, FAILED, CertificateSigningRequest
from mooring.api.meta_v1 import Resource
from mooring.apiserver.security import users
from mooring.apiserver.security.authz import Attributes, Authorizer

_GROUP, _RESOURCE = "certificates.k8s.io", "certificatesigningrequests"


class CertificateChecks:
    """Refuses decisions about certificates by those who may not make them."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, user: UserInfo, new: Resource | None, old: Resource | None, subresource: str) -> None:
        """Raises Forbidden."""
        if not isinstance(new, CertificateSigningRequest):
            return
        if old is None:
            _check_subject(new)
        elif isinstance(old, CertificateSigningRequest):
            if subresource == "approval" and _decided(new, APPROVED, DENIED) != _decided(old, APPROVED, DENIED):
                self._require(user, "approve", new)
            signed = new.status.certificate != old.status.certificate or _decided(new, FAILED) != _decided(old, FAILED)
            if subresource == "status" and signed:
                self._require(user, "sign", new)

    def _require(self, user: UserInfo, verb: str, csr: CertificateSigningRequest) -> None:
        signer = csr.spec.signer_name
        for name in (signer, f"{signer.partition('/')[0]}/*"):
            if self._authorizer.authorize(user, Attributes(verb, _GROUP, "signers", name=name)).allowed:
                return
        why = f'user not permitted to {verb} requests with signerName "{signer}"'
        raise errors.forbidden(_RESOURCE, csr.metadata.name, why, group=_GROUP)


def _check_subject(csr: CertificateSigningRequest) -> None:
    if csr.spec.signer_name == CLIENT:
        request = certificate_requests.read(csr.spec.request)
        if users.MASTERS in request.organizations:
            why = f"use of {CLIENT} signer with {users.MASTERS} group is not allowed"
            raise errors.forbidden(_RESOURCE, csr.metadata.name, why, group=_GROUP)


def _decided(csr: CertificateSigningRequest, *kinds: str) -> list[tuple[str, str]]:
    return [(entry.type, entry.status) for entry in csr.status.conditions if entry.type in kinds]
