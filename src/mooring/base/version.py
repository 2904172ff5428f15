"""The binary version, the emulated version and the minimum compatibility version (KEP-4330).

`ComponentVersions` is built once, when a component starts, from `--emulation-version` and
`--min-compatibility-version`. Only `base/`, the scheme and the option builders read it: all other code gets plain
options. Read next: ``gates.py``.
"""

import re
from typing import NamedTuple, Self

import msgspec


class VersionError(ValueError):
    """A version is malformed or not allowed here. The message names the allowed range."""


class Version(NamedTuple):
    """A minor release such as 1.35. Ordered, and printed as Kubernetes prints it."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `1.35`, `v1.35` or `1.35.2`; the patch level is ignored."""
        found = re.fullmatch(r"v?(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})(?:\.\d{1,9})?", text.strip(), re.ASCII)
        if not found:
            raise VersionError(f'"{text}" is not a version: write major.minor, such as {BINARY}')
        return cls(int(found[1]), int(found[2]))

    def plus(self, minors: int) -> "Version":
        return Version(self.major, self.minor + minors)

    def minus(self, minors: int) -> "Version":
        return Version(self.major, max(self.minor - minors, 0))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


BINARY = Version(1, 37)
"""The Kubernetes version that this code implements."""
OLDEST_EMULATION = Version(1, 27)
"""The oldest release in the API history; older ones cannot be emulated."""
OLDEST_MIN_COMPATIBILITY = Version(1, 30)


def oldest_compatible(emulation: Version = OLDEST_EMULATION) -> Version:
    """Return the oldest allowed minimum compatibility version for an emulated one."""
    return min(OLDEST_MIN_COMPATIBILITY, previous_release(emulation))


def previous_release(version: Version) -> Version:
    """Return the previous release, or the oldest known one."""
    return max(version.minus(1), OLDEST_EMULATION)


class ComponentVersions(msgspec.Struct, frozen=True):
    """The three versions of a running component."""

    binary: Version
    emulation: Version
    min_compatibility: Version

    @classmethod
    def resolve(
        cls,
        emulation: Version | str | None = None,
        min_compatibility: Version | str | None = None,
        binary: Version = BINARY,
    ) -> "ComponentVersions":
        """Return the versions for the two flags, with their defaults; raise `VersionError` outside the ranges."""
        emulating = _parse_in_range("--emulation-version", emulation, OLDEST_EMULATION, binary, binary)
        compatible = _parse_in_range(
            "--min-compatibility-version",
            min_compatibility,
            oldest_compatible(emulating),
            emulating,
            previous_release(emulating),
        )
        return cls(binary, emulating, compatible)

    @property
    def is_emulating(self) -> bool:
        """Whether the emulation version is below the binary version; alpha features are then unavailable."""
        return self.emulation < self.binary


def _parse_in_range(flag: str, given: Version | str | None, low: Version, high: Version, default: Version) -> Version:
    if given is None:
        return default
    version = Version.parse(given) if isinstance(given, str) else given
    if isinstance(given, str) and given.count(".") > 1:
        raise VersionError(f"{flag}={given}: a patch version is not allowed: write {version}")
    if not low <= version <= high:
        raise VersionError(f"{flag}={version} is out of range: this is {BINARY}, which allows {low} to {high} here")
    return version
