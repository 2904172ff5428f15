"""Connect to the server of a kubeconfig; name a component for its User-Agent. Commands call this."""

import os
import platform

import mooring
from mooring.api.scheme import Scheme
from mooring.client import kubeconfig as kubeconfigs
from mooring.client.batching import BatchingTransport
from mooring.client.client import Client
from mooring.client.https import HttpsTransport
from mooring.client.template_parts import TemplateParts
from mooring.client.wire import PARTS


def connect(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str = "",
    *,
    user_agent: str,
    scheme: Scheme | None = None,
    grouped: bool = False,
    parts: TemplateParts = PARTS,
) -> Client:
    """Return a client for a kubeconfig's server, without connecting yet. Raise ConfigError if the file is unusable.

    `grouped` sends concurrent writes in batches if the server is Mooring's. Objects that the client caches share equal
    parts through `parts`.
    """
    connection = kubeconfigs.load(kubeconfig, context)
    transport = HttpsTransport(connection)
    return Client(
        BatchingTransport(transport) if grouped else transport,
        user_agent=user_agent,
        scheme=scheme,
        certificate_authority=connection.certificate_authority,
        parts=parts,
    )


def user_agent(component: str, kubernetes_version: object) -> str:
    """Return the User-Agent of a component, with the version of Kubernetes that it emulates.

    >>> user_agent("mooring-scheduler", "1.37")  # doctest: +ELLIPSIS
    'mooring-scheduler/v1.37.0 (...) mooring/...'
    """
    where = f"{platform.system().lower()}/{_ARCHITECTURES.get(platform.machine(), platform.machine())}"
    return f"{component}/v{kubernetes_version}.0 ({where}) mooring/{mooring.__version__}"


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
