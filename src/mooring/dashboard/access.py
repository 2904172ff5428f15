"""The source of a dashboard's cluster and its scheduler settings. The command line builds it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from mooring.advisor.simulate import Settings
from mooring.advisor.snapshot import Snapshot
from mooring.client import Client
from mooring.dashboard.options import Running

Connect = Callable[[], AbstractAsyncContextManager[Client]]
"""A client with the user's own credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The cluster that a dashboard shows: a live one has `connect`; a dump or a data directory has `read`."""

    origin: str
    """For people: `the dump cluster.yaml`."""
    settings: Settings
    """How its scheduler and API server decide, where `settings_for` is not given."""
    settings_for: Callable[[Running], Settings] | None = None
    """Returns the settings for other versions and gates; not given where flags have named them."""
    running: Running | None = None
    """The cluster's versions and gates, as far as flags name them or nothing better is known."""
    connect: Connect | None = None
    namespace: str = ""
    """What is looked at of a live cluster where its whole may not be: the namespace of the kubeconfig."""
    read: Callable[[], Snapshot] | None = None
    allow_changes: bool = False
    """Whether pages offer to change the cluster: only for a live cluster, and with --allow-changes."""
    has_stored_versions: bool = False
    """Whether objects are read as they are stored, so that an audit can check that too."""

    @property
    def follows_server(self) -> bool:
        """Whether to use the versions and gates that the cluster's server reports, because no flags name others."""
        return self.settings_for is not None or self.running is None

    @property
    def is_live(self) -> bool:
        return self.connect is not None
