"""The flags of an API server (`mooring apiserver`, `mooring up`), which become the argument `server`."""

from datetime import timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mooring.apiserver.service_network import DEFAULT_CLUSTER_IPS, DEFAULT_NODE_PORTS, ServiceNetwork
from mooring.apiserver.streams.parameters import ADDRESS_TYPES, KubeletOptions
from mooring.base.component import Component
from mooring.cli.support.etcd_flags import etcd_flags
from mooring.cli.support.flags import FILE, DataDir, Duration, component_flags, group_flags, join_values, split_names
from mooring.cli.support.output import report_errors
from mooring.store.etcd.config import EtcdConfig

if TYPE_CHECKING:
    from mooring.apiserver.options import ServerConfig

DEFAULT_DATA_DIR = "~/.mooring"
_MIN_ADDRESSES = 8
_MAX_BITS = 64
"""Larger networks are rejected: Kubernetes allows IPv6 networks up to /64."""
_MIN_SIGNING_SECONDS = 60.0
_MAX_SIGNING_SECONDS = 3650 * 86_400.0


# The network of Services


def _build_service_network(
    advertise_address: str, service_cluster_ip_range: str, service_node_port_range: str
) -> ServiceNetwork:
    _check_address(advertise_address)
    return ServiceNetwork(
        advertise_address=advertise_address,
        cluster_ips=_parse_networks(service_cluster_ip_range),
        node_ports=_parse_ports(service_node_port_range),
    )


def _parse_networks(text: str) -> tuple[str, ...]:
    flag = "--service-cluster-ip-range"
    try:
        networks = [ip_network(part.strip()) for part in text.split(",")]
    except ValueError as error:
        raise click.UsageError(f"{flag}: {error}; write a network as 10.0.0.0/24 or fd00::/108") from None
    if len(networks) > 2 or len({network.version for network in networks}) != len(networks):
        raise click.UsageError(f"{flag}: name one network, or one of IPv4 and one of IPv6")
    for network in networks:
        if network.num_addresses < _MIN_ADDRESSES or network.max_prefixlen - network.prefixlen > _MAX_BITS:
            longest, shortest = network.max_prefixlen - 3, network.max_prefixlen - _MAX_BITS
            raise click.UsageError(f"{flag}: {network} must have a prefix of /{shortest} to /{longest}")
    return tuple(map(str, networks))


def _parse_ports(text: str) -> range:
    first, _, last = text.replace("+", "-+").partition("-")
    try:
        begin = int(first)
        end = begin + int(last[1:]) if last.startswith("+") else int(last or first)
    except ValueError:
        begin = end = 0
    if not 0 < begin <= end < 65536:
        raise click.UsageError(f"--service-node-port-range: {text!r} is no range such as 30000-32767")
    return range(begin, end + 1)


def _check_address(text: str) -> None:
    if not text:
        return
    try:
        found = ip_address(text)
    except ValueError:
        raise click.UsageError(f"--advertise-address: {text!r} is no address such as 192.168.7.1") from None
    if found.is_loopback or found.is_unspecified or found.is_link_local or found.is_multicast:
        raise click.UsageError(f"--advertise-address: {text} cannot be reached from other machines")


service_flags = group_flags(
    "services",
    _build_service_network,
    click.option(
        "--advertise-address",
        default="",
        metavar="IP",
        help="The address of the endpoint of the Service default/kubernetes.  "
        "[default: --bind-address, or this machine's address if that is a loopback address]",
    ),
    click.option(
        "--service-cluster-ip-range",
        default=DEFAULT_CLUSTER_IPS,
        metavar="CIDR,…",
        help="Networks of cluster IPs, one of each IP family.",
    ),
    click.option(
        "--service-node-port-range",
        default=f"{DEFAULT_NODE_PORTS[0]}-{DEFAULT_NODE_PORTS[-1]}",
        metavar="FROM-TO",
        help="The range of node ports of Services.",
    ),
)
"""The command gets a `ServiceNetwork` as `services`."""


# Kubelets


