"""certificates.k8s.io/v1: what asks for certificates."""

from typing import Annotated

from mooring.api.base import Int32, Object, always, list_map, required
from mooring.api.meta_v1 import Condition, Resource, ResourceList


class PodCertificateRequestSpec(Object):
    """What a kubelet asks for on behalf of a pod."""

    signer_name: str = required(str)
    """Who is asked to sign."""
    pod_name: str = required(str)
    """The pod that gets the certificate."""
    pod_uid: str = required(str, name="podUID")
    """The uid of the pod."""
    service_account_name: str = required(str)
    """The service account of the pod."""
    service_account_uid: str = required(str, name="serviceAccountUID")
    """The uid of the service account."""
    node_name: str = required(str)
    """The node of the pod."""
    node_uid: str = required(str, name="nodeUID")
    """The uid of the node."""
    max_expiration_seconds: Int32 | None = None
    """For how long the certificate may be good; a day when absent."""
    stub_pkcs10_request: bytes = required(bytes, name="stubPKCS10Request")
    """A PKCS #10 request that names nothing but the key, signed with it."""
    unverified_user_annotations: dict[str, str] = {}
    """What the pod tells the signer, which nobody has checked."""


class PodCertificateRequestStatus(Object):
    """What became of a request."""

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
    """What is asked for."""
    status: PodCertificateRequestStatus = always(PodCertificateRequestStatus)
    """What became of it."""


class PodCertificateRequestList(ResourceList):
    """Several PodCertificateRequests."""

    items: list[PodCertificateRequest] = required(list)
    """The requests."""
