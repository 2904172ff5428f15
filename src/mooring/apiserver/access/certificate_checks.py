"""Check who may request, approve and sign certificates, beyond the right to write the object.

As in Kubernetes, approving or denying needs the verb `approve` on the resource `signers` of that name, writing a
certificate or a failure needs `sign`, and a ClusterTrustBundle of a signer needs `attest`. Certificates for
`system:masters` are refused. Called for every written object (`AccessChecks`).
"""

from mooring.api import certificate_requests, errors
from mooring.api.authentication_v1 import UserInfo
from mooring.api.certificates_v1 import APPROVED, CLIENT, DENIED, FAILED, CertificateSigningRequest, ClusterTrustBundle
from mooring.api.meta_v1 import Resource
from mooring.apiserver.access.authz import Attributes, Authorizer
from mooring.apiserver.access.escalation import changes_only_owners
from mooring.apiserver.messages import users

_GROUP, _RESOURCE = "certificates.k8s.io", "certificatesigningrequests"


class CertificateChecks:
    """Refuses writes of CertificateSigningRequests and ClusterTrustBundles by users without a right on their signer."""

    kinds = (ClusterTrustBundle, CertificateSigningRequest)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, user: UserInfo, new: Resource | None, old: Resource | None, subresource: str) -> None:
        """Raise Forbidden if a write requests, approves or signs a certificate without the right to."""
        if isinstance(new, ClusterTrustBundle) and new.spec.signer_name:
            self._check_attester(user, new, old)
        if not isinstance(new, CertificateSigningRequest):
            return
        if old is None:
            _check_subject(new)
        elif isinstance(old, CertificateSigningRequest):
            if subresource == "approval" and _changes_conditions(new, old, APPROVED, DENIED):
                self._require_signer_right(user, "approve", new)
            signed = new.status.certificate != old.status.certificate or _changes_conditions(new, old, FAILED)
            if subresource == "status" and signed:
                self._require_signer_right(user, "sign", new)

    def _check_attester(self, user: UserInfo, new: ClusterTrustBundle, old: Resource | None) -> None:
        """Raise Forbidden without the verb `attest` on the signer, unless only owners or finalizers change."""
        if old is not None and changes_only_owners(new, old):
            return
        if not self._has_signer_right(user, "attest", new.spec.signer_name):
            why = f'user not permitted to attest for signerName "{new.spec.signer_name}"'
            raise errors.forbidden("clustertrustbundles", new.metadata.name, why, group=_GROUP)

    def _require_signer_right(self, user: UserInfo, verb: str, csr: CertificateSigningRequest) -> None:
        signer = csr.spec.signer_name
        if not self._has_signer_right(user, verb, signer):
            why = f'user not permitted to {verb} requests with signerName "{signer}"'
            raise errors.forbidden(_RESOURCE, csr.metadata.name, why, group=_GROUP)

    def _has_signer_right(self, user: UserInfo, verb: str, signer: str) -> bool:
        """Return whether a user has a verb on a signer: on its name, or on its whole domain."""
        return any(
            self._authorizer.authorize(user, Attributes(verb, _GROUP, "signers", name=name)).allowed
            for name in (signer, f"{signer.partition('/')[0]}/*")
        )


def _check_subject(csr: CertificateSigningRequest) -> None:
    if csr.spec.signer_name == CLIENT:
        request = certificate_requests.read(csr.spec.request)
        if users.MASTERS in request.organizations:
            why = f"use of {CLIENT} signer with {users.MASTERS} group is not allowed"
            raise errors.forbidden(_RESOURCE, csr.metadata.name, why, group=_GROUP)


def _changes_conditions(new: CertificateSigningRequest, old: CertificateSigningRequest, *kinds: str) -> bool:
    def find(csr: CertificateSigningRequest) -> list[tuple[str, str]]:
        return [(entry.type, entry.status) for entry in csr.status.conditions if entry.type in kinds]

    return find(new) != find(old)
