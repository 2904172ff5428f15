"""What is served at which version, what `--runtime-config` switches, and what lookups and discovery give."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from mooring.api import apps_v1, resource_v1beta1
from mooring.api.codec import decode_kind
from mooring.api.kinds import KINDS, GroupVersion, Kind, rank
from mooring.api.lifecycles import since
from mooring.api.scheme import Scheme, SchemeError, parse_runtime_config
from mooring.base.version import ComponentVersions


def scheme_at(emulation: str | None = None, runtime_config: str = "", *, extra: tuple[Kind, ...] = ()) -> Scheme:
    versions = ComponentVersions.resolve(emulation)
    return Scheme(versions, parse_runtime_config(runtime_config), (*KINDS, *extra))


@dataclass(frozen=True)
class Served:
    id: str
    emulation: str
    runtime_config: str
    group: str
    versions: Mapping[str, set[str]] = field(default_factory=dict)
    """Version to plural names; what is not named must not be served."""


CLAIMS = {"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"}
TAINTS = {"devicetaintrules"}

PODS_CERTIFICATES = "podcertificaterequests"
REQUESTS, TRUST = {"certificatesigningrequests"}, {"clustertrustbundles"}

SERVED = [
    Served("pods' certificates are beta from 1.35 and off", "1.35", "", "certificates.k8s.io", {"v1": REQUESTS}),
    Served("pods' certificates are switched on before 1.37", "1.36", "certificates.k8s.io/v1beta1=true",
           "certificates.k8s.io", {"v1": REQUESTS, "v1beta1": TRUST | {PODS_CERTIFICATES}}),
    Served("pods' certificates are stable from 1.37", "1.37", "", "certificates.k8s.io", {
        "v1": REQUESTS | TRUST | {PODS_CERTIFICATES},
    }),
    Served("devices do not exist before 1.32", "1.31", "api/all=true", "resource.k8s.io"),
    Served("a new beta version is off by default", "1.32", "", "resource.k8s.io"),
    Served("a beta version is switched on by name", "1.32", "resource.k8s.io/v1beta1=true", "resource.k8s.io", {
        "v1beta1": CLAIMS,
    }),
    Served("a key without a value switches on", "1.33", "resource.k8s.io/v1beta2", "resource.k8s.io", {
        "v1beta2": CLAIMS,
    }),
    Served("api/beta switches on all beta versions there are", "1.33", "api/beta=true", "resource.k8s.io", {
        "v1beta2": CLAIMS, "v1beta1": CLAIMS,
    }),
    Served("the stable version is on from its release", "1.34", "", "resource.k8s.io", {"v1": CLAIMS}),
    Served("a kind can come later than its group-version", "1.36", "", "resource.k8s.io", {"v1": CLAIMS}),
    Served("the newest release has everything stable", "1.37", "", "resource.k8s.io", {"v1": CLAIMS | TAINTS}),
    Served("a beta kind joins an older beta version", "1.36", "resource.k8s.io/v1beta2=true", "resource.k8s.io", {
        "v1": CLAIMS, "v1beta2": CLAIMS | TAINTS,
    }),
    Served("alpha is switched on by name at the binary version", "1.37", "resource.k8s.io/v1alpha3=true",
           "resource.k8s.io", {"v1": CLAIMS | TAINTS, "v1alpha3": TAINTS}),
    Served("api/alpha switches on alpha at the binary version", "1.37", "api/alpha=true", "resource.k8s.io", {
        "v1": CLAIMS | TAINTS, "v1alpha3": TAINTS,
    }),
    Served("api/all leaves alpha off while emulating", "1.36", "api/all=true", "resource.k8s.io", {
        "v1": CLAIMS, "v1beta2": CLAIMS | TAINTS, "v1beta1": CLAIMS,
    }),
    Served("one resource of a version is switched on alone", "1.33", "resource.k8s.io/v1beta2/deviceclasses=true",
           "resource.k8s.io", {"v1beta2": {"deviceclasses"}}),
    Served("one resource of a version is switched off alone", "1.34", "resource.k8s.io/v1/resourceslices=false",
           "resource.k8s.io", {"v1": CLAIMS - {"resourceslices"}}),
    Served("a resource's switch beats its version's", "1.33",
           "resource.k8s.io/v1beta2/deviceclasses=false,resource.k8s.io/v1beta2=true", "resource.k8s.io",
           {"v1beta2": CLAIMS - {"deviceclasses"}}),
    Served("a version's switch beats its level's", "1.34", "api/beta=true,resource.k8s.io/v1beta1=false",
           "resource.k8s.io", {"v1": CLAIMS, "v1beta2": CLAIMS}),
    Served("a level's switch beats api/all", "1.34", "api/all=true,api/beta=false", "resource.k8s.io", {"v1": CLAIMS}),
    Served("a stable version can be switched off", "1.37", "policy/v1=false", "policy"),
    Served("api/all=false with an exception leaves only that", "1.37", "api/all=false,apps/v1=true", "policy"),
    Served("beta attributes classes exist up to 1.36", "1.36", "storage.k8s.io/v1beta1=true", "storage.k8s.io", {
        "v1": {"csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments",
               "volumeattributesclasses"},
        "v1beta1": {"volumeattributesclasses"},
    }),
    Served("beta attributes classes are gone in 1.37", "1.37", "storage.k8s.io/v1beta1=true", "storage.k8s.io", {
        "v1": {"csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments",
               "volumeattributesclasses"},
    }),
    Served("stable attributes classes do not exist before 1.34", "1.33", "", "storage.k8s.io", {
        "v1": {"csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"},
    }),
    Served("a kind for subresources alone is not listed", "1.37", "", "autoscaling", {
        "v1": {"horizontalpodautoscalers"},
        "v2": {"horizontalpodautoscalers"},
    }),
]  # fmt: skip


@pytest.mark.req("4330.4")
@pytest.mark.parametrize("case", SERVED, ids=lambda case: case.id)
def test_what_is_served(case: Served) -> None:
    scheme = scheme_at(case.emulation, case.runtime_config)
    served = {
        version: {kind.plural for kind in scheme.resources(case.group, version)}
        for version in scheme.versions(case.group)
    }
    assert served == case.versions
    assert (case.group in scheme.groups) == bool(case.versions)


@dataclass(frozen=True)
class Refused:
    id: str
    emulation: str
    runtime_config: str
    says: str


REFUSED = [
    Refused("alpha by name while emulating", "1.36", "resource.k8s.io/v1alpha3=true",
            "resource.k8s.io/v1alpha3 is alpha and cannot be switched on at emulation version 1.36"),
    Refused("one alpha resource while emulating", "1.36", "resource.k8s.io/v1alpha3/devicetaintrules=true",
            "is alpha and cannot be switched on"),
    Refused("api/alpha while emulating", "1.36", "api/alpha=true", "api/alpha is alpha"),
    Refused("an unknown group", "1.37", "nope.k8s.io/v1=true",
            "unknown API group; known are admissionregistration.k8s.io,"),
    Refused("an unknown version", "1.37", "resource.k8s.io/v1beta9=true",
            "unknown version; known are v1, v1beta2, v1beta1, v1alpha3"),
    Refused("an unknown resource", "1.37", "policy/v1/evictions=true",
            "unknown resource; known are poddisruptionbudgets"),
    Refused("a value that is neither true nor false", "1.37", "apps/v1=maybe", '"maybe" is not a value for apps/v1'),
    Refused("a value without a key", "1.37", "=true", "names no API"),
    Refused("a key that is only a group", "1.37", "apps=true", "names no API"),
    Refused("a key with too many parts", "1.37", "apps/v1/deployments/scale=true", "names no API"),
    Refused("nothing left", "1.37", "api/all=false", "leaves nothing to serve"),
]  # fmt: skip


@pytest.mark.req("4330.4")
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_what_runtime_config_refuses(case: Refused) -> None:
    with pytest.raises(SchemeError) as refused:
        scheme_at(case.emulation, case.runtime_config)
    assert case.says in str(refused.value)


@pytest.mark.parametrize("key", ["v1", "api/v1"])
def test_the_core_group_is_switched_by_its_version(key: str) -> None:
    assert "" not in scheme_at(runtime_config=f"{key}=false").groups


def test_one_resource_of_the_core_group_is_switched_off() -> None:
    assert scheme_at(runtime_config="v1/endpoints=false").resource("", "v1", "endpoints") is None


def test_switching_alpha_off_is_fine_while_emulating() -> None:
    assert scheme_at("1.36", "api/alpha=false").warnings == ()


@dataclass(frozen=True)
class Warned:
    id: str
    emulation: str
    runtime_config: str
    warning: str


WARNED = [
    Warned("a version that is not there yet", "1.31", "resource.k8s.io/v1beta1=true",
           "resource.k8s.io/v1beta1 does not exist at 1.31: introduced in 1.32, removed in 1.38"),
    Warned("a version that is gone", "1.37", "storage.k8s.io/v1beta1=true",
           "storage.k8s.io/v1beta1 does not exist at 1.37: introduced in 1.31, removed in 1.37"),
    Warned("a resource that is not there yet", "1.36", "resource.k8s.io/v1/devicetaintrules=true",
           "resource.k8s.io/v1/devicetaintrules does not exist at 1.36: introduced in 1.37"),
]  # fmt: skip


@pytest.mark.req("4330.4")
@pytest.mark.parametrize("case", WARNED, ids=lambda case: case.id)
def test_switching_on_what_does_not_exist_only_warns(case: Warned) -> None:
    assert scheme_at(case.emulation, case.runtime_config).warnings == (f"--runtime-config: {case.warning}",)


def registered(version: str, introduced: str, deprecated: str = "", removed: str = "") -> Kind:
    """Return a kind of a test's own, for lifecycles that no real kind has."""
    return Kind(
        "tests.mooring.dev",
        version,
        "Widget",
        apps_v1.ControllerRevision,
        "widgets",
        lifecycle=since(introduced, deprecated, removed),
    )


