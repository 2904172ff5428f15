"""Baselines: known findings to leave out, so that CI reports only new ones.

A baseline is a JSON file with one sorted line per finding, for readable diffs. A finding is identified by its rule,
object, field and value, not by file or line.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import structs

from mooring.advisor.releases.results import Finding, ReleaseAudit

_KIND = "Baseline"


class BaselineError(ValueError):
    """The file is no baseline; the message says why."""


def write(path: Path, findings: Iterable[Finding]) -> int:
    """Write a baseline of findings; says how many it has."""
    keys = sorted({finding.key for finding in findings})
    path.write_text(json.dumps({"kind": _KIND, "findings": keys}, indent=1, ensure_ascii=False) + "\n")
    return len(keys)


def read(path: Path) -> frozenset[str]:
    """Read the findings of a baseline. Raise `BaselineError` or `OSError`."""
    try:
        found: Any = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path} is no baseline: {error}") from error
    keys = found.get("findings") if isinstance(found, dict) and found.get("kind") == _KIND else None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise BaselineError(f"{path} is no baseline: --write-baseline writes one")
    return frozenset(keys)


def without(audit: ReleaseAudit, known: frozenset[str]) -> ReleaseAudit:
    """Return the audit without the findings of a baseline."""
    new = [finding for finding in audit.findings if finding.key not in known]
    return structs.replace(audit, findings=new, known=len(audit.findings) - len(new))
