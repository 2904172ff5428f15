"""The tables of kinds and lifecycles agree with Kubernetes: published lifecycles, and the paths its client calls."""

import json
import re
from collections import defaultdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from mooring.api.history import history
from mooring.api.kinds import KINDS, STABLE, Kind
from mooring.base.version import Version

LIFECYCLES = json.loads((Path(__file__).parent / "upstream-api-lifecycles.json").read_text())

_VALIDATING = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
GONE_FROM_THE_CLIENT = {
    ("networking.k8s.io", "v1beta1"),
    ("storage.k8s.io", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta3"),
}
KINDS_GONE_FROM_THE_CLIENT = {("admissionregistration.k8s.io", "v1beta1", kind) for kind in _VALIDATING}
"""Removed in the client's release."""
BESIDE_VERBS = {"HEAD", "OPTIONS"}
"""Methods of proxies that are no verbs."""
ITEM_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


@pytest.mark.req("4330.4")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_lifecycles_are_as_published(kind: Kind) -> None:
    published = LIFECYCLES.get(kind.group, {}).get(kind.version, {}).get(kind.kind)
    dates = (kind.lifecycle.introduced, kind.lifecycle.deprecated, kind.lifecycle.removed)
    mine = {name: str(date) for name, date in zip(("introduced", "deprecated", "removed"), dates, strict=True) if date}
    if published and kind.plural:
        assert mine == published
    elif kind.stability == STABLE:
        assert kind.lifecycle.known_at(Version(1, 37))


@pytest.mark.req("4330.4")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_a_kind_is_known_to_the_releases_whose_discovery_has_it(kind: Kind) -> None:
    served = history().kind(kind.group, kind.version, kind.kind)
    releases = [Version(1, minor) for minor in range(27, 38)]
    there = [version for version in releases if served is None or served.releases.has(version)]
    assert [version for version in releases if kind.lifecycle.known_at(version)] == there


@cache
def verbs_by_path(group: str, version: str) -> dict[str, set[str]]:
    """For each resource (`pods`, `pods/status`) the verbs that Kubernetes' own client knows, and whether it has a
    namespace (a verb `namespaced`, to keep one table)."""
    client = find_spec("kubernetes")
    assert client is not None
    assert client.origin is not None
    prefix = f"/apis/{group}/{version}/" if group else f"/api/{version}/"
    name = group.removesuffix(".k8s.io").replace(".", "_") if group else "core"
    source = (Path(client.origin).parent / "client" / "api" / f"{name}_{version}_api.py").read_text()
    found: dict[str, set[str]] = defaultdict(set)
    for method, path in set(re.findall(r"method='(\w+)',\s*resource_path='([^']+)'", source)):
        rest = path.removeprefix(prefix)
        if rest == path or rest.startswith("watch/") or not rest:
            continue
        if method in BESIDE_VERBS or rest.endswith("/{path}"):
            continue
        namespaced = rest.startswith("namespaces/{namespace}/")
        plural, *below = rest.removeprefix("namespaces/{namespace}/").split("/")
        resource = "/".join([plural, *below[1:]])
        verbs = ITEM_VERBS if below else COLLECTION_VERBS
        found[resource] |= {verbs[method]} | ({"namespaced"} if namespaced else set())
        if verbs[method] == "list":
            found[resource].add("watch")
    return found


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in KINDS
        if kind.plural
        and not kind.is_internal
        and (kind.group, kind.version) not in GONE_FROM_THE_CLIENT
        and (kind.group, kind.version, kind.kind) not in KINDS_GONE_FROM_THE_CLIENT
    ],
    ids=lambda kind: f"{kind.api_version} {kind.kind}",
)
def test_verbs_scope_and_subresources_are_those_of_discovery(kind: Kind) -> None:
    theirs = verbs_by_path(kind.group, kind.version)
    namespaced = {"namespaced"} if kind.namespaced else set()
    ours = {kind.plural: set(kind.verbs) | namespaced}
    ours |= {f"{kind.plural}/{sub.name}": set(sub.verbs) | namespaced for sub in kind.subresources}
    assert ours == {path: verbs for path, verbs in theirs.items() if path.split("/")[0] == kind.plural}


def test_short_names_are_unique() -> None:
    owners: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for kind in KINDS:
        for name in kind.short_names:
            owners[name].add(kind.family)
    assert {name: kinds for name, kinds in owners.items() if len(kinds) > 1} == {}