@pytest.mark.req("4330.4")
@pytest.mark.parametrize(
    ("emulation", "runtime_config", "served"),
    [
        pytest.param("1.36", "", ("v1beta1",), id="on by default before its removal"),
        pytest.param("1.36", "tests.mooring.dev/v1beta1=false", (), id="switched off before its removal"),
        pytest.param("1.37", "", (), id="gone after its removal"),
        pytest.param("1.37", "tests.mooring.dev/v1beta1=true", (), id="gone after its removal, switch or not"),
    ],
)
def test_a_beta_version_from_before_1_24_is_on_by_default(
    emulation: str, runtime_config: str, served: tuple[str, ...]
) -> None:
    old = registered("v1beta1", "1.23", "1.26", "1.37")
    assert scheme_at(emulation, runtime_config, extra=(old,)).versions("tests.mooring.dev") == served


def test_lookups_find_known_kinds_even_where_they_are_not_served() -> None:
    scheme = scheme_at()
    claim = scheme.kind("resource.k8s.io/v1beta1", "ResourceClaim")
    assert claim is not None
    assert claim.type is resource_v1beta1.ResourceClaim
    assert not scheme.is_served(claim)
    assert scheme.resource("resource.k8s.io", "v1beta1", "resourceclaims") is None


def test_bytes_are_decoded_by_what_they_say_they_are() -> None:
    body = b'{"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "metadata": {"name": "c"}}'
    assert type(decode_kind(body, scheme_at().type_of).object) is resource_v1beta1.ResourceClaim


