"""The history of the API agrees with what others publish, and what Mooring says of itself agrees with the history."""

import hashlib
from collections import defaultdict
from pathlib import Path

import pytest

from mooring.admission.options import OTHER_FIELDS, POD_FIELDS
from mooring.api import lifecycles
from mooring.api.history import Field, Releases, history
from mooring.api.kinds import KINDS, Kind
from mooring.base import gate_history, known_gates
from mooring.base.gates import Stage
from mooring.base.version import Version

pytestmark = pytest.mark.req("U.1")
DIGESTS = Path(__file__).parents[2] / "conformance" / "data" / "api-history.txt"
RELEASES = [Version(1, minor) for minor in range(27, 38)]


def published(version: Version) -> dict[str, tuple[str, str]]:
    """How many definitions a group-version has in a release, and the digest of their fields, by the group-version."""
    words = (line.split() for line in DIGESTS.read_text().splitlines() if line.startswith(f"{version} "))
    return {place: (count, digest) for _, place, count, digest in words}


def ours(version: Version) -> dict[str, tuple[str, str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for name, fields in sorted(history().definitions.items()):
        there = sorted(field.name for field in fields.values() if field.releases.has(version))
        if there:
            places[name.rpartition(".")[0]].append(f"{name}:{','.join(there)}")
    return {
        place: (str(len(lines)), hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16])
        for place, lines in places.items()
    }


@pytest.mark.parametrize("version", RELEASES, ids=str)
def test_every_field_of_every_definition_is_as_a_package_of_schemas_has_it(version: Version) -> None:
    assert ours(version) == published(version)


@pytest.mark.parametrize(
    ("text", "there", "not_there"),
    [
        ("", ["1.27", "1.37"], []),
        ("-", ["1.27", "1.37"], []),
        ("1.30", ["1.30", "1.37"], ["1.29"]),
        ("-1.32", ["1.27", "1.31"], ["1.32"]),
        ("1.28-1.30", ["1.28", "1.29"], ["1.27", "1.30"]),
        ("-1.29,1.31", ["1.28", "1.31"], ["1.29", "1.30"]),
    ],
)
def test_ranges_of_releases_are_read(text: str, there: list[str], not_there: list[str]) -> None:
    releases = Releases.parse(text)
    assert all(releases.has(Version.parse(each)) for each in there)
    assert not any(releases.has(Version.parse(each)) for each in not_there)


def test_fields_values_and_resources_say_since_when_and_behind_which_gate() -> None:
    known = history()
    field = known.definitions["core.v1.PodSpec"]["resources"]
    assert (field.releases.since, field.gates) == (Version(1, 32), ("PodLevelResources",))
    value = known.enums["core.v1.TolerationOperator"]["Gt"]
    assert (value.releases.since, value.gates) == (Version(1, 35), ("TaintTolerationComparisonOperators",))
    flow = known.kind("flowcontrol.apiserver.k8s.io", "v1beta3", "FlowSchema")
    assert flow is not None
    assert (flow.releases.until, flow.replacement) == (Version(1, 32), "flowcontrol.apiserver.k8s.io/v1")
    assert flow.storage_version(Version(1, 29)) == "v1beta3"
    assert flow.storage_version(Version(1, 30)) == "v1"
    beta = known.kind("resource.k8s.io", "v1beta1", "ResourceClaim")
    assert beta is not None
    assert not beta.by_default(Version(1, 33))


@pytest.mark.parametrize(
    ("gate", "version", "on"),
    [
        ("PodLevelResources", "1.33", False),
        ("PodLevelResources", "1.34", True),
        ("APIListChunking", "1.36", True),  # removed in 1.33, and for good
        ("TaintTolerationComparisonOperators", "1.37", False),
        ("NoSuchGate", "1.37", False),
    ],
)
def test_a_gate_is_on_by_default_from_a_release_on(gate: str, version: str, on: bool) -> None:
    assert gate_history.is_on(gate, Version.parse(version)) is on


PROPOSED = {known_gates.COMPARISON_OPERATORS, known_gates.SEMVER_OPERATORS, known_gates.CEL}
PROPOSED |= {known_gates.COMPATIBILITY_VERSIONS}


@pytest.mark.parametrize("name", sorted({gate.name for gate in known_gates.KNOWN} - PROPOSED))
def test_gates_that_releases_have_are_what_they_are_there(name: str) -> None:
    gate = next(each for each in known_gates.KNOWN if each.name == name)
    stages = [(spec.since, spec.stage, spec.default, spec.locked) for spec in gate.history]
    truth = gate_history.kubernetes_gates()[name].history
    assert stages == [(spec.since, spec.stage, spec.default, spec.locked) for spec in truth]


def test_the_proposals_gates_are_on_in_no_release() -> None:
    assert not [name for name in PROPOSED for version in RELEASES if gate_history.is_on(name, version)]
    assert frozenset(PROPOSED) == known_gates.NOT_ON_IN_KUBERNETES


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if history().kind(kind.group, kind.version, kind.kind)],
    ids=lambda kind: f"{kind.api_version} {kind.kind}",
)
def test_kinds_are_introduced_deprecated_and_removed_when_releases_say_so(kind: Kind) -> None:
    truth = history().kind(kind.group, kind.version, kind.kind)
    assert truth is not None
    mine = lifecycles.lifecycle_of(kind.group, kind.version, kind.kind)
    if mine is lifecycles.ALWAYS:
        assert (truth.releases.since, truth.deprecated, truth.removed) == (None, "", "")
    else:
        dates = [str(each) if each else "" for each in (mine.introduced, mine.deprecated, mine.removed)]
        assert dates == [truth.introduced, truth.deprecated, truth.removed]


def walked(kind: str, path: str) -> Field:
    """The field at a path of a kind, in its stable version."""
    served = next(each for each in history().resources if each.kind == kind and each.version == "v1")
    place, found = served.definition, None
    for step in path.replace("[*]", "").split("."):
        found = history().definitions[place][step]
        place = found.holds
    assert found is not None
    return found


@pytest.mark.parametrize(("kind", "path"), [*(("Pod", path) for path in POD_FIELDS), *OTHER_FIELDS], ids=str)
def test_a_field_is_refused_below_the_release_that_it_came_with(kind: str, path: str) -> None:
    since = POD_FIELDS[path] if kind == "Pod" else OTHER_FIELDS[kind, path]
    served = next(each for each in history().resources if each.kind == kind and each.version == "v1")
    if served.releases.since is not None:  # the stable version is younger than the field: an earlier one tells
        earlier = [each for each in history().resources if each.kind == kind and each.group == served.group]
        ages = [_age(each.definition, path) for each in earlier]
        assert min(age for age in ages if age is not None) == since
    else:
        assert walked(kind, path).releases.since == since


def _age(definition: str, path: str) -> Version | None:
    found = None
    for step in path.replace("[*]", "").split("."):
        field = history().definitions.get(definition, {}).get(step)
        if field is None:
            return None
        found, definition = field, field.holds
    return found.releases.since if found else None


def test_a_gate_is_removed_only_after_it_was_settled() -> None:
    for gate in gate_history.kubernetes_gates().values():
        stages = [spec.stage for spec in gate.history]
        assert Stage.REMOVED not in stages[:-1], gate.name
