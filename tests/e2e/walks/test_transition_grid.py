"""The transition grid of KEP-4330's test plan, cell by cell, on started servers.

N is the version in which something changes; every row has a cell for emulation version N-1 and one for N. Where no
real gate or kind changes so, the test registers a real one with another history. Two cells differ from the proposal:
an alpha feature cannot be had at N-1 either, and a function that is unknown at N-1 works in stored expressions.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from api_caller import PODS, pod
from mooring.api.kinds import KINDS, Kind
from mooring.api.lifecycles import since
from mooring.api.scheme import SchemeError
from mooring.base.gates import Gate, GateError, Spec, Stage
from mooring.base.known_gates import COMPARISON_OPERATORS, KNOWN, LABEL_KEYS_IN_POD_AFFINITY, SEMVER_OPERATORS
from mooring.base.version import Version
from mooring.cli.commands.apiserver import apiserver
from started_server import Start, Started, started

pytestmark = pytest.mark.req("4330.3")
NO_ALPHA = "alpha features are not available under emulation"


# -- features


@dataclass(frozen=True)
class Feature:
    """A cell about a feature: whether it is on, or why the server does not start."""

    id: str
    gate: str
    start: Start
    outcome: bool | str


def registered(*history: Spec) -> tuple[Gate, ...]:
    """Return the gates there are, the one for label keys with another history."""
    return tuple(replace(gate, history=history) if gate.name == LABEL_KEYS_IN_POD_AFFINITY else gate for gate in KNOWN)


def features(
    row: str, gate: str, *cells: tuple[str, str, bool | str], known: tuple[Gate, ...] = KNOWN
) -> list[Feature]:
    """Cells of one row: the emulation version, what `--feature-gates` says about the gate, and what comes of it."""
    return [
        Feature(
            f"{row}: {version} {switch or 'unset'}",
            gate,
            Start(emulation=version, gates=f"{gate}={switch}" if switch else "", known=known),
            outcome,
        )
        for version, switch, outcome in cells
    ]


NEW_ALPHA = registered(Spec(Version(1, 37), False, Stage.ALPHA))
ENDING_BETA = registered(Spec(Version(1, 30), True, Stage.BETA), Spec(Version(1, 37), False, Stage.REMOVED))
FEATURES = [
    *features(
        "alpha feature introduced",
        SEMVER_OPERATORS,
        ("1.35", "", False),
        ("1.35", "true", "does not exist at emulation version 1.35"),
        ("1.36", "", False),
        ("1.36", "true", NO_ALPHA),
    ),
    *features(
        "alpha feature introduced in this binary",
        LABEL_KEYS_IN_POD_AFFINITY,
        ("1.36", "", False),
        ("1.36", "true", "does not exist at emulation version 1.36"),
        ("1.37", "", False),
        ("1.37", "true", True),
        known=NEW_ALPHA,
    ),
    *features(
        "alpha feature graduated to beta",
        COMPARISON_OPERATORS,
        ("1.36", "", False),
        ("1.36", "true", NO_ALPHA),
        ("1.37", "", True),
        ("1.37", "false", False),
    ),
    *features(
        "beta feature graduated to GA",
        LABEL_KEYS_IN_POD_AFFINITY,
        ("1.32", "", True),
        ("1.32", "false", False),
        ("1.33", "", True),
        ("1.33", "true", True),
        ("1.33", "false", "feature is locked to true"),
    ),
    *features(
        "beta feature removed",
        LABEL_KEYS_IN_POD_AFFINITY,
        ("1.36", "", True),
        ("1.36", "false", False),
        ("1.37", "", False),
        ("1.37", "true", "was removed in 1.37"),
        known=ENDING_BETA,
    ),
]


@pytest.mark.parametrize("cell", FEATURES, ids=lambda cell: cell.id)
async def test_features(cell: Feature, tmp_path: Path) -> None:
    if isinstance(cell.outcome, str):
        with pytest.raises(GateError, match=cell.outcome):
            async with started(tmp_path, cell.start):
                pass
        return
    async with started(tmp_path, cell.start) as server:
        assert await has_feature(server, cell.gate) is cell.outcome


async def has_feature(server: Started, gate: str) -> bool:
    """Whether the server does what a gate switches."""
    if gate == LABEL_KEYS_IN_POD_AFFINITY:
        return await merges_label_keys(server)
    operator, value = ("SemverGt", "1.2.3") if gate == SEMVER_OPERATORS else ("Gt", "5")
    tolerations = [{"key": "a", "operator": operator, "value": value}]
    code, said = await server.ask("POST", PODS, pod(tolerations=tolerations))
    assert code == 201 or "Unsupported value" in said["message"], said
    return code == 201


async def merges_label_keys(server: Started) -> bool:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["revision"]}
    body = pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    body["metadata"]["labels"] = {"app": "web", "revision": "7"}
    made = await server.create(PODS, body)
    [made_term] = made["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return "matchExpressions" in made_term["labelSelector"]


# -- APIs


@dataclass(frozen=True)
class Api:
    """A cell about an API: whether it is served, or why the server does not start."""

    id: str
    start: Start
    path: str
    outcome: bool | str


def apis(
    row: str,
    group: str,
    version: str,
    resource: str,
    *cells: tuple[str, str, bool | str],
    kinds: tuple[Kind, ...] = KINDS,
) -> list[Api]:
    """Cells of one row: the emulation version, what `--runtime-config` says about the API, and what comes of it."""
    return [
        Api(
            f"{row}: {emulation} {switch or 'unset'}",
            Start(emulation=emulation, runtime_config=f"{group}/{version}={switch}" if switch else "", kinds=kinds),
            f"/apis/{group}/{version}/{resource}",
            outcome,
        )
        for emulation, switch, outcome in cells
    ]


def is_old_beta(kind: Kind) -> bool:
    return (kind.version, kind.kind) == ("v1beta1", "VolumeAttributesClass")


ON_BY_DEFAULT_BETA = tuple(
    dataclasses.replace(kind, lifecycle=since("1.22", "1.34", "1.37")) if is_old_beta(kind) else kind for kind in KINDS
)
ATTRIBUTES = "volumeattributesclasses"
APIS = [
    *apis(
        "alpha API introduced",
        "resource.k8s.io",
        "v1alpha3",
        "devicetaintrules",
        ("1.32", "", False),
        ("1.32", "true", "is alpha and cannot be switched on at emulation version 1.32"),
        ("1.33", "", False),
        ("1.33", "true", "is alpha and cannot be switched on at emulation version 1.33"),
        ("1.37", "", False),
        ("1.37", "true", True),
    ),
    *apis(
        "beta API graduated to GA, its beta version",
        "resource.k8s.io",
        "v1beta2",
        "resourceclaims",
        ("1.33", "", False),
        ("1.33", "true", True),
    ),
    *apis(
        "beta API graduated to GA",
        "resource.k8s.io",
        "v1",
        "resourceclaims",
        ("1.33", "", False),
        ("1.33", "true", False),
        ("1.34", "", True),
    ),
    *apis(
        "beta API removed",
        "storage.k8s.io",
        "v1beta1",
        ATTRIBUTES,
        ("1.36", "", False),
        ("1.36", "true", True),
        ("1.37", "", False),
        ("1.37", "true", False),
    ),
    *apis(
        "on-by-default beta API removed",
        "storage.k8s.io",
        "v1beta1",
        ATTRIBUTES,
        ("1.36", "", True),
        ("1.36", "false", False),
        ("1.37", "", False),
        ("1.37", "true", False),
        kinds=ON_BY_DEFAULT_BETA,
    ),
]


@pytest.mark.req("4330.4")
@pytest.mark.parametrize("cell", APIS, ids=lambda cell: cell.id)
async def test_apis(cell: Api, tmp_path: Path) -> None:
    if isinstance(cell.outcome, str):
        with pytest.raises(SchemeError, match=cell.outcome):
            async with started(tmp_path, cell.start):
                pass
        return
    async with started(tmp_path, cell.start) as server:
        code, _ = await server.ask("GET", cell.path)
        assert code == (200 if cell.outcome else 404)
        version, _, resource = cell.path.rpartition("/")
        _, found = await server.ask("GET", version)
        assert (resource in {each["name"] for each in found.get("resources", ())}) is cell.outcome
        _, openapi = await server.ask("GET", "/openapi/v3")
        assert (version.strip("/") in openapi["paths"]) is (code == 200 or bool(found.get("resources")))


# -- storage versions


@pytest.mark.req("4330.5")
@pytest.mark.parametrize(("emulation", "stored"), [("1.35", "v1beta1"), ("1.36", "v1")])
async def test_storage_version_changed(emulation: str, stored: str, tmp_path: Path) -> None:
    async with started(tmp_path, Start(emulation=emulation)) as server:
        body = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttributesClass",
            "metadata": {"name": "fast"},
            "driverName": "storage.example",
            "parameters": {"iops": "9000"},
        }
        made = await server.create(f"/apis/storage.k8s.io/v1/{ATTRIBUTES}", body)
        assert made["apiVersion"] == "storage.k8s.io/v1"
        kept = await server.stored(f"/registry/{ATTRIBUTES}/fast")
        assert kept["apiVersion"] == f"storage.k8s.io/{stored}"


# -- functions of CEL, in the selectors of claims for devices


@dataclass(frozen=True)
class Function:
    """A cell about a function: whether new expressions may use it. Stored ones may, always."""

    id: str
    expression: str
    emulation: str
    may_be_written: bool


SINCE_37 = "[1].includes(1)"
SINCE_34 = "[3, 1].sort()[0] == 1"
FUNCTIONS = [
    Function("new function: 1.36 does not know it", SINCE_37, "1.36", False),
    Function("new function: 1.37 knows it in stored expressions", SINCE_37, "1.37", False),
    Function("introduced function: 1.34 knows it in stored expressions", SINCE_34, "1.34", False),
    Function("introduced function: 1.35 knows it in new expressions", SINCE_34, "1.35", True),
]
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
NEWEST = Start(emulation="1.37", min_compatibility="1.37")


@pytest.mark.req("4330.6")
@pytest.mark.parametrize("cell", FUNCTIONS, ids=lambda cell: cell.id)
async def test_functions_of_cel(cell: Function, tmp_path: Path) -> None:
    async with started(tmp_path, NEWEST) as server:
        await add_device(server)
        await server.create(CLAIMS, claim("stored", cell.expression))
    start = Start(emulation=cell.emulation)
    async with started(tmp_path, start, workers=start, controllers=False) as server:
        code, said = await server.ask("POST", CLAIMS, claim("new", cell.expression))
        assert code == (201 if cell.may_be_written else 422), said
        assert cell.may_be_written or "undeclared reference" in said["message"]
        uses = {"resourceClaims": [{"name": "device", "resourceClaimName": "stored"}]}
        await server.create(PODS, pod("user", **uses))

        async def is_placed() -> bool:
            return "nodeName" in (await server.get(f"{PODS}/user"))["spec"]

        await server.until(is_placed)


def claim(name: str, expression: str) -> dict[str, Any]:
    exactly = {"deviceClassName": "any", "selectors": [{"cel": {"expression": expression}}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


async def add_device(server: Started) -> None:
    """Add a node with a device, and a class for it."""
    api = {"apiVersion": "resource.k8s.io/v1"}
    pool = {"name": "node", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "example.com", "nodeName": "node", "pool": pool, "devices": [{"name": "d"}]}
    await server.create(
        "/apis/resource.k8s.io/v1/deviceclasses",
        {**api, "kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}},
    )
    await server.create(
        "/apis/resource.k8s.io/v1/resourceslices",
        {**api, "kind": "ResourceSlice", "metadata": {"name": "node"}, "spec": spec},
    )
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node"},
        "status": {"capacity": capacity, "allocatable": capacity},
    }
    node = await server.create("/api/v1/nodes", body)
    node["spec"]["taints"] = []  # that of new nodes, which a controller removes
    code, said = await server.ask("PUT", "/api/v1/nodes/node", node)
    assert code == 200, said


# -- the other cases of the plan


@pytest.mark.req("4330.1")
@pytest.mark.parametrize("version", ["1.26", "1.38"])
def test_a_version_out_of_range_ends_the_program(version: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(apiserver, ["--data-dir", str(tmp_path), "--emulation-version", version])
    assert done.exit_code == 2
    assert "1.27" in done.output
    assert "1.37" in done.output


@dataclass(frozen=True)
class Newer:
    """Something that the previous release has to understand before it may be written."""

    id: str
    spec: dict[str, Any]
    emulation: str
    outcome: bool


SE_LINUX = {"securityContext": {"seLinuxChangePolicy": "Recursive"}}
ENV_NAME = {"containers": [{"name": "c", "image": "img", "env": [{"name": "a!b", "value": "x"}]}]}
NEWER = [
    Newer("a field of 1.32 at 1.32", SE_LINUX, "1.32", False),
    Newer("a field of 1.32 at 1.33", SE_LINUX, "1.33", True),
    Newer("validation relaxed in 1.32 at 1.32", ENV_NAME, "1.32", False),
    Newer("validation relaxed in 1.32 at 1.33", ENV_NAME, "1.33", True),
]


@pytest.mark.req("4330.7")
@pytest.mark.parametrize("cell", NEWER, ids=lambda cell: cell.id)
async def test_what_the_previous_release_does_not_understand_is_not_written(cell: Newer, tmp_path: Path) -> None:
    async with started(tmp_path, Start(emulation=cell.emulation)) as server:
        code, said = await server.ask("POST", PODS, pod(**cell.spec))
        assert code == (201 if cell.outcome else 422), said
