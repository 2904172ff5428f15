"""certificates.k8s.io/v1: certificate signing requests, which an approver approves and a signer signs."""

from typing import Annotated

from mooring.api.base import Int32, Object, always, list_map, required
from mooring.api.meta_v1 import Condition, Resource

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"


class CertificateSigningRequestSpec(Object):
    """The request, the signer and the usages. Immutable."""

    request: bytes = required(bytes)
    """The request for a certificate, as PEM."""
    signer_name: str = required(str)
    """Who should sign it, as kubernetes.io/kube-apiserver-client-kubelet."""
    expiration_seconds: Int32 | None = None
    """How long the certificate should be good for; the signer may make it shorter."""
    usages: list[str] = []
    """What the key may be used for, as client auth."""
    username: str = ""
    """Who made the request; the server fills it in, as the next three."""
    uid: str = ""
    """The uid of that user."""
    groups: list[str] = []
    """The groups of that user."""
    extra: dict[str, list[str]] = {}
    """What else is known of that user."""


class CertificateSigningRequestCondition(Object):
    """Something that was decided about a request."""

    type: str = required(str)
    """Approved, Denied, Failed, or what a signer says."""
    status: str = required(str)
    """True; for other types also False and Unknown."""
    reason: str = ""
    message: str = ""
    """Why, in a sentence."""
    last_update_time: str | None = None
    """When the condition was last written."""
    last_transition_time: str | None = None


class CertificateSigningRequestStatus(Object):
    """The conditions and the certificate of a signing request."""

    conditions: Annotated[list[CertificateSigningRequestCondition], list_map("type")] = []
    """The approval and the certificate."""
    certificate: bytes = b""
    """The certificate, as PEM, once it is signed."""


class CertificateSigningRequest(Resource):
    """A request for a certificate, which must be approved before its signer signs it."""

    spec: CertificateSigningRequestSpec = required(CertificateSigningRequestSpec)
    status: CertificateSigningRequestStatus = always(CertificateSigningRequestStatus)


class PodCertificateRequestSpec(Object):
    """The pod, key and signer for which a kubelet requests a certificate."""

    signer_name: str = required(str)
    """Who is asked to sign."""
    pod_name: str = required(str)
    """The pod that gets the certificate."""
    pod_uid: str = required(str, name="podUID")
    service_account_name: str = required(str)
    service_account_uid: str = required(str, name="serviceAccountUID")
    node_name: str = required(str)
    node_uid: str = required(str, name="nodeUID")
    max_expiration_seconds: Int32 | None = None
    """For how long the certificate may be good; a day when absent."""
    stub_pkcs10_request: bytes = required(bytes, name="stubPKCS10Request")
    """A PKCS #10 request that names nothing but the key, signed with it."""
    unverified_user_annotations: dict[str, str] = {}
    """Annotations from the pod for the signer, not verified."""


class PodCertificateRequestStatus(Object):
    """The conditions and the certificate of a request."""

    conditions: Annotated[list[Condition], list_map("type")] = []
    """Issued, Denied or Failed."""
    certificate_chain: str = ""
    """The certificates in PEM, the pod's own first."""
    not_before: str | None = None
    """From when the certificate is good."""
    begin_refresh_at: str | None = None
    """When to ask for the next one."""
    not_after: str | None = None
    """Until when the certificate is good."""


class PodCertificateRequest(Resource):
    """A kubelet's wish for a certificate of a pod."""

    spec: PodCertificateRequestSpec = required(PodCertificateRequestSpec)
    status: PodCertificateRequestStatus = always(PodCertificateRequestStatus)


class ClusterTrustBundleSpec(Object):
    """The trust anchors."""

    signer_name: str = ""
    """The signer whose certificates these authorities vouch for; only who may attest for it writes the bundle."""
    trust_bundle: str = required(str)
    """Certificates of authorities, in PEM, in no particular order."""


class ClusterTrustBundle(Resource):
    """Authorities that pods of the whole cluster may trust."""

    spec: ClusterTrustBundleSpec = required(ClusterTrustBundleSpec)
