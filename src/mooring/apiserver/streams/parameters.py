"""Options for connections to kubelets. Imports nothing heavy."""

from datetime import timedelta
from pathlib import Path

import msgspec

ADDRESS_TYPES = ("InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS", "Hostname")


class KubeletOptions(msgspec.Struct, frozen=True):
    certificate_authority: Path | None = None
    """The authority of kubelets' serving certificates; None accepts any, as kube-apiserver does."""
    address_types: tuple[str, ...] = ADDRESS_TYPES
    """Which of a node's addresses to use, the best kind first; names come last, since they need a DNS."""
    signing_duration: timedelta = timedelta(days=365)
    """How long certificates are good for that nodes and clients ask for; a request may say less."""
    programs: Path | None = None
    """Where programs that run on simulated nodes leave their logs; None: nothing is executed."""
