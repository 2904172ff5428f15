"""`mooring join-config`: what it writes lets a machine join, and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from cryptography import x509

from kubectl_caller import Kubectl
from mooring.cli.commands.join_config import join_config
from running_server import RunningServer, start_server

pytestmark = pytest.mark.req("N.5", "N.12")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = start_server(
        tmp_path_factory.mktemp("server"), "--tls-san", "10.0.0.5", "--advertise-address", "192.0.2.9"
    )
    yield running
    running.stop()


def join(server: RunningServer, folder: Path, *words: str) -> Result:
    flags = ["--kubeconfig", str(server.kubeconfig), "--output", str(folder)]
    return CliRunner().invoke(join_config, [*words, *flags])


def test_the_token_is_good_for_asking_for_a_certificate_and_for_nothing_else(
    server: RunningServer, tmp_path: Path
) -> None:
    done = join(server, tmp_path / "worker-1", "worker-1", "--serving-certificate")
    assert done.exit_code == 0, done.output
    files = {path.name: path for path in (tmp_path / "worker-1").iterdir()}
    assert set(files) == {"ca.crt", "bootstrap.kubeconfig", "kubelet.yaml"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in files.values())
    configuration = yaml.safe_load(files["kubelet.yaml"].read_text())
    assert configuration["authorization"] == {"mode": "Webhook"}
    assert configuration["serverTLSBootstrap"] is True
    joining = Kubectl(files["bootstrap.kubeconfig"])
    assert "system:bootstrappers:mooring:nodes" in joining("auth", "whoami")
    assert "yes" in joining("auth", "can-i", "create", "certificatesigningrequests")
    for what in ("secrets", "pods", "nodes"):
        assert "no" in joining("auth", "can-i", "list", what, code=1)


def test_the_command_names_the_files_and_the_node(server: RunningServer, tmp_path: Path) -> None:
    done = join(server, tmp_path / "files", "worker-2", "--server", "https://10.0.0.5:6443")
    line = done.stdout.strip()
    assert line.startswith(f"kubelet --config={tmp_path}/files/kubelet.yaml --bootstrap-kubeconfig=")
    assert line.endswith("--hostname-override=worker-2")
    bootstrap = yaml.safe_load((tmp_path / "files" / "bootstrap.kubeconfig").read_text())
    assert bootstrap["clusters"][0]["cluster"]["server"] == "https://10.0.0.5:6443"


@pytest.mark.req("N.9")
def test_the_servers_certificate_is_good_for_nodes_and_for_what_runs_on_them(server: RunningServer) -> None:
    """Containers ask the cluster IP of the Service `default/kubernetes`."""
    shown = x509.load_pem_x509_certificate((server.data_dir / "pki" / "apiserver.crt").read_bytes())
    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"10.0.0.5", "10.0.0.1", "192.0.2.9"} <= {str(each) for each in names.get_values_for_type(x509.IPAddress)}


@pytest.mark.parametrize("name", ["Worker_1", "", "a" * 300])
def test_a_name_that_no_node_can_have_is_refused_and_leaves_nothing(
    server: RunningServer, tmp_path: Path, name: str
) -> None:
    assert join(server, tmp_path / "files", name).exit_code == 2
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_named(server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = join(server, tmp_path / "file" / "below", "worker-3")
    assert done.exit_code == 1
    assert f"cannot write {tmp_path}/file/below/ca.crt" in done.output
