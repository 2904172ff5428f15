"""Our feature gates' history against Kubernetes': a difference needs a reason here."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.base.gates import Gate, Stage
from mooring.base.known_gates import KNOWN
from outside_data import GATE_FACTS, KUBERNETES

Spec = tuple[str, bool, str]
"""Version, default, stage."""

REASONS = {
    "TaintTolerationComparisonOperators": "beta in 1.37 here, as KEP-5471 plans; alpha upstream",
    "TolerationAffinitySemverOperators": "KEP-5721, which no release of Kubernetes implements",
    "TaintTolerationNodeAffinityCEL": "KEP-5500, which no release of Kubernetes implements",
    "CompatibilityVersions": "KEP-4330's gate; Kubernetes has the flags without it",
}
"""Gates whose history differs on purpose, and why."""


def upstream_history() -> dict[str, list[Spec]]:
    """Read the history of every gate from a checkout, or from the facts beside this repository."""
    if KUBERNETES is not None:
        file = KUBERNETES / "test" / "compatibility_lifecycle" / "reference" / "versioned_feature_list.yaml"
        return {gate["name"]: list(map(spec_of, gate["versionedSpecs"])) for gate in yaml.safe_load(file.read_text())}
    facts: dict[str, Any] = json.loads(Path(GATE_FACTS).read_text())
    return {name: list(map(spec_of, specs)) for name, specs in facts.items()}


def spec_of(tree: dict[str, Any]) -> Spec:
    return tree["version"], tree["default"], tree.get("preRelease") or tree.get("stage") or "Alpha"


def our_history(gate: Gate) -> list[Spec]:
    return [
        (str(spec.since), spec.default, spec.stage.value) for spec in gate.history if spec.stage is not Stage.REMOVED
    ]


HAS_FACTS = KUBERNETES is not None or GATE_FACTS.is_file()


@pytest.mark.req("4330.2")
@pytest.mark.skipif(not HAS_FACTS, reason="there is neither a checkout of Kubernetes nor a list of its gates")
@pytest.mark.parametrize("gate", KNOWN, ids=lambda gate: gate.name)
def test_a_gate_has_the_history_that_kubernetes_gives_it(gate: Gate) -> None:
    history = upstream_history()
    if gate.name in REASONS:
        assert history.get(gate.name) != our_history(gate), "the difference is gone: remove its reason"
    elif KUBERNETES is not None or gate.name in history:  # the facts beside this repository name scheduling gates only
        assert our_history(gate) == history.get(gate.name)
