"""The environments in which the expressions of tolerations and node affinity are compiled: `TAINT` and `NODE`.

The available libraries depend on a version: each is available from the release that introduced it. A new expression is
checked at the minimum compatibility version, so that an older API server can still compile it after a rollback; a
stored expression may use every library of this release (KEP-4330, KEP-5500). Used by admission, the scheduler and
controllers; `mooring cel` prints it.

    >>> TAINT.new_expressions(Version(1, 36)).compile("taint.key.includes('a')").issues[0].message
    "undeclared reference to 'includes' (in container '')"
    >>> TAINT.stored_expressions().compile("taint.key.includes('a')").issues
    ()
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from mooring.base.version import Version
from mooring.cel.costs import Range
from mooring.cel.environment import Environment
from mooring.cel.ext.comprehensions import TWO_VARIABLES
from mooring.cel.ext.lists import lists
from mooring.cel.ext.network import cidr_library, ip_library
from mooring.cel.ext.optionals import OPTIONALS
from mooring.cel.ext.sets import SETS
from mooring.cel.ext.strings import strings
from mooring.cel.library import Library
from mooring.cel.standard import LITERAL_VALIDATORS, STANDARD
from mooring.cel.types import STRING, TIMESTAMP, Field, ObjectType, map_of
from mooring.cel.validators import HOMOGENEOUS_LITERALS
from mooring.constraints.celenv.format import FORMAT_LIBRARY
from mooring.constraints.celenv.lists import lists_library
from mooring.constraints.celenv.quantity import QUANTITY_LIBRARY
from mooring.constraints.celenv.regex import REGEX_LIBRARY
from mooring.constraints.celenv.semver import COMPARE_LIBRARY, SEMVER_LIBRARY
from mooring.constraints.celenv.url import URL_LIBRARY

COST_LIMIT: Final = 1_000_000
"""The cost limit of an expression: estimated at admission, counted during evaluation."""
_SINCE_28: Final = Version(1, 28)
_SINCE_KEP_5500: Final = Version(1, 35)
_EVERYTHING: Final = Version(1, 10**6)
"""A version after all others: it has every library that was introduced and not replaced."""


class VersionedLibrary(msgspec.Struct, frozen=True):
    """A library with the range of versions that have it: from `base_environment`, before `until`."""

    library: Library
    since: Version
    until: Version | None = None

    def is_in(self, version: Version) -> bool:
        return self.since <= version and (self.until is None or version < self.until)


_LIBRARIES: Final = (
    VersionedLibrary(STANDARD, Version(1, 0)),
    VersionedLibrary(URL_LIBRARY, Version(1, 0)),
    VersionedLibrary(REGEX_LIBRARY, Version(1, 0)),
    VersionedLibrary(lists_library(0), Version(1, 0), until=Version(1, 37)),
    VersionedLibrary(lists_library(1), Version(1, 37)),
    VersionedLibrary(strings(0), Version(1, 0), until=Version(1, 29)),
    VersionedLibrary(strings(2), Version(1, 29)),
    VersionedLibrary(OPTIONALS, _SINCE_28),
    VersionedLibrary(QUANTITY_LIBRARY, _SINCE_28),
    VersionedLibrary(Library("validators", validators=(HOMOGENEOUS_LITERALS, *LITERAL_VALIDATORS)), Version(1, 29)),
    VersionedLibrary(SETS, Version(1, 29)),
    VersionedLibrary(ip_library(unmap=False), Version(1, 30)),
    VersionedLibrary(cidr_library(unmap=False), Version(1, 30)),
    VersionedLibrary(FORMAT_LIBRARY, Version(1, 31)),
    VersionedLibrary(TWO_VARIABLES, Version(1, 32)),
    VersionedLibrary(SEMVER_LIBRARY, Version(1, 33)),
    VersionedLibrary(lists(3), Version(1, 34)),
)
"""The libraries that Kubernetes enables everywhere, in order of release."""
_OF_KEP_5500: Final = (VersionedLibrary(COMPARE_LIBRARY, _SINCE_KEP_5500),)


@dataclass(frozen=True, eq=False)
class Environments:
    """The environments for one variable, by version; built on first use and cached."""

    variable: str
    declaration: ObjectType
    sizes: Mapping[tuple[str, ...], int]
    """Maximum sizes of paths below the variable: characters, or entries of a map."""
    since: Version = _SINCE_KEP_5500
    """The version that introduced the variable."""
    libraries: tuple[VersionedLibrary, ...] = _OF_KEP_5500
    """Libraries beyond those that Kubernetes enables everywhere."""

    def new_expressions(self, version: Version, *, forced: bool = False) -> Environment:
        """Return the environment for new expressions at a minimum compatibility version.

        `forced` is for a feature that was enabled below the version that introduced it: then everything is available.
        """
        return _build(self, version, forced or version >= self.since)

    def stored_expressions(self) -> Environment:
        """Return the environment for stored expressions and for evaluation: every library of this release."""
        return _build(self, _EVERYTHING, declared=True)

    def size_of(self, path: tuple[str, ...]) -> Range | None:
        """Return the size that the cost estimate may assume. Larger nodes still work: the runtime limit applies."""
        most = self.sizes.get(path)
        return None if most is None else Range(0, most)


@lru_cache(maxsize=64)
def _build(environments: Environments, version: Version, declared: bool) -> Environment:
    of_the_variable = max(version, environments.since) if declared else version
    libraries = [each.library for each in environments.libraries if each.is_in(of_the_variable)]
    if declared:
        libraries.append(Library(environments.variable, types=(environments.declaration,)))
    variables = {environments.variable: environments.declaration.type} if declared else {}
    return base_environment(version).extend(variables=variables, libraries=libraries, sizes=environments.size_of)


@lru_cache(maxsize=16)
def base_environment(version: Version) -> Environment:
    """Return Kubernetes' base environment at a version, without variables, for rules of custom resources."""
    return Environment(
        libraries=tuple(each.library for each in _LIBRARIES if each.is_in(version)),
        optional_syntax=version >= _SINCE_28,
        cross_type_numeric=version >= _SINCE_28,
        has_cost=0,
    )


def full_base_environment() -> Environment:
    """Return the base environment with every library of this release, for stored expressions."""
    return base_environment(_EVERYTHING)


_KEY_SIZE: Final = 317
_VALUE_SIZE: Final = 63

TAINT: Final = Environments(
    variable="taint",
    declaration=ObjectType(
        "kubernetes.Taint",
        {
            "key": Field(STRING),
            "value": Field(STRING),
            "effect": Field(STRING),
            "timeAdded": Field(TIMESTAMP, attribute="time_added"),
        },
    ),
    sizes={("taint", "key"): _KEY_SIZE, ("taint", "value"): _VALUE_SIZE, ("taint", "effect"): 16},
)
"""The environments for the `expression` of a toleration, evaluated on one taint."""

NODE: Final = Environments(
    variable="node",
    declaration=ObjectType("kubernetes.Node", {"labels": Field(map_of(STRING, STRING))}),
    sizes={
        ("node", "labels"): 512,
        ("node", "labels", "@keys"): _KEY_SIZE,
        ("node", "labels", "@values"): _VALUE_SIZE,
    },
)
"""The environments for `matchCELExpressions`, evaluated on one node."""
