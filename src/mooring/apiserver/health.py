"""`/healthz`, `/livez` and `/readyz`: whether the server lives, and whether clients should come.

Each is a list of checks; a check has a path of its own (`/readyz/store`). `?verbose` lists them all, `?exclude=name`
leaves some out. Why a check failed is logged, and not told to whoever asks.
"""

from collections.abc import Callable, Mapping, Sequence

from mooring.api import errors
from mooring.apiserver.http import Request, Response
from mooring.base import logs

log = logs.get(__name__)
Check = Callable[[], str | None]
"""None when all is well, else what is wrong."""
_TEXT = "text/plain; charset=utf-8"


def ping() -> str | None:
    """That this was called is the proof."""
    return None


class Health:
    """The checks of a server."""

    def __init__(self, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        lives = {"ping": ping, **live}
        readies = {**lives, **ready}
        self._checks: dict[str, dict[str, Check]] = {"healthz": readies, "livez": lives, "readyz": readies}

    def handle(self, request: Request) -> Response | None:
        """The answer; None if the path is another's."""
        parts = request.path.strip("/").split("/", 1)
        checks = self._checks.get(parts[0])
        if checks is None:
            return None
        if len(parts) > 1:
            if parts[1] not in checks:
                raise errors.path_not_found()
            return _answer(parts[1], {parts[1]: checks[parts[1]]}, (), verbose=request.flag("verbose"), single=True)
        return _answer(parts[0], checks, request.query.get("exclude", ()), verbose=request.flag("verbose"))


def _answer(
    name: str, checks: Mapping[str, Check], exclude: Sequence[str], *, verbose: bool, single: bool = False
) -> Response:
    lines, failed = [], []
    for check, run in checks.items():
        if check in exclude:
            lines.append(f"[+]{check} excluded: ok")
            continue
        problem = run()
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
        return _text(500, "\n".join([*lines, f"{name} check failed", ""]))
    if verbose and not single:
        return _text(200, "\n".join([*lines, f"{name} check passed", ""]))
    return _text(200, "ok")


def _text(status: int, body: str) -> Response:
    return Response(status, body.encode(), _TEXT, {"x-content-type-options": "nosniff"})
