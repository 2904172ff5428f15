"""Which addresses Services have, and where the server itself is found. Loads fast: `mooring up` reads it first."""

from ipaddress import ip_network

import msgspec

DEFAULT_CLUSTER_IPS = "10.0.0.0/24"
DEFAULT_NODE_PORTS = range(30000, 32768)


class ServiceNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of Services, and where the server itself can be reached by what runs in the cluster."""

    advertise_address: str = ""
    """Empty: the address on which it listens, or where that is a loopback, that of this machine on the way out."""
    cluster_ips: tuple[str, ...] = (DEFAULT_CLUSTER_IPS,)
    """The networks of cluster IPs, one of each family at most; Services get the first one's if they do not mind."""
    node_ports: range = DEFAULT_NODE_PORTS

    @property
    def first(self) -> str:
        """The cluster IP of the Service `default/kubernetes`."""
        return str(ip_network(self.cluster_ips[0])[1])

    @property
    def families(self) -> tuple[str, ...]:
        """The families of addresses that Services can have, the usual one first."""
        return tuple(f"IPv{ip_network(text).version}" for text in self.cluster_ips)
