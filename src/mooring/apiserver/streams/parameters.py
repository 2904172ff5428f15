"""Options for connections to kubelets, in a module that is cheap to import."""

from datetime import timedelta
from pathlib import Path

import msgspec

ADDRESS_TYPES = ("InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS", "Hostname")


class KubeletOptions(msgspec.Struct, frozen=True):
    """The settings for kubelets: authority, address types, validity of certificates, and the folder of programs."""

    certificate_authority: Path | None = None
    """The authority of kubelets' serving certificates; None accepts any, as kube-apiserver does."""
    address_types: tuple[str, ...] = ADDRESS_TYPES
    """The types of node addresses to use, in order of preference; names are last, since they need DNS."""
    signing_duration: timedelta = timedelta(days=365)
    """The longest validity of certificates for CertificateSigningRequests, which may name a shorter one."""
    programs: Path | None = None
    """The folder with logs of programs that run on simulated nodes; None if no programs are run."""
