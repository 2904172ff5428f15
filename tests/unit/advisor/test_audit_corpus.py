"""An audit finds every use of a gated feature in two hundred manifests and in the proposals' examples, and no other."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from audit_corpus import NEAR_MISSES, SIZE, USES, corpus
from mooring.advisor.audit import Audit, Effect, ask, audit
from mooring.advisor.snapshot import Snapshot, dump
from mooring.base import component
from mooring.base.known_gates import CEL, COMPARISON_OPERATORS, LABEL_KEYS_IN_POD_AFFINITY, SEMVER_OPERATORS

pytestmark = pytest.mark.req("S.5")
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "all.yaml").write_text("---\n".join(yaml.safe_dump(case.tree) for case in corpus()))
    return dump([folder])


def _uses(found: Audit) -> dict[str, set[tuple[str, str]]]:
    by_object: dict[str, set[tuple[str, str]]] = {}
    for finding in found.findings:
        name = f"{finding.object.kind} {finding.object.name}"
        by_object.setdefault(name, set()).add((finding.feature, finding.field))
    return by_object


@pytest.fixture(scope="module")
def inventory(manifests: Snapshot) -> Audit:
    return audit(manifests, ask(component.resolve()))


def test_the_inventory_is_every_use_and_nothing_else(inventory: Audit) -> None:
    found = inventory
    assert found.objects == SIZE
    assert _uses(found) == {case.id: case.uses for case in corpus() if case.uses}
    assert {finding.effect for finding in found.findings} == {Effect.UNAFFECTED}
    assert found.breaks == 0


def test_the_corpus_has_every_ingredient_in_many_kinds() -> None:
    cases = list(corpus())
    features = Counter(feature for case in cases for feature, _ in case.uses)
    assert len(features) == 8
    assert min(features.values()) >= 5
    assert sum(not case.uses for case in cases) >= 40, "near-misses"
    assert len(USES) + len(NEAR_MISSES) == 18


@pytest.mark.parametrize("gate", [COMPARISON_OPERATORS, SEMVER_OPERATORS, CEL])
def test_what_breaks_without_a_gate_is_what_uses_it(manifests: Snapshot, gate: str) -> None:
    found = audit(manifests, ask(component.resolve(), disable=[gate]))
    broken = {(f"{f.object.kind} {f.object.name}", f.field) for f in found.findings if f.breaks}
    # What the minimum compatibility version refuses already cannot break any more.
    newer = {(f"{f.object.kind} {f.object.name}", f.field) for f in found.findings if f.effect is Effect.ALREADY_OFF}
    assert (
        broken | newer
        == {(case.id, path) for case in corpus() for feature, path in case.uses if feature == gate} | newer
    )
    assert broken


def test_each_manifest_says_where_it_stands(inventory: Audit) -> None:
    first = inventory.findings[0].object
    assert first.file.endswith("all.yaml")
    lines = Path(first.file).read_text().splitlines()
    assert f"name: {first.name}" in "\n".join(lines[first.line - 1 : first.line + 60])


PROPOSALS = {
    "kep-5471": COMPARISON_OPERATORS,
    "kep-5721": SEMVER_OPERATORS,
    "kep-5500": CEL,
    "kep-3633": LABEL_KEYS_IN_POD_AFFINITY,
}
WORDS = {
    "kep-5471": ("operator: Gt", "operator: Lt"),
    "kep-5721": ("operator: Semver",),
    "kep-5500": ("expression:", "matchCELExpressions:"),
    "kep-3633": ("atchLabelKeys:",),
}


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_the_examples_of_a_proposal_are_found(proposal: str) -> None:
    """In each file as many objects as have the words of the proposal."""
    found = audit(dump([EXAMPLES / proposal]), ask(component.resolve()))
    files: dict[str, set[str]] = {}
    for finding in found.findings:
        if finding.feature == PROPOSALS[proposal]:
            files.setdefault(finding.object.file, set()).add(str(finding.object))
    expected = {}
    for path in sorted((EXAMPLES / proposal).rglob("*.yaml")):
        documents = [tree for tree in yaml.safe_load_all(path.read_text()) if tree and tree["kind"] != "DeviceClass"]
        using = [tree for tree in documents if any(word in yaml.safe_dump(tree) for word in WORDS[proposal])]
        if using:
            expected[str(path)] = len(using)
    assert {file: len(objects) for file, objects in files.items()} == expected
    assert expected
