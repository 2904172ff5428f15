"""`mooring join-config`: write the credentials and configuration with which a kubelet joins the cluster.

It creates a bootstrap token valid for a day, and writes three files: the server's CA, a bootstrap kubeconfig and a
KubeletConfiguration. The kubelet then requests its own certificate and renews it.
"""

import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from mooring.cli.support.cluster_source import ClusterSource
from mooring.cli.support.flags import NEW_FOLDER, kubeconfig_flags
from mooring.cli.support.output import report_errors

if TYPE_CHECKING:
    from mooring.client import Client

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_STATE = Path("/var/lib/kubelet")


@click.command("join-config")
@click.argument("name")
@kubeconfig_flags
@click.option("--output", type=NEW_FOLDER, help="The directory to write to.  [default: ./NAME]")
@click.option("--server", metavar="URL", help="The URL of the server for the node.  [default: as in the kubeconfig]")
@click.option("--ttl-hours", type=click.IntRange(1, 24 * 365), default=24, help="The validity of the token in hours.")
@click.option(
    "--runtime-endpoint",
    default="unix:///run/containerd/containerd.sock",
    metavar="URL",
    help="The socket of the container runtime.",
)
@click.option("--serving-certificate", is_flag=True, help="Let the kubelet request a serving certificate, too.")
def join_config(
    *,
    name: str,
    reach: tuple[str | None, str],
    output: Path | None,
    server: str | None,
    ttl_hours: int,
    runtime_endpoint: str,
    serving_certificate: bool,
) -> None:
    """Write what the kubelet of the node NAME needs to join the cluster, and print how to start it.

    The files contain a token with which a machine can request a node certificate until the token expires. With it, a
    machine can join as any node that does not exist: copy the files to that machine only.

    \b
    Examples:
      mooring join-config worker-1
      mooring join-config worker-1 --server https://10.0.0.5:6443 --output /tmp/worker-1
    """
    from mooring.api import names
    from mooring.client import kubeconfig as files

    wrong = names.dns1123_subdomain(name)
    if wrong:
        raise click.BadParameter(f"{name!r} is no name for a node: {'; '.join(wrong)}", param_hint="NAME")
    source = ClusterSource(*reach, hint="start a server with mooring up")
    source.origin  # noqa: B018 - reports errors in the kubeconfig
    connection = files.load(*reach)
    token = _make_token(source, name, timedelta(hours=ttl_hours))
    url = server or connection.server
    folder = (output or Path(name)).absolute()
    _write_files(
        folder,
        url,
        connection.certificate_authority,
        token,
        _kubelet_config(folder, runtime_endpoint, serving_certificate),
    )
    if urlsplit(url).hostname in _LOOPBACK:
        click.echo(f"{url} can be reached from this machine alone: --server names another address", err=True)
    click.echo(_format_kubelet_command(folder, name))


def _make_token(source: ClusterSource, name: str, life: timedelta) -> str:
    from mooring.api import bootstrap_tokens
    from mooring.apiserver.messages.users import JOINING_NODES
    from mooring.cli.support.cluster_source import ask_server

    token = bootstrap_tokens.new_token()
    until = datetime.now(UTC) + life
    secret = bootstrap_tokens.secret_for(token, [JOINING_NODES], until, f"for the node {name}")

    async def create(client: "Client") -> None:
        await client.create(secret)

    ask_server(source, create)
    return token


def _kubelet_config(folder: Path, runtime: str, serving: bool) -> dict[str, Any]:
    configuration: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(folder / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": runtime,
        "rotateCertificates": True,
    }
    return {**configuration, "serverTLSBootstrap": True} if serving else configuration


def _write_files(folder: Path, server: str, authority: bytes, token: str, kubelet: dict[str, Any]) -> None:
    import yaml

    from mooring.apiserver.access.pki import PkiError, write_private

    trust = {"certificate-authority": "ca.crt"} if authority else {}
    bootstrap = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "mooring", "cluster": {"server": server, **trust}}],
        "users": [{"name": "joining", "user": {"token": token}}],
        "contexts": [{"name": "mooring", "context": {"cluster": "mooring", "user": "joining"}}],
        "current-context": "mooring",
    }
    with report_errors(PkiError):
        write_private(folder / "ca.crt", authority)
        write_private(folder / "bootstrap.kubeconfig", yaml.safe_dump(bootstrap, sort_keys=False).encode())
        write_private(folder / "kubelet.yaml", yaml.safe_dump(kubelet, sort_keys=False).encode())


def _format_kubelet_command(folder: Path, name: str) -> str:
    flags = {
        "config": folder / "kubelet.yaml",
        "bootstrap-kubeconfig": folder / "bootstrap.kubeconfig",
        "kubeconfig": _STATE / "kubeconfig",
        "cert-dir": _STATE / "pki",
        "hostname-override": name,
    }
    return "kubelet " + " ".join(f"--{flag}={shlex.quote(str(value))}" for flag, value in flags.items())
