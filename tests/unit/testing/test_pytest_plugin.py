"""The fixture `mooring` and the builders, as `docs/testing.md` shows them."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mooring.api.codec import DecodeError
from mooring.testing import RunningControlPlane, node, pod

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"


def test_the_examples_of_the_page_work(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "test_example.py").write_text("\n".join(examples))
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mooring.testing.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_builders_build_what_they_say() -> None:
    built = node("a").label("tier", "gold").taint("sla", "950").capacity(cpu="64").unschedulable().build()
    assert built.metadata.labels["tier"] == "gold"
    assert (built.spec.taints[0].key, built.spec.taints[0].value) == ("sla", "950")
    assert built.spec.unschedulable
    assert str(built.status.allocatable["cpu"]) == "64"
    wanted = pod("p").request(cpu="500m").tolerates("taint.key == 'sla'").needs("kernel", "SemverGt", "5.10").build()
    assert str(wanted.spec.containers[0].resources.requests["cpu"]) == "500m"
    assert wanted.spec.tolerations[0].expression == "taint.key == 'sla'"
    assert wanted.spec.affinity


def test_a_control_plane_is_ready_at_once_and_takes_yaml() -> None:
    with RunningControlPlane():  # loads what there is to load
        pass
    began = time.process_time()
    with RunningControlPlane(nodes=2) as plane:
        assert time.process_time() - began < 3.0
        plane.create("""
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: app}]}
""")
        assert plane.wait_for_pod("web").spec.node_name in {"node-0", "node-1"}


def test_create_takes_whatever_describes_an_object(tmp_path: Path) -> None:
    file = tmp_path / "namespaces.yaml"
    file.write_text("".join(f"---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}\n" for name in "ab"))
    tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c"}}
    with RunningControlPlane(without=["scheduler", "controllers", "nodes"]) as plane:
        made = plane.create(file, tree, [node("d"), [node("e")]])
        assert [obj.metadata.name for obj in made] == ["a", "b", "c", "d", "e"]
        with pytest.raises(DecodeError, match="there is no v1 Pot"):
            plane.create({"apiVersion": "v1", "kind": "Pot"})


def test_who_waits_for_a_pod_says_how_long() -> None:
    with RunningControlPlane(without=["scheduler", "controllers", "nodes"]) as plane:
        plane.create(pod("web"))
        with pytest.raises(TimeoutError, match="pod web is Pending, not Running"):
            plane.wait_for_pod("web", seconds=0.01)


SUITE = """
def config_map(namespace):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}}

def test_a_namespace_of_its_own(mooring_session, mooring_namespace):
    mooring_session.create(config_map(mooring_namespace))

def test_another_one(mooring_session, mooring_namespace):
    mooring_session.create(config_map(mooring_namespace))

def test_the_shape_of_pytest_kind(k8s_cluster, mooring_session):
    import os
    assert os.environ["KUBECONFIG"] == str(k8s_cluster.kubeconfig_path)
    assert k8s_cluster.plane is mooring_session
    k8s_cluster.create()
    k8s_cluster.load_docker_image("app:1")
    assert "node-0" in k8s_cluster.kubectl("get", "nodes")
"""


@pytest.mark.req("X.12")
def test_tests_share_a_control_plane_and_have_namespaces_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    done = _pytest(tmp_path)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.req("X.12")
def test_the_operator_of_the_examples_passes_its_test() -> None:
    # There the settings of this repository count. kopf ends its loop while connections of its client are closing, and
    # whether anybody hears of that is chance.
    left_open = ("-W", "ignore::ResourceWarning")
    done = _pytest(PAGE.parents[1] / "examples" / "operator", "-n", "0", *left_open)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.req("X.12", "X.14")
def test_a_suite_that_uses_nothing_of_it_loads_nothing_but_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\ndef test_nothing():\n"
        "    loaded = {name for name in sys.modules if name.startswith('mooring')}\n"
        "    assert loaded == {'mooring', 'mooring.testing', 'mooring.testing.plugin'}, loaded\n"
    )
    done = _pytest(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def _pytest(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mooring.testing.plugin", "-p", "no:cacheprovider"]
    return subprocess.run([*command, *flags, str(folder)], capture_output=True, text=True, check=False, cwd=folder)