def test_kinds_that_only_appear_in_subresources_are_known() -> None:
    scheme = scheme_at()
    eviction = scheme.kind("policy/v1", "Eviction")
    assert eviction is not None
    assert scheme.is_served(eviction)
    assert eviction.plural == ""
    assert not eviction.stored


def test_an_object_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(SchemeError, match='no kind "Gadget" is registered for version "apps/v1"'):
        scheme_at().kind_of(apps_v1.Deployment(api_version="apps/v1", kind="Gadget"))


def test_groups_come_in_the_order_of_preference_and_versions_newest_first() -> None:
    scheme = scheme_at("1.37", "api/all=true", extra=(registered("v1", "1.30"),))
    assert scheme.groups[:4] == ("", "apiregistration.k8s.io", "apps", "events.k8s.io")
    assert scheme.groups[-3:] == ("resource.k8s.io", "storagemigration.k8s.io", "tests.mooring.dev")
    assert scheme.versions("resource.k8s.io") == ("v1", "v1beta2", "v1beta1", "v1alpha3")


def test_versions_rank_as_kubernetes_ranks_them() -> None:
    versions = ["v1alpha3", "v2beta1", "v10", "v1beta10", "v1", "v1beta2", "v2"]
    assert sorted(versions, key=rank, reverse=True) == ["v10", "v2", "v1", "v2beta1", "v1beta10", "v1beta2", "v1alpha3"]


