"""What tests use that is not in this repository, because it is not ours. Without it the rest runs all the same."""

import os
import shutil
from pathlib import Path

_SHARED = Path(os.environ.get("MOORING_CONFORMANCE") or Path(__file__).parents[2] / "shared" / "conformance")
CEL_SPEC = _SHARED / "cel-spec"
"""The CEL project's own tests as JSON."""

_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """A browser for the tests of the dashboard: MOORING_CHROMIUM, or one on the PATH."""
    named = os.environ.get("MOORING_CHROMIUM")
    return named or next((found for name in _BROWSERS if (found := shutil.which(name))), None)


def absent() -> list[str]:
    """What is not there, for the summary of a run."""
    found = []
    if not list(CEL_SPEC.glob("*.json")):
        found.append("the CEL project's own tests (MOORING_CONFORMANCE)")
    if not os.environ.get("MOORING_REAL"):
        found.append("binaries of Kubernetes (MOORING_REAL)")
    if chromium() is None:
        found.append("a browser (MOORING_CHROMIUM, or chromium on the PATH), so the dashboard was not looked at")
    return found
