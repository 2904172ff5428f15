"""apiregistration.k8s.io/v1: APIService, which says who serves a group and version of the API."""

from typing import Annotated

import msgspec

from mooring.api.base import Int32, Object, StateCondition, always, list_map, required
from mooring.api.meta_v1 import Resource

AVAILABLE = "Available"


class ServiceReference(Object):
    """The Service of an aggregated API server."""

    namespace: str = ""
    name: str = ""
    port: Int32 | None = None
    """The port of the Service; 443 unless given."""


class APIServiceSpec(Object):
    """The group and version of an APIService, and the server that serves it."""

    service: ServiceReference | None = None
    """The Service of the aggregated server; absent if this server serves the version itself."""
    group: str = ""
    version: str = ""
    """The version of the group."""
    insecure_skip_tls_verify: bool = msgspec.field(default=False, name="insecureSkipTLSVerify")
    """Whether the server's certificate is not checked."""
    ca_bundle: bytes = msgspec.field(default=b"", name="caBundle")
    """Certificates of the authorities that may have signed the server's, in PEM."""
    group_priority_minimum: Int32 = required(int)
    """Which group clients prefer: the highest number first."""
    version_priority: Int32 = required(int)
    """Which version of the group clients prefer: the highest number first."""


class APIServiceCondition(StateCondition):
    """One aspect of an APIService's state; Available is the only one."""

    last_transition_time: str | None = None


class APIServiceStatus(Object):
    """The status of an aggregated server."""

    conditions: Annotated[list[APIServiceCondition], list_map("type")] = []
    """Whether it can be asked."""


class APIService(Resource):
    """Says who serves a group and version of the API; its name is `version.group`."""

    spec: APIServiceSpec = always(APIServiceSpec)
    status: APIServiceStatus = always(APIServiceStatus)
