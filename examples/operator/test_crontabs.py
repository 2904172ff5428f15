"""The operator, tested against a control plane that is there in a fraction of a second."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kopf.testing import KopfRunner

from mooring.testing import RunningControlPlane

HERE = Path(__file__).parent
DEFINITION = HERE.parent / "custom-resources" / "crontabs.yaml"


@contextmanager
def operator(mooring: RunningControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the operator."""
    monkeypatch.setenv("KUBECONFIG", str(mooring.kubeconfig))
    with KopfRunner(["run", "--standalone", "--all-namespaces", str(HERE / "crontabs.py")], timeout=30):
        yield


@pytest.mark.mooring(without=["scheduler", "nodes"])
def test_the_operator_reports_what_it_found(mooring: RunningControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    with mooring.crd(DEFINITION) as crontabs, operator(mooring, monkeypatch):
        crontabs.create("nightly", {"cronSpec": "0 3 * * *", "replicas": 2})
        crontabs.wait_until("nightly", lambda tab: tab.get("status", {}).get("replicas") == 2)
        crontabs.patch("nightly", {"spec": {"replicas": 5}})
        crontabs.wait_until("nightly", lambda tab: tab["status"]["replicas"] == 5)
        crontabs.delete("nightly")
        crontabs.wait_until_gone("nightly")
