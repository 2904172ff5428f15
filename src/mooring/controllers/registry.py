"""Every controller by the name that `--controllers` and kube-controller-manager have for it. One line each."""

from mooring.controllers.controller import Factory
from mooring.controllers.workloads.deployment import DeploymentController
from mooring.controllers.workloads.replica_set import ReplicaSetController

CONTROLLERS: dict[str, Factory] = {
    "deployment": DeploymentController,
    "replicaset": ReplicaSetController,
}
