"""The history of the API agrees with what others publish, and what Mooring says of itself agrees with the history."""

import hashlib
from collections import defaultdict
from pathlib import Path

import pytest
from tools.history import changing

from mooring.api.history import Releases, history, tables
from mooring.api.history.tables import CHANGING
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
    assert gate_history.is_on_by_default(gate, Version.parse(version)) is on


PROPOSED = {known_gates.COMPARISON_OPERATORS, known_gates.SEMVER_OPERATORS, known_gates.CEL}
PROPOSED |= {known_gates.COMPATIBILITY_VERSIONS}


@pytest.mark.parametrize("name", sorted({gate.name for gate in known_gates.KNOWN} - PROPOSED))
def test_gates_that_releases_have_are_what_they_are_there(name: str) -> None:
    gate = next(each for each in known_gates.KNOWN if each.name == name)
    stages = [(spec.since, spec.stage, spec.default, spec.locked) for spec in gate.history]
    truth = gate_history.kubernetes_gates()[name].history
    assert stages == [(spec.since, spec.stage, spec.default, spec.locked) for spec in truth]


def test_the_proposals_gates_are_on_in_no_release() -> None:
    assert not [name for name in PROPOSED for version in RELEASES if gate_history.is_on_by_default(name, version)]
    assert frozenset(PROPOSED) == known_gates.NOT_ON_IN_KUBERNETES


def test_what_changes_in_our_own_kinds_is_taken_from_the_fields() -> None:
    assert CHANGING.read_text() == changing.HEAD + "".join(f"{line}\n" for line in changing.lines(history()))


@pytest.mark.parametrize(
    ("definition", "field", "since"),
    [
        ("core.v1.PodSpec", "hostnameOverride", "1.34"),
        ("resource.v1.DeviceRequest", "firstAvailable", "1.33"),
        ("resource.v1.ExactDeviceRequest", "tolerations", "1.33"),
        ("resource.v1.Device", "taints", "1.33"),
    ],
)
def test_a_field_is_as_old_as_the_first_version_of_its_group_that_has_it(
    definition: str, field: str, since: str
) -> None:
    assert str(tables.changing_fields()[0][definition][field].releases.since) == since


@pytest.mark.parametrize("definition", ["core.v1.VolumeResourceRequirements", "resource.v1.DeviceTaint"])
def test_a_field_that_came_with_its_definition_is_not_new(definition: str) -> None:
    fields = tables.changing_fields()[0].get(definition, {}).values()
    assert [each.name for each in fields if each.releases.since] == []


def test_a_gate_is_removed_only_after_it_was_settled() -> None:
    for gate in gate_history.kubernetes_gates().values():
        stages = [spec.stage for spec in gate.history]
        assert Stage.REMOVED not in stages[:-1], gate.name
