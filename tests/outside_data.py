"""What tests use that is not in this repository, because it is not ours. Without it the rest runs all the same."""

import os
import shutil
from pathlib import Path

_SHARED = Path(os.environ.get("MOORING_CONFORMANCE") or Path(__file__).parents[2] / "shared" / "conformance")
CEL_SPEC = _SHARED / "cel-spec"
"""The CEL project's own tests as JSON."""
UPSTREAM = _SHARED / "upstream" / "data"
"""Tables of Kubernetes' own tests as JSON."""
_CHECKOUT = os.environ.get("MOORING_KUBERNETES")
KUBERNETES = Path(_CHECKOUT) if _CHECKOUT else None
"""A checkout of Kubernetes, whose test tables are read from source."""
GATE_FACTS = _SHARED.parent / "facts" / "upstream-feature-gates.json"
"""The history of Kubernetes' scheduling gates, where there is no checkout."""

_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Return a browser for the tests of the dashboard: MOORING_CHROMIUM, or one on the PATH."""
    named = os.environ.get("MOORING_CHROMIUM")
    return named or next((found for name in _BROWSERS if (found := shutil.which(name))), None)


def prometheus(name: str) -> str | None:
    """`prometheus` or `promtool`: of the folder in MOORING_PROMETHEUS, or on the PATH."""
    folder = os.environ.get("MOORING_PROMETHEUS")
    return str(Path(folder) / name) if folder else shutil.which(name)


def absent() -> list[str]:
    """Return what is not there, for the summary of a run."""
    found = []
    if not list(CEL_SPEC.glob("*.json")):
        found.append("the CEL project's own tests (MOORING_CONFORMANCE)")
    if not list(UPSTREAM.glob("*.json")):
        found.append("tables of Kubernetes' own tests (MOORING_CONFORMANCE)")
    if KUBERNETES is None:
        found.append("a checkout of Kubernetes (MOORING_KUBERNETES)")
    if not os.environ.get("MOORING_REAL"):
        found.append("binaries of Kubernetes (MOORING_REAL)")
    if chromium() is None:
        found.append("a browser (MOORING_CHROMIUM, or chromium on the PATH), so the dashboard was not looked at")
    if shutil.which("bwrap") is None:
        found.append("bubblewrap (bwrap on the PATH), so no program had a root")
    if prometheus("prometheus") is None:
        found.append("Prometheus (MOORING_PROMETHEUS, or prometheus on the PATH), so no alert was evaluated")
    return found