def _build_kubelet_options(
    kubelet_certificate_authority: Path | None, kubelet_preferred_address_types: str, cluster_signing_duration: float
) -> KubeletOptions:
    types = split_names(kubelet_preferred_address_types)
    unknown = [word for word in types if word not in ADDRESS_TYPES]
    if unknown or not types:
        known = ", ".join(ADDRESS_TYPES)
        raise click.UsageError(f"--kubelet-preferred-address-types: {', '.join(unknown)!r} is none of {known}")
    if not _MIN_SIGNING_SECONDS <= cluster_signing_duration <= _MAX_SIGNING_SECONDS:
        raise click.UsageError("--cluster-signing-duration: from a minute to ten years, such as 24h")
    return KubeletOptions(kubelet_certificate_authority, types, timedelta(seconds=cluster_signing_duration))


kubelet_flags = group_flags(
    "kubelets",
    _build_kubelet_options,
    click.option(
        "--kubelet-certificate-authority", type=FILE, help="Verify kubelets by this authority; without it, trust any."
    ),
    click.option(
        "--kubelet-preferred-address-types",
        default=",".join(ADDRESS_TYPES),
        metavar="TYPE,…",
        help="The types of node addresses for connections to kubelets, best first.",
    ),
    click.option(
        "--cluster-signing-duration",
        type=Duration(),
        default="8760h",
        help="The validity of certificates that nodes request.",
    ),
)
"""How to reach kubelets, and how long their certificates are valid; the command gets `KubeletOptions` as `kubelets`."""


# The server


def _build_server_config(
    *,
    running: Component,
    etcd: EtcdConfig | None,
    services: ServiceNetwork,
    kubelets: KubeletOptions,
    data_dir: Path,
    accept_lost_writes: bool,
    port: int,
    bind_address: str,
    tls_san: str,
    runtime_config: str,
) -> "ServerConfig":
    from mooring.api.scheme import SchemeError, parse_runtime_config
    from mooring.apiserver.options import ServerConfig

    names = split_names(tls_san)
    for name in names:
        if not name.isascii() or not name.isprintable() or any(mark in name for mark in " /"):
            raise click.UsageError(f"--tls-san: {name!r} is neither a name of a machine nor an address")
    with report_errors(SchemeError):
        switches = parse_runtime_config(runtime_config)
    return ServerConfig(
        component=running,
        data_dir=data_dir.expanduser(),
        accept_lost_writes=accept_lost_writes,
        etcd=etcd,
        services=services,
        kubelets=kubelets,
        bind_address=bind_address,
        port=port,
        tls_names=names,
        runtime_config=switches,
        flags=_flags_for_flagz(),
    )


server_flags = group_flags(
    "server",
    _build_server_config,
    click.option(
        "--data-dir",
        type=DataDir(),
        default=DEFAULT_DATA_DIR,
        help="Where the store, certificates and kubeconfig files are.",
    ),
    click.option(
        "--accept-lost-writes", is_flag=True, help="Start although the last writes are lost, and discard them."
    ),
    click.option("--port", type=click.IntRange(0, 65535), default=6443, help="The port to listen on; 0: any."),
    click.option("--bind-address", default="127.0.0.1", metavar="IP", help="The address to listen on."),
    click.option(
        "--tls-san", default="", metavar="NAME,…", help="Additional names and addresses for the server's certificate."
    ),
    click.option(
        "--runtime-config",
        multiple=True,
        callback=join_values,
        metavar="API=BOOL,…",
        help="Turn APIs on or off: resource.k8s.io/v1beta1=true, api/beta=true, …",
    ),
    service_flags,
    kubelet_flags,
    etcd_flags,
    component_flags,
)
"""The command gets a `ServerConfig` as `server`."""


def _flags_for_flagz() -> dict[str, str]:
    """Return the options of the running command for `/flagz`: names without dashes, values as strings."""
    context = click.get_current_context()
    options = (each for each in context.command.params if isinstance(each, click.Option) and each.name)
    return {max(each.opts, key=len).lstrip("-"): _as_text(context.params.get(str(each.name))) for each in options}


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{','.join(map(str, value))}]" if isinstance(value, tuple | list) else str(value)
