"""The flags for the network of Services."""

from collections.abc import Callable
from functools import wraps
from ipaddress import ip_address, ip_network
from typing import Any

import click

from mooring.apiserver.service_network import DEFAULT_CLUSTER_IPS, DEFAULT_NODE_PORTS, ServiceNetwork

_FEWEST = 8
_LARGEST_BITS = 64
"""Larger networks are rejected: Kubernetes allows IPv6 networks up to /64."""


def service_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags; the command gets a `ServiceNetwork` as `services`."""

    @click.option(
        "--advertise-address",
        default="",
        metavar="IP",
        help="Where what runs in the cluster reaches this server: the endpoint of the Service default/kubernetes.  "
        "[default: --bind-address, or this machine's own instead of a loopback]",
    )
    @click.option(
        "--service-cluster-ip-range",
        default=DEFAULT_CLUSTER_IPS,
        show_default=True,
        metavar="CIDR,…",
        help="Where cluster IPs of Services come from: a network, or one of each family.",
    )
    @click.option(
        "--service-node-port-range",
        default=f"{DEFAULT_NODE_PORTS[0]}-{DEFAULT_NODE_PORTS[-1]}",
        show_default=True,
        metavar="FROM-TO",
        help="Where node ports of Services come from.",
    )
    @wraps(command)
    def wrapped(
        *args: Any,
        advertise_address: str,
        service_cluster_ip_range: str,
        service_node_port_range: str,
        **rest: Any,
    ) -> None:
        _check_address(advertise_address)
        network = ServiceNetwork(
            advertise_address=advertise_address,
            cluster_ips=_networks(service_cluster_ip_range),
            node_ports=_ports(service_node_port_range),
        )
        command(*args, services=network, **rest)

    return wrapped


def _networks(text: str) -> tuple[str, ...]:
    flag = "--service-cluster-ip-range"
    try:
        networks = [ip_network(part.strip()) for part in text.split(",")]
    except ValueError as error:
        raise click.UsageError(f"{flag}: {error}; write a network as 10.0.0.0/24 or fd00::/108") from None
    if len(networks) > 2 or len({network.version for network in networks}) != len(networks):
        raise click.UsageError(f"{flag}: name one network, or one of IPv4 and one of IPv6")
    for network in networks:
        if network.num_addresses < _FEWEST or network.max_prefixlen - network.prefixlen > _LARGEST_BITS:
            longest, shortest = network.max_prefixlen - 3, network.max_prefixlen - _LARGEST_BITS
            raise click.UsageError(f"{flag}: {network} must have a prefix of /{shortest} to /{longest}")
    return tuple(map(str, networks))


def _ports(text: str) -> range:
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
