"""Who is at the other end of a connection: what is known of them before they ask for anything.

``http_server.py`` makes one for each connection, so that their certificate is read once and not for each request.
"""

import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mooring.apiserver.messages import users


class Client:
    """The address of a client, and the user of its verified certificate."""

    __slots__ = ("address", "certificate_ends", "user")

    def __init__(self, address: str = "", peer: Mapping[str, Any] | None = None) -> None:
        self.address = address
        self.user = users.of_certificate(peer) if peer else None
        self.certificate_ends: float | None = None
        """When the certificate expires, in seconds since 1970."""
        with suppress(KeyError, ValueError):
            self.certificate_ends = float(ssl.cert_time_to_seconds(peer["notAfter"])) if peer else None
