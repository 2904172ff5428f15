"""Parse the Pod Security labels of a namespace: a level and a version for each of three modes."""

import re
from collections.abc import Callable, Mapping

import msgspec

from mooring.api import field_errors
from mooring.api.field_errors import Errors, FieldError
from mooring.api.field_path import Path

PREFIX = "pod-security.kubernetes.io/"
PRIVILEGED, BASELINE, RESTRICTED = LEVELS = ("privileged", "baseline", "restricted")
"""The Pod Security levels, from the least to the most restrictive."""
_LATEST = "latest"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")
_LARGEST_MINOR = 2**63 - 1
_LABELS = Path("metadata.labels")


class Standard(msgspec.Struct, frozen=True):
    """A Pod Security level at a Kubernetes version, such as `restricted:v1.30`."""

    level: str = PRIVILEGED
    version: str = _LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    @property
    def strictness(self) -> int:
        return LEVELS.index(self.level)

    def resolve_minor(self, newest: int) -> int:
        """Return the minor version of this standard; `newest` if that is `latest` or a later version."""
        return newest if self.version == _LATEST else min(int(self.version.removeprefix("v1.")), newest)


class Policy(msgspec.Struct, frozen=True):
    """A namespace's Pod Security standards for the modes `enforce` and `warn`; the mode `audit` is not implemented."""

    enforce: Standard
    warn: Standard
    errors: tuple[FieldError, ...]
    """Errors of invalid labels; with any, pods are checked against the most restrictive level."""


def parse_policy(labels: Mapping[str, str]) -> Policy:
    """Parse a namespace's Pod Security labels; errors in them are in the result, not raised."""
    errors: Errors = []

    def read_label(name: str, is_known: Callable[[str], bool], rule: str, otherwise: str) -> str | None:
        """Return a label's value; `otherwise`, after recording an error, if it is invalid; None if it is absent."""
        value = labels.get(PREFIX + name)
        if value is None or is_known(value):
            return value
        errors.append(field_errors.invalid(_LABELS.key(PREFIX + name), value, rule))
        return otherwise

    def read_mode(name: str, otherwise: str) -> tuple[str | None, str | None]:
        level = read_label(name, LEVELS.__contains__, f"must be one of {', '.join(LEVELS)}", otherwise)
        return level, read_label(f"{name}-version", _is_version, 'must be "latest" or "v1.x"', _LATEST)

    level, version = read_mode("enforce", RESTRICTED)
    enforce = Standard(level or PRIVILEGED, version or _LATEST)
    read_mode("audit", PRIVILEGED)
    warn_level, warn_version = read_mode("warn", PRIVILEGED)
    if warn_level is None and labels.get(PREFIX + "enforce") in LEVELS:
        warn = Standard(enforce.level, warn_version or enforce.version)
    else:
        warn = Standard(warn_level or PRIVILEGED, warn_version or _LATEST)
    return Policy(enforce, warn, tuple(errors))


def _is_version(text: str) -> bool:
    found = _VERSION.fullmatch(text)
    return text == _LATEST or (found is not None and int(found[1]) <= _LARGEST_MINOR)
