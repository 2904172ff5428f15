"""Versions: the one this binary is, the one it emulates, and the oldest it must stay compatible with (KEP-4330).

`ComponentVersions` is made once, when a component starts, from `--emulation-version` and `--min-compatibility-version`.
Only `base/`, the scheme and the option builders read it: everything else gets plain options. Read next: ``gates.py``.
"""

import re
from typing import NamedTuple, Self

import msgspec


class VersionError(ValueError):
    """A version that cannot be read or is not allowed here. The message names what is allowed."""


class Version(NamedTuple):
    """A minor release such as 1.35. Ordered, and written as Kubernetes writes it."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `1.35`, also `v1.35` and `1.35.2`: the patch level does not matter."""
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
"""What this code implements."""
OLDEST_EMULATION = Version(1, 27)
"""Where the history of the API begins: nothing older can be told apart."""
OLDEST_MIN_COMPATIBILITY = Version(1, 30)


def oldest_compatible(emulation: Version = OLDEST_EMULATION) -> Version:
    """The oldest minimum compatibility version beside an emulated one: 1.30, or the release before that is emulated."""
    return min(OLDEST_MIN_COMPATIBILITY, before(emulation))


def before(version: Version) -> Version:
    """The release before, or the oldest that is known."""
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
        """The versions that the two flags ask for, with their defaults; raises `VersionError` outside the ranges."""
        emulating = _within("--emulation-version", emulation, OLDEST_EMULATION, binary, binary)
        compatible = _within(
            "--min-compatibility-version",
            min_compatibility,
            oldest_compatible(emulating),
            emulating,
            before(emulating),
        )
        return cls(binary, emulating, compatible)

    @property
    def is_emulating(self) -> bool:
        """Whether the emulation version is below the binary version, so that alpha is out of reach."""
        return self.emulation < self.binary


def _within(flag: str, given: Version | str | None, low: Version, high: Version, default: Version) -> Version:
    if given is None:
        return default
    version = Version.parse(given) if isinstance(given, str) else given
    if not low <= version <= high:
        raise VersionError(f"{flag}={version} is out of range: this is {BINARY}, which allows {low} to {high} here")
    return version
