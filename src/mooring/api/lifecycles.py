"""When each kind of each API version was introduced, deprecated and removed.

The data is Kubernetes' own, including planned releases: the part of the API history (``history/resources.txt``) that is
small enough to read at every start. The scheme uses it to decide what is served, what is deprecated and in which
version objects are stored. Read next: ``scheme.py``.
"""

from collections.abc import Mapping
from functools import cache

import msgspec
from msgspec.structs import replace

from mooring.api.history.tables import Served, served_resources
from mooring.base.version import Version


class Lifecycle(msgspec.Struct, frozen=True):
    """The releases in which a kind was introduced, deprecated and removed."""

    introduced: Version
    deprecated: Version | None = None
    removed: Version | None = None
    replacement: str = ""
    """The group and version to use instead, for the warning."""
    is_legacy: bool = False
    """Whether a beta is on by default, although later betas are not, because its predecessors were."""
    subresources: Mapping[str, Version] = msgspec.field(default_factory=dict)
    """Subresources that were introduced later than the kind."""

    def known_at(self, version: Version) -> bool:
        """Whether a release has the kind."""
        return self.introduced <= version and (self.removed is None or version < self.removed)


def since(
    introduced: str, deprecated: str = "", removed: str = "", *, replacement: str = "", is_legacy: bool = False
) -> Lifecycle:
    """Create a lifecycle from strings, for tests."""
    return Lifecycle(
        Version.parse(introduced),
        Version.parse(deprecated) if deprecated else None,
        Version.parse(removed) if removed else None,
        replacement,
        is_legacy,
    )


ALWAYS = since("1.0")


def lifecycle_of(group: str, version: str, kind: str) -> Lifecycle:
    """Return the lifecycle of a kind; kinds without a URL, such as Scale, have always existed."""
    return _lifecycles().get((group, version, kind), ALWAYS)


@cache
def _lifecycles() -> dict[tuple[str, str, str], Lifecycle]:
    return {(each.group, each.version, each.kind): _lifecycle_of_served(each) for each in served_resources()}


def _lifecycle_of_served(served: Served) -> Lifecycle:
    introduced = served.introduced or str(served.releases.since or ALWAYS.introduced)
    removed = served.removed or str(served.releases.until or "")
    is_legacy = "beta" in served.version and not served.off.spans
    later = {
        name: at.since for name, at in served.subresources.items() if at.since not in (None, served.releases.since)
    }
    life = since(introduced, served.deprecated, removed, replacement=served.replacement, is_legacy=is_legacy)
    return replace(life, subresources=later) if later else life
