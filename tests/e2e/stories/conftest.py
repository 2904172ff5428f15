"""A whole control plane for the stories of a worker; each has a namespace, and while it lasts all nodes, for itself."""

from collections.abc import Iterator

import pytest

from kubectl_caller import Kubectl
from running_cluster import RunningCluster, running_cluster
from running_server import RunningServer
from stories import Story

_CLUSTER_WIDE = "nodes,persistentvolumes,storageclasses,resourceslices,deviceclasses,devicetaintrules"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def server(cluster: RunningCluster) -> RunningServer:
    return cluster.server


@pytest.fixture
def story(kubectl: Kubectl) -> Iterator[Story]:
    yield Story(kubectl)
    # pods first, while their nodes can still stop them; then what would be in the way of the next story
    kubectl("delete", "namespace", kubectl.namespace, "--timeout=30s")
    kubectl("delete", _CLUSTER_WIDE, "--all", "--timeout=30s")
