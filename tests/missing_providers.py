"""Situations in which something beside the API is missing: an image, a DRA driver, a provisioner, a free claim."""

from collections.abc import Sequence
from typing import Any

from advice_situations import (
    FULL,
    SMALL,
    WORKERS,
    Situation,
    Tree,
    app,
    asking,
    claim,
    claiming,
    clock,
    container,
    container_status,
    selecting,
    storage_class,
    volume,
    waiting,
    workload,
)
from mooring.api.apps_v1 import DaemonSet, ReplicaSet, StatefulSet
from mooring.api.base import copy_of
from mooring.api.core_v1 import PersistentVolume, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from mooring.api.storage_v1 import CSIDriver
from mooring.testing.builders import made, node, pod

NOT_FOUND = 'Back-off pulling image: ErrImagePull: "not found"'
DENIED = "pull access denied, repository does not exist or may require authorization"


def failing(message: str = NOT_FOUND) -> dict[str, Any]:
    return waiting("ImagePullBackOff", message)


def running_image(name: str, image: str, secret: str = "", namespace: str = "default") -> Resource:
    """Return a pod that runs an image, which it may have pulled with a Secret."""
    status = {"name": "c", "image": image, "imageID": f"{image}@sha256:1", "ready": True, "restartCount": 0}
    status["state"] = {"running": {"startedAt": "2026-11-18T11:00:00Z"}}
    spec: dict[str, Any] = {"containers": [container(image=image)]}
    if secret:
        spec["imagePullSecrets"] = [{"name": secret}]
    found = pod(name, on="n1", spec=spec, status={"phase": "Running", "containerStatuses": [status]})
    found.metadata.namespace = namespace
    return found


def of_image(image: str, *secrets: str) -> Tree:
    return {"containers": [container(image=image)], "imagePullSecrets": [{"name": each} for each in secrets]}


def device_class(name: str, driver: str) -> Resource:
    selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
    return made(DeviceClass, {"metadata": {"name": name}, "spec": {"selectors": [selector]}})


def devices_of(driver: str, count: int = 2, on: str = "n0") -> Resource:
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": on, "pool": pool, "devices": [{"name": f"d{each}"} for each in range(count)]}
    return made(ResourceSlice, {"metadata": {"name": f"{on}-devices"}, "spec": spec})


def asking_for(device_class_name: str, count: int = 1) -> list[Resource]:
    """Return a Deployment that asks for devices, with the template and the claims of its pods."""
    exactly = {"deviceClassName": device_class_name, "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    template = made(
        ResourceClaimTemplate, {"metadata": {"name": "gpu", "namespace": "default"}, "spec": {"spec": spec}}
    )
    found: list[Resource] = [template]
    use = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
    for each in app("web", count, use, pod_status={"phase": "Pending"}):
        if isinstance(each, Pod):
            name = each.metadata.name
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"p-{name}", "controller": True}
            annotations = {"resource.kubernetes.io/pod-claim-name": "gpu"}
            meta = {"name": f"{name}-gpu", "namespace": "default", "uid": f"c-{name}", "annotations": annotations}
            found.append(made(ResourceClaim, {"metadata": {**meta, "ownerReferences": [owner]}, "spec": spec}))
            tree = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}], "phase": "Pending"}
            each.status = made(Pod, {"metadata": {"name": name}, "spec": {"containers": []}, "status": tree}).status
        found.append(each)
    return found


def simulated(nodes: Sequence[Resource]) -> list[Resource]:
    found = [copy_of(each) for each in nodes]
    for each in found:
        each.metadata.annotations["simulation.mooring.dev/node"] = "true"
    return found


def driver(name: str) -> Resource:
    return made(CSIDriver, {"metadata": {"name": name}})


def waiting_claim(name: str, of_class: str) -> Resource:
    return claim(name, of_class, annotations={"volume.kubernetes.io/selected-node": "n1"})


def one_pod(name: str, of_class: str = "") -> list[Resource]:
    """Return a claim that one pod at a time may use, and its volume."""
    modes = ["ReadWriteOncePod"]
    bound = volume("pv", storage_class=of_class)
    assert isinstance(bound, PersistentVolume)
    bound.spec.access_modes = modes
    return [bound, claim(name, of_class, volumeName="pv", accessModes=modes)]


