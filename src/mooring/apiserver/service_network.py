"""The address ranges of Services, and the advertised address; imports little, as `mooring up` begins here."""

from ipaddress import ip_network

import msgspec

DEFAULT_CLUSTER_IPS = "10.0.0.0/24"
DEFAULT_NODE_PORTS = range(30000, 32768)


class ServiceNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The IP ranges of cluster IPs, the node ports, and the address advertised for the API server."""

    advertise_address: str = ""
    """The advertised address; if empty, the listening one, or this machine's outgoing one if that is loopback."""
    cluster_ips: tuple[str, ...] = (DEFAULT_CLUSTER_IPS,)
    """The networks of cluster IPs, at most one of each family; the first is the default."""
    node_ports: range = DEFAULT_NODE_PORTS

    @property
    def first(self) -> str:
        """Return the first cluster IP, which the Service `default/kubernetes` has."""
        return str(ip_network(self.cluster_ips[0])[1])

    @property
    def families(self) -> tuple[str, ...]:
        """Return the IP families of Services, the default first."""
        return tuple(f"IPv{ip_network(text).version}" for text in self.cluster_ips)
