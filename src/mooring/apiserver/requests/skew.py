"""Report components whose version is not compatible with this server's (KEP-4330).

Components send their version in the User-Agent (`kubectl/v1.36.1 (linux/amd64) …`) and in annotations of their Leases.
An incompatible version is counted, and logged once; its requests are served.
"""

import re
from collections.abc import Mapping
from typing import Literal

from prometheus_client import Counter

from mooring.api.coordination_v1 import VERSION_ANNOTATION, Lease
from mooring.apiserver.options import MinorVersion, VersionRange
from mooring.base import logs
from mooring.base.bounded_cache import BoundedCache

log = logs.get(__name__)

_AGENT = re.compile(r"([a-z][a-z-]{0,40})/v?(\d{1,3})\.(\d{1,3})(?![\d])")
_AGENTS = 1024
_VERSIONS = 200
"""The maximum number of versions that become metric labels, so that clients cannot fill memory with invented ones."""


class SkewReporter:
    """Counts and logs components (clients) whose version does not work with this server's."""

    def __init__(self, expected: Mapping[str, VersionRange], counter: Counter) -> None:
        self._expected = expected
        self._counter = counter
        self._agents: BoundedCache[str, tuple[str, MinorVersion] | Literal[False]] = BoundedCache(_AGENTS)
        self._leases: dict[str, str] = {}
        self._counted: set[tuple[str, MinorVersion]] = set()

    def check_user_agent(self, user_agent: str) -> None:
        """Count a request whose User-Agent names an incompatible version; log the first."""
        outside = self._agents.get(user_agent)
        if outside is None:
            outside = self._find_incompatible_component(user_agent) or False
            self._agents.put(user_agent, outside)
        if outside:
            self._report_incompatible(*outside)

    def check_leases(self, leases: Mapping[str, Lease]) -> None:
        """Count incompatible versions in the annotations of Leases that have changed since the last call."""
        for name, lease in leases.items():
            if self._leases.get(name) != lease.metadata.resource_version:
                self.check_lease(lease)
        self._leases = {name: lease.metadata.resource_version for name, lease in leases.items()}

    def check_lease(self, lease: Lease) -> None:
        """Count the component that holds a Lease if its version annotation is incompatible; log the first."""
        version = lease.metadata.annotations.get(VERSION_ANNOTATION, "")
        if outside := self._find_incompatible_component(f"{lease.metadata.name}/{version}"):
            self._report_incompatible(*outside)

    def _find_incompatible_component(self, user_agent: str) -> tuple[str, MinorVersion] | None:
        """Return component and version in `component/version`, as User-Agents begin, if they are incompatible."""
        found = _AGENT.match(user_agent)
        expected = self._expected.get(found[1]) if found else None
        if not found or not expected:
            return None
        version = int(found[2]), int(found[3])
        return None if version in expected else (found[1], version)

    def _report_incompatible(self, component: str, version: MinorVersion) -> None:
        known = (component, version) in self._counted
        if not known and len(self._counted) >= _VERSIONS:
            self._counter.labels(component, "other").inc()
            return
        text = f"{version[0]}.{version[1]}"
        self._counter.labels(component, text).inc()
        if not known:
            self._counted.add((component, version))
            fields = {"component": component, "version": text, "expected": str(self._expected[component])}
            log.warning("A component's version does not fit to this server", extra={"fields": fields})
