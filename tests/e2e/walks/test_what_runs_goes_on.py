"""All three gates off and on again over what is more than a pod: DaemonSets, NoExecute taints, volumes and claims.

``test_gate_walks.py`` walks through pods and Deployments, one gate at a time. Here everything that runs goes on while
the gates are off, except pods whose toleration of a NoExecute taint cannot be evaluated any more (5471.3c); what is
stored can still be used where no gate decides; and all is as before when the gates are on again.
"""

from pathlib import Path
from typing import Any

import pytest

from api_caller import PODS
from started_server import Start, Started, started

Tree = dict[str, Any]
pytestmark = pytest.mark.req("4330.13", "5471.3c", "5721.6", "5500.9")
NODES, DAEMONS = "/api/v1/nodes", "/apis/apps/v1/namespaces/default/daemonsets"
VOLUMES, VOLUME_CLAIMS = "/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims"
DEVICES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DEVICES}/namespaces/default/resourceclaims"
GATES = (
    "TaintTolerationComparisonOperators",
    "TolerationAffinitySemverOperators",
    "TaintTolerationNodeAffinityCEL",
)
ON, OFF = Start(), Start(gates=",".join(f"{gate}=false" for gate in GATES))
SEMVER = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10.0"]}]}
CEL = {"matchCELExpressions": ["node.labels['kernel'].startsWith('6.')"]}
TERMS: dict[str, Tree] = {"semver": SEMVER, "cel": CEL}
GT = {"key": "sla", "operator": "Gt", "value": "900"}


def node(name: str, **spec: Any) -> Tree:
    metadata = {
        "name": name,
        "labels": {"kernel": "6.1.0"},
        "annotations": {"simulation.mooring.dev/node": "true"},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}


def pod(name: str, **spec: Any) -> Tree:
    containers = [{"name": "c", "image": "img"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def daemon_set(name: str, term: Tree) -> Tree:
    labels = {"app": name}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = pod("", affinity={"nodeAffinity": required})["spec"]
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def volume(name: str, term: Tree) -> Tree:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "nfs": {"server": "s", "path": "/"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def volume_claim(name: str) -> Tree:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": name,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def with_volume(name: str, claim: str) -> Tree:
    return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])


def with_device(name: str, claim: str) -> Tree:
    return pod(name, resourceClaims=[{"name": "d", "resourceClaimName": claim}])


def device_claim(name: str) -> Tree:
    request = {"name": "d", "exactly": {"deviceClassName": "gpu", "tolerations": [GT]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }


async def devices(server: Started) -> None:
    """Two devices on the node `plain`, without taints."""
    kind = {"apiVersion": "resource.k8s.io/v1"}
    await server.create(f"{DEVICES}/deviceclasses", {**kind, "kind": "DeviceClass", "metadata": {"name": "gpu"}})
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example", "pool": pool, "nodeName": "plain", "devices": [{"name": "d0"}, {"name": "d1"}]}
    await server.create(
        f"{DEVICES}/resourceslices", {**kind, "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    )


async def phase(server: Started, name: str) -> str:
    code, found = await server.ask("GET", f"{PODS}/{name}")
    return found["status"]["phase"] if code == 200 else "gone"


async def runs(server: Started, *names: str) -> bool:
    return all([await phase(server, name) == "Running" for name in names])


async def daemons(server: Started) -> dict[str, set[str]]:
    """Return the uids of the pods of each DaemonSet that are not terminating."""
    found: dict[str, set[str]] = {name: set() for name in TERMS}
    for each in (await server.get(PODS))["items"]:
        name = each["metadata"].get("labels", {}).get("app")
        if name in found and "deletionTimestamp" not in each["metadata"]:
            found[name].add(each["metadata"]["uid"])
    return found


async def conditions(server: Started) -> list[list[str]]:
    status = [(await server.get(f"{DAEMONS}/{name}"))["status"] for name in TERMS]
    return [[each["type"] for each in found.get("conditions", ())] for found in status]


async def begin(server: Started) -> None:
    """With the gates on: a pod for each thing that uses one runs, and a claim waits for its first pod."""
    await server.create(NODES, node("plain"))
    strict = {"key": "sla", "value": "950", "effect": "NoExecute"}
    await server.create(NODES, node("strict", taints=[strict]))
    await devices(server)
    for name, term in TERMS.items():
        await server.create(DAEMONS, daemon_set(name, term))
        await server.create(VOLUMES, volume(name, term))
        await server.create(VOLUME_CLAIMS, volume_claim(name))
        await server.create(PODS, with_volume(f"volume-{name}", name))
    for name in ("first", "second"):
        await server.create(CLAIMS, device_claim(name))
    await server.create(PODS, with_device("device-first", "first"))
    tolerant = {"tolerations": [GT], "nodeSelector": {"kubernetes.io/hostname": "strict"}}
    await server.create(PODS, pod("tolerant", **tolerant))
    await server.until(lambda: runs(server, "volume-semver", "volume-cel", "device-first", "tolerant"))

    async def both() -> bool:
        return all(len(uids) == 1 for uids in (await daemons(server)).values())

    await server.until(both)


async def test_everything_that_runs_goes_on_and_all_is_as_before_afterwards(tmp_path: Path) -> None:
    async with started(tmp_path, ON, workers=ON) as server:
        await begin(server)
        before = await daemons(server)

    async with started(tmp_path, OFF, workers=OFF) as server:
        await server.until(lambda: _is(server, "tolerant", "gone"))  # no pod tolerates the taint any more
        await server.create(NODES, node("fresh"))
        await server.create(PODS, with_device("device-second", "second"))
        await server.until(lambda: runs(server, "device-second"))  # no taint asks for the toleration
        await server.create(PODS, with_volume("again", "semver"))

        async def is_reported() -> bool:
            return await conditions(server) == [["NodeAffinityNotJudged"]] * 2

        await server.until(is_reported)
        assert await daemons(server) == before
        assert await runs(server, "volume-semver", "volume-cel", "device-first")
        assert await phase(server, "again") == "Pending"

    async with started(tmp_path, ON, workers=ON) as server:
        await server.until(lambda: runs(server, "again"))

        async def grown() -> bool:
            return all(len(uids) == 2 for uids in (await daemons(server)).values())

        await server.until(grown)
        found = await daemons(server)
        assert all(before[name] <= found[name] for name in TERMS)
        assert await conditions(server) == [[], []]


async def _is(server: Started, name: str, wanted: str) -> bool:
    return await phase(server, name) == wanted