def holding(name: str, claim_name: str, on: str = "n1") -> Resource:
    return pod(name, on=on, labels={"app": name}, spec=claiming(claim_name), status={"phase": "Running"})


NUMBERED: dict[str, Any] = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    },
}
STARTED = waiting("ContainerCreating")
UNUSED_NODE = made(
    type(node("n")),
    {
        "metadata": {"name": "n9"},
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "capacity": {"cpu": "4"},
            "images": [{"names": ["docker.io/library/app@sha256:1", "docker.io/library/app:0"], "sizeBytes": 1}],
        },
    },
)

NOT_AVAILABLE = {"availableReplicas": 0}
NGINX = running_image("other", "nginx:1.25")
ELSEWHERE = running_image("elsewhere", "example.com/team/app:1")
SELECTS_NOTHING = "seems to run the DRA driver, and its node selector or affinity matches no node"

MISSING_PROVIDERS = [
    # -- images
    Situation(
        "the repository of an image is misspelled",
        [
            *WORKERS,
            NGINX,
            *app("web", 2, of_image("ngnix:1.25"), on=["n0", "n1"], pod_status=failing()),
        ],
        ("deployment", "web"),
        "ImagePullBackOff",
        ["the image ngnix:1.25 of container c cannot be pulled", "did you mean `nginx:1.25`?"],
        words_of_remedy="correct image ngnix:1.25 to nginx:1.25",
    ),
    Situation(
        "the registry of an image is missing",
        [
            *WORKERS,
            ELSEWHERE,
            *app("web", 2, on=["n0", "n1"], pod_status=failing()),
        ],
        ("deployment", "web"),
        "ImagePullBackOff",
        ["did you mean `example.com/team/app:1`?"],
        words_of_remedy="correct image app:1 to example.com/team/app:1",
    ),
    Situation(
        "a tag does not exist, and another one is on a node",
        [*WORKERS, UNUSED_NODE, *app("web", 3, on=["n0", "n1", "n2"], pod_status=failing())],
        ("deployment", "web"),
        "ImagePullBackOff",
        ["the image app:1 of container c cannot be pulled"],
        words_of_remedy="run image app:0, which node n9 has, instead of app:1",
    ),
    Situation(
        "a new image cannot be pulled, and no pod of the revision before is left",
        [
            *WORKERS,
            UNUSED_NODE,
            *[
                each
                for each in app("web", 2, on=["n0", "n1"], old_on=["n2"], pod_status=failing(), status=NOT_AVAILABLE)
                if each.metadata.name != "web-h1-0"
            ],
        ],
        ("deployment", "web"),
        "ImagePullBackOff",
        ["the image app:1 of container c cannot be pulled"],
        words_of_remedy="roll deployment web back to the revision before",
    ),
    Situation(
        "the image of a stateful set is misspelled",
        [
            *WORKERS,
            running_image("other", "postgres:16"),
            *workload(StatefulSet, "db", of_image("postgers:16"), on=["n0"], exists=1, replicas=2, serviceName="db")[
                :1
            ],
            pod(
                "db-0",
                on="n0",
                labels={"app": "db"},
                spec=of_image("postgers:16"),
                metadata={
                    "ownerReferences": [
                        {
                            "apiVersion": "apps/v1",
                            "kind": "StatefulSet",
                            "name": "db",
                            "uid": "w-db",
                            "controller": True,
                        }
                    ],
                },
                status=failing(),
            ),
        ],
        ("statefulset", "db"),
        "ImagePullBackOff",
        ["did you mean `postgres:16`?"],
        words_of_remedy="correct image postgers:16 to postgres:16",
    ),
    Situation(
        "the image of a pod without an owner is misspelled",
        [
            *WORKERS,
            NGINX,
            pod("web", on="n0", spec=of_image("ngnix:1.25"), status=failing()),
        ],
        ("pod", "web"),
        "ImagePullBackOff",
        ["did you mean `nginx:1.25`?"],
        words_of_remedy="correct image ngnix:1.25",
    ),
    Situation(
        "two images of a pod cannot be pulled",
        [
            *WORKERS,
            NGINX,
            ELSEWHERE,
            pod(
                "web",
                on="n0",
                spec={"containers": [container(image="ngnix:1.25"), container(name="d", image="app:1")]},
                status={
                    "phase": "Pending",
                    "containerStatuses": [
                        container_status(state={"waiting": {"reason": "ErrImagePull"}}),
                        container_status(name="d", state={"waiting": {"reason": "ErrImagePull"}}),
                    ],
                },
            ),
        ],
        ("pod", "web"),
        "ErrImagePull",
        ["the image ngnix:1.25 of container c cannot be pulled"],
        words_of_remedy="correct image ngnix:1.25 to nginx:1.25 and correct image app:1 to example.com/team/app:1",
    ),
    Situation(
        "the registry wants a Secret that other pods of the namespace have",
        [
            *WORKERS,
            running_image("other", "reg.example.com/other:1", "regcred"),
            *app("web", 2, of_image("reg.example.com/web:1"), on=["n0", "n1"], pod_status=failing(DENIED)),
        ],
        ("deployment", "web"),
        "ImagePullBackOff",
        ["access denied"],
        words_of_remedy="pull with the Secret regcred (imagePullSecrets), as pod other does",
    ),
    Situation(
        "the imagePullSecret is misspelled",
        [
            *WORKERS,
            running_image("other", "reg.example.com/other:1", "regcred"),
            *app("web", 2, of_image("reg.example.com/web:1", "regcerd"), on=["n0", "n1"], pod_status=failing(DENIED)),
        ],
        ("deployment", "web"),
        "ImagePullBackOff",
        ["access denied"],
        words_of_remedy="correct the imagePullSecret regcerd to regcred",
    ),
    Situation(
        "the Secret of the registry is in another namespace",
        [
            *WORKERS,
            running_image("other", "reg.example.com/other:1", "regcred", "shop"),
            *app("web", 2, of_image("reg.example.com/web:1"), on=["n0", "n1"], pod_status=failing(DENIED)),
        ],
        ("deployment", "web"),
        "ImagePullBackOff",
        ["access denied"],
        has_remedy=False,
        words_to_check="pods of namespace shop pull from reg.example.com with the Secret regcred",
    ),
    Situation(
        "an image that never worked, and nothing like it",
        [*WORKERS, *app("web", 2, on=["n0", "n1"], pod_status=failing())],
        ("deployment", "web"),
        "ImagePullBackOff",
        ["the image app:1 of container c cannot be pulled"],
        has_remedy=False,
        words_to_check="`docker pull app:1`",
    ),
    Situation(
        "a node cannot pull an image that another node has",
        [*WORKERS, running_image("other", "app:1"), *app("web", 1, on=["n0"], pod_status=failing("i/o timeout"))],
        ("deployment", "web"),
        "ImagePullBackOff",
        ["pod default/other has it, so that its name is right"],
        has_remedy=False,
        words_to_check="can node n0 reach docker.io?",
    ),
    # -- devices
    Situation(
        "the driver in a device class is misspelled",
        [*WORKERS, device_class("gpu", "gpu.exmaple.com"), devices_of("gpu.example.com"), *asking_for("gpu")],
        ("deployment", "web"),
        "NoResourceSlice",
        ["no ResourceSlice of driver gpu.exmaple.com exists", "did you mean `gpu.example.com`?"],
        words_of_remedy="correct the driver of DeviceClass gpu from gpu.exmaple.com to gpu.example.com",
    ),
    Situation(
        "a driver of the same vendor is another driver",
        [*WORKERS, device_class("gpu", "gpu.example.com"), devices_of("nic.example.com"), *asking_for("gpu")],
        ("deployment", "web"),
        "NoResourceSlice",
        ["is the driver installed and running?"],
        has_remedy=False,
        words_to_check="drivers with devices here are nic.example.com",
    ),
    Situation(
        "another device class has devices",
        [
            *WORKERS,
            device_class("gpu", "gpu.vendor.org"),
            device_class("accelerator", "dra.example.com"),
            devices_of("dra.example.com"),
            *asking_for("gpu", 2),
        ],
        ("deployment", "web"),
        "NoResourceSlice",
        ["no ResourceSlice of driver gpu.vendor.org exists"],
        words_of_remedy="ask for DeviceClass accelerator instead of gpu",
    ),
    Situation(
        "simulated nodes have no driver",
        [*simulated(WORKERS), device_class("gpu", "gpu.example.com"), *asking_for("gpu", 3)],
        ("deployment", "web"),
        "NoResourceSlice",
        ["no ResourceSlice of driver gpu.example.com exists"],
        words_of_remedy="publish 3 devices of driver gpu.example.com on the simulated node n0",
    ),
    Situation(
        "the DaemonSet of a driver selects no node",
        [
            *WORKERS,
            device_class("gpu", "gpu.example.com"),
            *workload(
                DaemonSet,
                "gpu-plugin",
                {"nodeSelector": {"gpu": "yes"}, "containers": [container(args=["--driver=gpu.example.com"])]},
            ),
            *asking_for("gpu"),
        ],
        ("deployment", "web"),
        "NoResourceSlice",
        ["no ResourceSlice of driver gpu.example.com exists"],
        has_remedy=False,
        words_to_check=f"{SELECTS_NOTHING}; `kubectl label node NODE gpu=yes`",
    ),
    Situation(
        "the pods of a driver do not run",
        [
            *WORKERS,
            device_class("gpu", "gpu.example.com"),
            *workload(DaemonSet, "gpu-plugin", {"containers": [container(args=["--driver=gpu.example.com"])]}),
            *asking_for("gpu"),
        ],
        ("deployment", "web"),
        "NoResourceSlice",
        ["no ResourceSlice of driver gpu.example.com exists"],
        has_remedy=False,
        words_to_check="no pod of it is ready: `mooring explain daemonset default/gpu-plugin` says why",
    ),
    Situation(
        "no workload installs a driver",
        [*WORKERS, device_class("gpu", "gpu.example.com"), *asking_for("gpu")],
        ("deployment", "web"),
        "NoResourceSlice",
        ["no ResourceSlice of driver gpu.example.com exists"],
        has_remedy=False,
        words_to_check="is the DRA driver gpu.example.com installed? No workload of the cluster names it",
    ),
    # -- provisioners
    Situation(
        "the provisioner of a class is misspelled",
        [
            *WORKERS,
            driver("csi.example.com"),
            storage_class("fast", "csi.exmaple.com"),
            waiting_claim("data", "fast"),
            *app("web", 1, claiming("data")),
        ],
        ("deployment", "web"),
        "NotProvisioned",
        ["no CSIDriver csi.exmaple.com is installed; did you mean `csi.example.com`?"],
        words_of_remedy="correct provisioner csi.exmaple.com of StorageClass fast to csi.example.com",
    ),
    Situation(
        "a claim that is bound at once names a class without a provisioner",
        [
            *WORKERS,
            driver("csi.example.com"),
            storage_class("slow", "old.vendor.org/nfs", "Immediate"),
            storage_class("standard"),
            claim("data", "slow"),
            *app("web", 1, claiming("data")),
        ],
        ("deployment", "web"),
        "NotProvisioned",
        ["no CSIDriver old.vendor.org/nfs is installed"],
        words_of_remedy="give claim default/data the StorageClass standard, whose provisioner works",
    ),
    Situation(
        "the claims of a stateful set name a class without a provisioner",
        [
            *WORKERS,
            driver("csi.example.com"),
            storage_class("fast", "old.vendor.org/nfs"),
            storage_class("standard"),
            waiting_claim("data-db-0", "fast"),
            *workload(StatefulSet, "db", exists=1, replicas=1, serviceName="db", volumeClaimTemplates=[NUMBERED]),
        ],
        ("statefulset", "db"),
        "NotProvisioned",
        ["no CSIDriver old.vendor.org/nfs is installed"],
        words_of_remedy="let StorageClass fast make volumes as standard does (csi.example.com)",
    ),
    Situation(
        "three claims of a stateful set that are bound at once name a class without a provisioner",
        [
            *WORKERS,
            driver("csi.example.com"),
            storage_class("fast", "old.vendor.org/nfs", "Immediate"),
            storage_class("standard"),
            *(claim(f"data-db-{number}", "fast") for number in range(3)),
            *workload(
                StatefulSet,
                "db",
                exists=3,
                replicas=3,
                serviceName="db",
                volumeClaimTemplates=[NUMBERED],
                podManagementPolicy="Parallel",
            ),
        ],
        ("statefulset", "db"),
        "NotProvisioned",
        ["no CSIDriver old.vendor.org/nfs is installed"],
        words_of_remedy="let StorageClass fast make volumes as standard does (csi.example.com)",
    ),
    Situation(
        "no provisioner works",
        [
            *WORKERS,
            storage_class("fast", "csi.vendor.org"),
            waiting_claim("data", "fast"),
            *app("web", 1, claiming("data")),
        ],
        ("deployment", "web"),
        "NotProvisioned",
        ["is the provisioner csi.vendor.org of StorageClass fast installed and running?"],
        has_remedy=False,
        words_to_check="is the provisioner csi.vendor.org installed? No workload of the cluster names it",
    ),
    Situation(
        "a pod wants the one node of two similar names that is full",
        [
            *SMALL,
            *FULL,
            pod("web", on="", spec={"containers": [asking(cpu="2")], **selecting(pool="a")}),
            *(node(f"b{number}", labels={"pool": "b"}) for number in range(2)),
            node("a0", cpu="1", labels={"pool": "a"}),
        ],
        ("pod", "web"),
        "NoNodeLargeEnough",
        ["node a0 is not that large"],
        words_of_remedy="drop the nodeSelector pool",
    ),
    # -- claims in use
    Situation(
        "a pod without an owner has the claim",
        [*WORKERS, *one_pod("data"), holding("holder", "data"), *app("web", 1, claiming("data"))],
        ("deployment", "web"),
        "ClaimInUse",
        ["ReadWriteOncePod", "default/holder uses it"],
        words_of_remedy="delete pod default/holder, which uses the claim",
    ),
    Situation(
        "a pod of another deployment has the claim",
        [
            *WORKERS,
            *one_pod("data", "fast"),
            storage_class("fast"),
            *app("other", 1, claiming("data"), on=["n1"]),
            *app("web", 1, claiming("data")),
        ],
        ("deployment", "web"),
        "ClaimInUse",
        ["ReadWriteOncePod", "default/other-h2-0 uses it"],
        words_of_remedy="give it a claim of its own, data-web",
    ),
    Situation(
        "the old pod of a rollout has the claim",
        [*WORKERS, *one_pod("data"), *app("web", 1, claiming("data"), old_on=["n1"])],
        ("deployment", "web"),
        "ClaimInUse",
        ["ReadWriteOncePod", "default/web-h1-0 uses it"],
        words_of_remedy="let deployment web replace its pods at once (strategy: Recreate)",
    ),
    Situation(
        "three replicas share a claim for one pod",
        [
            *WORKERS,
            *one_pod("data"),
            *workload(ReplicaSet, "web", claiming("data"), on=["n1"], exists=3, replicas=3),
        ],
        ("replicaset", "web"),
        "ClaimInUse",
        ["ReadWriteOncePod", "default/web-0 uses it"],
        words_of_remedy="scale replicaset web to 1",
    ),
    Situation(
        "a pod on another node has the claim",
        [
            *WORKERS,
            clock(),
            volume("pv"),
            claim("data", volumeName="pv"),
            holding("holder", "data", on="n2"),
            *app("web", 1, claiming("data"), on=["n1"], pod_status=STARTED),
        ],
        ("deployment", "web"),
        "ClaimInUse",
        ["claim data may be used on one node only (ReadWriteOnce)", "default/holder uses it on node n2"],
        words_of_remedy="put the pod on the node of default/holder, which uses the claim",
    ),
    Situation(
        "the old pod of a rollout has the claim on another node",
        [
            *WORKERS,
            clock(),
            volume("pv"),
            claim("data", volumeName="pv"),
            *app("web", 1, claiming("data"), on=["n1"], old_on=["n2"], pod_status=STARTED),
        ],
        ("deployment", "web"),
        "ClaimInUse",
        ["claim data may be used on one node only (ReadWriteOnce)", "default/web-h1-0 uses it on node n2"],
        words_of_remedy="let deployment web replace its pods at once (strategy: Recreate)",
    ),
]
