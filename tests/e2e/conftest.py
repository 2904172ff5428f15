"""A server for all end-to-end tests of a worker, and kubectl in a namespace of its own for each of them."""

import gc
import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl_caller import KUBECTL, Kubectl
from running_server import RunningServer, running_server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    directory: Path = tmp_path_factory.mktemp("server")
    with running_server(directory) as running:
        yield running


@pytest.fixture
def kubectl(server: RunningServer) -> Iterator[Kubectl]:
    if KUBECTL is None:
        pytest.skip("there is no kubectl on this machine")
    namespace = f"test-{next(_numbers)}"
    assert server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}) == 201
    yield Kubectl(server.kubeconfig, namespace)
    assert server.request("DELETE", f"/api/v1/namespaces/{namespace}") in (200, 202, 404)


@pytest.fixture(autouse=True)
def _close_sockets_of_the_official_client(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close sockets that the client leaves to the garbage collector, whose warning would fail a later test."""
    yield
    if hasattr(request.module, "official"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
