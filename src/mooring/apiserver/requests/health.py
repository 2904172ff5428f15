"""Health checks: `/healthz`, `/livez` and `/readyz`.

Each check has a path of its own (`/readyz/store`). `?verbose` lists all checks, `?exclude=name` skips some. The reason
of a failure is logged, but not sent to the client. A server whose store does not respond is alive but not ready:
`check_store` reads from the store, which may hang, with a short deadline.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable

from mooring.api import errors
from mooring.apiserver.messages.http import Request, Response
from mooring.base import logs
from mooring.store.errors import StoreError
from mooring.store.kv import Store

log = logs.get(__name__)
Check = Callable[[], str | Awaitable[str | None] | None]
"""A health check: returns None if it succeeds, otherwise the problem."""
PROBE_SECONDS = 2.0
"""The deadline in seconds for the store to respond, as in kube-apiserver."""
_OTHER_NAMES = {"etcd": "store", "etcd-readiness": "store", "poststarthook/rbac/bootstrap-roles": "roles"}
"""kube-apiserver's names of these checks, which probes use."""
_TEXT = "text/plain; charset=utf-8"


async def check_store(store: Store) -> str | None:
    """Return None if the store responds within the deadline, otherwise the reason as text."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await store.revision()
    except TimeoutError:
        return f"the store did not answer within {PROBE_SECONDS:g} s"
    except StoreError as error:
        return str(error)
    return None


class Health:
    """Serves the health checks `/healthz`, `/livez` and `/readyz` of a server, also one by one."""

    def __init__(self, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        lives: dict[str, Check] = {"ping": lambda: None, **live}  # it succeeds whenever the server can respond
        readies = {**lives, **ready}
        self._checks: dict[str, dict[str, Check]] = {"healthz": readies, "livez": lives, "readyz": readies}

    async def handle(self, request: Request) -> Response | None:
        """Return the response to a health check, None for other paths; raise NotFound if it names an unknown check."""
        parts = request.path.strip("/").split("/", 1)
        checks = self._checks.get(parts[0])
        if checks is None:
            return None
        if len(parts) > 1:
            name = _OTHER_NAMES.get(parts[1], parts[1])
            if name not in checks:
                raise errors.path_not_found()
            return await _run_checks(name, {name: checks[name]}, (), verbose=False)
        exclude = [_OTHER_NAMES.get(name, name) for name in request.query.get("exclude", ())]
        return await _run_checks(parts[0], checks, exclude, verbose=request.flag("verbose"))


async def _run_checks(name: str, checks: Mapping[str, Check], exclude: Sequence[str], *, verbose: bool) -> Response:
    lines, failed = [], []
    for check, run in checks.items():
        if check in exclude:
            lines.append(f"[+]{check} excluded: ok")
            continue
        found = run()
        problem = await found if isawaitable(found) else found
        if problem is None:
            lines.append(f"[+]{check} ok")
        else:
            failed.append(check)
            lines.append(f"[-]{check} failed: reason withheld")
            if logs.once((name, check, problem)):
                log.warning("A health check failed", extra={"fields": {"check": check, "why": problem}})
    unknown = sorted(set(exclude) - set(checks))
    lines += (f'warn: some health checks cannot be excluded: no matches for "{each}"' for each in unknown)
    if failed:
        return _text_response(500, "\n".join([*lines, f"{name} check failed", ""]))
    if verbose:
        return _text_response(200, "\n".join([*lines, f"{name} check passed", ""]))
    return _text_response(200, "ok")


def _text_response(status: int, body: str) -> Response:
    return Response(status, body.encode(), _TEXT, {"x-content-type-options": "nosniff"})
