"""Which addresses Services have, and where the server itself is found. Loads fast: `mooring up` reads it first."""

from dataclasses import dataclass
from ipaddress import ip_network

DEFAULT_CLUSTER_IPS = "10.0.0.0/24"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceNetwork:
    """The addresses of Services, and where the server itself can be reached by what runs in the cluster."""

    advertise_address: str = ""
    """Empty: the address on which it listens, or where that is a loopback, that of this machine on the way out."""
    cluster_ips: str = DEFAULT_CLUSTER_IPS
    """The range of cluster IPs."""

    @property
    def first(self) -> str:
        """The cluster IP of the Service `default/kubernetes`."""
        return str(ip_network(self.cluster_ips)[1])
