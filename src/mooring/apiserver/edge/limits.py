"""The limits on requests, connections and bytes in memory.

The HTTP server enforces those on headers and slow connections, ``requests/limiter.py`` all others.
"""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits on requests, streams and bytes in memory; the defaults suit a few thousand nodes, one small host."""

    body_bytes: int = 3 * 1024 * 1024
    header_bytes: int = 64 * 1024
    reading: int = 2000
    """The maximum number of concurrent reads, without watches."""
    writing: int = 1000
    watches: int = 5000
    streams: int = 1000
    """The maximum number of open logs, commands, forwarded ports and proxied requests."""
    user_streams: int = 200
    """The maximum number of `streams` that one user may have; administrators are exempt."""
    waiting_bytes: int = 256 * 1024 * 1024
    """The maximum number of bytes of request bodies in memory whose requests are not done."""
    unsent_bytes: int = 1024 * 1024 * 1024
    """The maximum number of bytes of large responses in memory that clients have not received yet."""
    client_rate: float = 2000.0
    """Sustained requests per second of one client. Administrators and the control plane's components are exempt."""
    client_burst: int = 4000
    header_seconds: float = 15.0
    """The time to receive a request line and its headers."""
    body_seconds: float = 30.0
    """The time to receive a body."""
    request_seconds: float = 60.0
    """The time until a response is ready, except for watches."""
    stalled_seconds: float = 60.0
    """How long a client may leave sent bytes unread."""
    idle_seconds: int = 120
