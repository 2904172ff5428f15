"""The access log: a line for each request with user, verb, path, status and duration, shown with `-v`.

Bodies, headers and queries are not logged, because they may contain secrets.
"""

import logging

from mooring.apiserver.messages.exchange import Exchange
from mooring.base import logs

log = logs.get(__name__)


def is_enabled() -> bool:
    return log.isEnabledFor(logging.INFO)


def write(exchange: Exchange) -> None:
    """Write a request's line into the access log: with `-v`, or if the status is 500 or more."""
    level = logging.ERROR if exchange.code >= 500 else logging.INFO
    if not log.isEnabledFor(level):
        return
    request = exchange.request
    fields = {
        "method": request.method,
        "path": request.path,
        "verb": exchange.verb,
        "code": exchange.code,
        "user": request.user.username,
        "agent": request.user_agent[:100],
        "from": exchange.address,
        "ms": round(exchange.seconds * 1000, 1),
        "bytes": exchange.bytes_sent,
        "request_id": request.request_id,
    }
    if exchange.user and exchange.user is not request.user:
        fields["impersonated_by"] = exchange.user.username
    if exchange.reason:
        fields["reason"] = exchange.reason
    log.log(level, "request", extra={"fields": fields})