def test_group_versions_are_read_and_written() -> None:
    assert GroupVersion.parse("v1") == GroupVersion("", "v1")
    assert GroupVersion.parse("apps/v1").api_version == "apps/v1"


@dataclass(frozen=True)
class Deprecated:
    id: str
    emulation: str
    api_version: str
    kind: str
    warning: str | None


DEPRECATED = [
    Deprecated("a deprecated version names its replacement", "1.37", "storagemigration.k8s.io/v1beta1",
               "StorageVersionMigration", "storagemigration.k8s.io/v1beta1 StorageVersionMigration is deprecated in"
               " v1.37+, unavailable in v1.40+; use storagemigration.k8s.io/v1 StorageVersionMigration"),
    Deprecated("unless Kubernetes names none", "1.36", "resource.k8s.io/v1beta2", "ResourceClaim",
               "resource.k8s.io/v1beta2 ResourceClaim is deprecated in v1.36+, unavailable in v1.39+"),
    Deprecated("no warning before the deprecation", "1.35", "resource.k8s.io/v1beta2", "ResourceClaim", None),
    Deprecated("a stable kind is not deprecated", "1.37", "apps/v1", "Deployment", None),
]  # fmt: skip


@pytest.mark.req("4330.4")
@pytest.mark.parametrize("case", DEPRECATED, ids=lambda case: case.id)
def test_deprecated_kinds_are_warned_about(case: Deprecated) -> None:
    scheme = scheme_at(case.emulation)
    kind = scheme.kind(case.api_version, case.kind)
    assert kind is not None
    assert scheme.deprecation_warning(kind) == case.warning


def test_a_version_of_another_shape_needs_a_conversion() -> None:
    odd = Kind("apps", "v1beta1", "Deployment", apps_v1.ReplicaSet, plural="deployments")
    with pytest.raises(SchemeError, match="apps/v1beta1 Deployment has another shape than apps/v1 and no conversion"):
        scheme_at(extra=(odd,))


@pytest.mark.req("4330.4")
@pytest.mark.parametrize(("emulation", "there"), [("1.31", False), ("1.32", True)])
def test_a_subresource_comes_with_its_release_and_the_kind_stays_the_same(emulation: str, there: bool) -> None:
    pods = scheme_at(emulation).resource("", "v1", "pods")
    newest = scheme_at().resource("", "v1", "pods")
    assert pods is not None
    assert newest is not None
    assert (pods.subresource("resize") is not None) == there
    assert scheme_at(emulation).is_served(newest)
    assert scheme_at().is_served(pods)
