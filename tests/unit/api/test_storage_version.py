"""4330.5: the version in which objects are stored, at several minimum compatibility and emulation versions."""

from dataclasses import dataclass

import pytest

from mooring.api.apps_v1 import ControllerRevision
from mooring.api.kinds import KINDS, Kind
from mooring.api.lifecycles import since
from mooring.api.scheme import Scheme
from mooring.base.version import ComponentVersions

pytestmark = pytest.mark.req("4330.5")


@dataclass(frozen=True)
class Case:
    id: str
    emulation: str
    min_compatibility: str | None
    kind: tuple[str, str]
    stored: str


CLAIM = ("resource.k8s.io/v1", "ResourceClaim")
RULE = ("resource.k8s.io/v1", "DeviceTaintRule")
ATTRIBUTES = ("storage.k8s.io/v1", "VolumeAttributesClass")

CASES = [
    Case("the default stores what 1.35 to 1.37 know", "1.37", None, CLAIM, "resource.k8s.io/v1"),
    Case("v1 from the release after its first", "1.37", "1.35", CLAIM, "resource.k8s.io/v1"),
    Case("v1beta2 while 1.33 must be able to read", "1.37", "1.34", CLAIM, "resource.k8s.io/v1beta2"),
    Case("emulation 1.35 stores v1beta2, for 1.33 to 1.35 know it", "1.35", None, CLAIM, "resource.k8s.io/v1beta2"),
    Case("emulation 1.36 stores v1", "1.36", None, CLAIM, "resource.k8s.io/v1"),
    Case("v1beta1 while 1.32 must be able to read", "1.37", "1.33", CLAIM, "resource.k8s.io/v1beta1"),
    Case("emulation 1.34 stores v1beta1 while it serves v1", "1.34", None, CLAIM, "resource.k8s.io/v1beta1"),
    Case("too young for the window: the newest at the emulation version", "1.33", None, CLAIM,
         "resource.k8s.io/v1beta2"),
    Case("too young for an old window: the newest at the emulation version", "1.37", "1.30", CLAIM,
         "resource.k8s.io/v1"),
    Case("a rule that only 1.37 knows as stable, too young for the window", "1.37", None, RULE, "resource.k8s.io/v1"),
    Case("a rule at 1.36 is beta", "1.36", None, RULE, "resource.k8s.io/v1beta2"),
    Case("a rule at 1.36 with the window up to 1.37 is beta", "1.36", "1.36", RULE, "resource.k8s.io/v1beta2"),
    Case("a rule with the window 1.36 to 1.38 is beta", "1.37", "1.37", RULE, "resource.k8s.io/v1beta2"),
    Case("a rule at 1.35 is alpha, there being nothing else", "1.35", None, RULE, "resource.k8s.io/v1alpha3"),
    Case("attributes classes at 1.34 are beta", "1.34", None, ATTRIBUTES, "storage.k8s.io/v1beta1"),
    Case("attributes classes are beta where 1.33 must read", "1.37", "1.34", ATTRIBUTES, "storage.k8s.io/v1beta1"),
    Case("attributes classes are stable by default", "1.37", None, ATTRIBUTES, "storage.k8s.io/v1"),
    Case("a kind with one version has no choice", "1.31", None, ("v1", "Pod"), "v1"),
    Case("events are stored in the core group", "1.37", None, ("events.k8s.io/v1", "Event"), "v1"),
]  # fmt: skip


def scheme_for(case: Case) -> Scheme:
    return Scheme(ComponentVersions.resolve(case.emulation, case.min_compatibility))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_storage_version(case: Case) -> None:
    scheme = scheme_for(case)
    kind = scheme.kind(*case.kind)
    assert kind is not None
    assert scheme.storage(kind).api_version == case.stored


def test_all_versions_of_a_kind_are_stored_in_the_same_one() -> None:
    scheme = Scheme(ComponentVersions.resolve("1.35", "1.33"))
    stored = {
        scheme.storage(kind).api_version
        for kind in KINDS
        if (kind.group, kind.kind) == ("resource.k8s.io", "ResourceClaim")
    }
    assert stored == {"resource.k8s.io/v1beta1"}


@pytest.mark.parametrize(
    ("emulation", "stored"),
    [pytest.param("1.35", "v1beta1", id="N-1 stores v1beta1"), pytest.param("1.36", "v1", id="N stores v1")],
)
def test_the_stored_version_changes_one_release_after_the_stable_one_is_known_everywhere(
    emulation: str, stored: str
) -> None:
    widgets = [
        Kind("tests.mooring.dev", version, "Widget", ControllerRevision, plural="widgets", lifecycle=life)
        for version, life in {"v1": since("1.34"), "v1beta1": since("1.30", "1.34", "1.40")}.items()
    ]
    scheme = Scheme(ComponentVersions.resolve(emulation), kinds=widgets)
    assert scheme.storage(widgets[0]).version == stored
