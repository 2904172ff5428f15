"""Every feature gate of Kubernetes 1.27 to 1.37 with its stages, read from ``gate_history.txt`` on first use.

``known_gates.py`` has the gates that Mooring implements; this table is about upstream Kubernetes, for advice about
other clusters. ``tools/history`` writes it.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources

from mooring.base.gates import Gate, Spec, Stage
from mooring.base.version import Version

FIRST, LAST = Version(1, 27), Version(1, 37)
"""The first and the last release in the table."""
_STEP = re.compile(r"1\.(\d+):(\w+)([+-]?)(!?)")


@cache
def kubernetes_gates() -> Mapping[str, Gate]:
    """Read the table; return gates by name."""
    text = (resources.files("mooring.base") / "gate_history.txt").read_text()
    lines = (line.partition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: Gate(name, "", tuple(_parse_specs(steps))) for name, _, steps in lines}


def _parse_specs(steps: str) -> Iterator[Spec]:
    for minor, stage, default, locked in _STEP.findall(steps):
        yield Spec(Version(1, int(minor)), default == "+", Stage(stage), locked=bool(locked))


def is_on_by_default(name: str, version: Version) -> bool:
    """Whether a gate is on by default in a release. A removed gate keeps its last default."""
    gate = kubernetes_gates().get(name)
    if gate is None:
        return False
    past = [spec for spec in gate.history if spec.since <= version and spec.stage is not Stage.REMOVED]
    return bool(past) and past[-1].default


def has_gate(name: str, version: Version) -> bool:
    """Whether a release knows a gate, so that it can be set."""
    gate = kubernetes_gates().get(name)
    spec = gate.at(version) if gate else None
    return spec is not None and spec.stage is not Stage.REMOVED
