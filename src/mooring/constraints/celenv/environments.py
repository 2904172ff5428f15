"""The environments in which the expressions of tolerations and node affinity are compiled: `TAINT` and `NODE`.

What an expression may use depends on a version: a library is there from the release that introduced it on. A new
expression is judged at the minimum compatibility version, so that an older API server can still read it after a
rollback; a stored expression may use everything that this release knows (KEP-4330, KEP-5500). Called by admission, the
scheduler and controllers; `mooring cel` shows it to people.

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
"""What an expression may cost: estimated when it is admitted, counted when it is evaluated."""
_SINCE_28: Final = Version(1, 28)
_SINCE_KEP_5500: Final = Version(1, 35)
_EVERYTHING: Final = Version(1, 10**6)
"""A version after all others: nothing that has been introduced and not replaced is missing."""


class Introduced(msgspec.Struct, frozen=True):
    """A library, and the versions from `since` up to and without `until` that have it."""

    library: Library
    since: Version
    until: Version | None = None

    def is_in(self, version: Version) -> bool:
        return self.since <= version and (self.until is None or version < self.until)


_LIBRARIES: Final = (
    Introduced(STANDARD, Version(1, 0)),
    Introduced(URL_LIBRARY, Version(1, 0)),
    Introduced(REGEX_LIBRARY, Version(1, 0)),
    Introduced(lists_library(0), Version(1, 0), until=Version(1, 37)),
    Introduced(lists_library(1), Version(1, 37)),
    Introduced(strings(0), Version(1, 0), until=Version(1, 29)),
    Introduced(strings(2), Version(1, 29)),
    Introduced(OPTIONALS, _SINCE_28),
    Introduced(QUANTITY_LIBRARY, _SINCE_28),
    Introduced(Library("validators", validators=(HOMOGENEOUS_LITERALS, *LITERAL_VALIDATORS)), Version(1, 29)),
    Introduced(SETS, Version(1, 29)),
    Introduced(ip_library(unmap=False), Version(1, 30)),
    Introduced(cidr_library(unmap=False), Version(1, 30)),
    Introduced(FORMAT_LIBRARY, Version(1, 31)),
    Introduced(TWO_VARIABLES, Version(1, 32)),
    Introduced(SEMVER_LIBRARY, Version(1, 33)),
    Introduced(lists(3), Version(1, 34)),
)
"""What Kubernetes switches on everywhere, in the order of its releases."""
_OF_KEP_5500: Final = (Introduced(COMPARE_LIBRARY, _SINCE_KEP_5500),)


@dataclass(frozen=True, eq=False)
class Environments:
    """The environments around one variable, by version; they are built when they are first asked for, and kept."""

    variable: str
    declaration: ObjectType
    sizes: Mapping[tuple[str, ...], int]
    """The most that a path below the variable may measure: characters, or entries of a map."""
    since: Version = _SINCE_KEP_5500
    """The version that brought the variable."""
    libraries: tuple[Introduced, ...] = _OF_KEP_5500
    """What these expressions may use beside what Kubernetes switches on everywhere."""

    def new_expressions(self, version: Version, *, forced: bool = False) -> Environment:
        """For expressions that a user writes now, with the minimum compatibility version.

        `forced` is for a feature that was switched on below the version that brought it: then all of it is there.
        """
        return _build(self, version, forced or version >= self.since)

    def stored_expressions(self) -> Environment:
        """For expressions that are already stored, and for evaluation: everything this release knows."""
        return _build(self, _EVERYTHING, declared=True)

    def size_of(self, path: tuple[str, ...]) -> Range | None:
        """What the estimate of costs may assume; nodes with more labels still work, and the runtime limit holds."""
        most = self.sizes.get(path)
        return None if most is None else Range(0, most)


@lru_cache(maxsize=64)
def _build(environments: Environments, version: Version, declared: bool) -> Environment:
    libraries = [each.library for each in _LIBRARIES if each.is_in(version)]
    of_the_variable = max(version, environments.since) if declared else version
    libraries += [each.library for each in environments.libraries if each.is_in(of_the_variable)]
    if declared:
        libraries.append(Library(environments.variable, types=(environments.declaration,)))
    return Environment(
        variables={environments.variable: environments.declaration.type} if declared else {},
        libraries=tuple(libraries),
        optional_syntax=version >= _SINCE_28,
        cross_type_numeric=version >= _SINCE_28,
        sizes=environments.size_of,
        has_cost=0,
    )


@lru_cache(maxsize=16)
def since(version: Version) -> Environment:
    """What Kubernetes switches on everywhere at a version, without variables: for rules of custom kinds."""
    return Environment(
        libraries=tuple(each.library for each in _LIBRARIES if each.is_in(version)),
        optional_syntax=version >= _SINCE_28,
        cross_type_numeric=version >= _SINCE_28,
        has_cost=0,
    )


def everything() -> Environment:
    """The same with all that this release knows, for expressions that are stored already."""
    return since(_EVERYTHING)


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
"""For the `expression` of a toleration, evaluated on one taint."""

NODE: Final = Environments(
    variable="node",
    declaration=ObjectType("kubernetes.Node", {"labels": Field(map_of(STRING, STRING))}),
    sizes={
        ("node", "labels"): 512,
        ("node", "labels", "@keys"): _KEY_SIZE,
        ("node", "labels", "@values"): _VALUE_SIZE,
    },
)
"""For `matchCELExpressions`, evaluated on one node."""
