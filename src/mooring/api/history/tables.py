"""Typed access to the tables of the API history: see ``__init__.py``."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from mooring.base.version import Version

EVERY_VERB = frozenset({"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})
_FOLDER = Path(__file__).parent
CHANGING = _FOLDER / "changing.txt"
_NEVER = 10_000
_PACKAGES = {"": "core", "internal.apiserver.k8s.io": "apiserverinternal"}


class Releases(NamedTuple):
    """The releases that have something: ranges of minor versions."""

    spans: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: str) -> "Releases":
        """Parse `1.30-1.33`, `1.30`, `-1.33`; several with commas; empty or `-` for all releases."""
        parts = (part.partition("-") for part in text.split(","))
        return cls(tuple((_minor(since, 0), _minor(until, _NEVER)) for since, _, until in parts))

    def has(self, version: Version) -> bool:
        return any(since <= version.minor < until for since, until in self.spans)

    @property
    def since(self) -> Version | None:
        """The first release that has it; None if it predates the tables."""
        first = min(since for since, _ in self.spans)
        return Version(1, first) if first else None

    @property
    def until(self) -> Version | None:
        """The first release that no longer has it."""
        last = max(until for _, until in self.spans)
        return Version(1, last) if last != _NEVER else None


ALL = Releases(((0, _NEVER),))
NONE = Releases(())


def _minor(text: str, otherwise: int) -> int:
    return int(text.partition(".")[2]) if text else otherwise


class Field(msgspec.Struct, frozen=True):
    """A field of an API type, with the releases and feature gates that it depends on."""

    name: str
    type: str
    """`string`, `core.v1.Affinity`, `[]core.v1.Container`, `{}Quantity`."""
    releases: Releases = ALL
    gates: tuple[str, ...] = ()
    """The feature gates that guard it."""
    default: str = ""
    deprecated: Releases = NONE

    @property
    def holds(self) -> str:
        """The definition or enum of the field, or of the items of its list or map."""
        return self.type.lstrip("[]{}")


class Value(msgspec.Struct, frozen=True):
    """The releases and feature gates on which a value of an enum depends."""

    releases: Releases
    gates: tuple[str, ...] = ()


class Served(msgspec.Struct, frozen=True):
    """A resource as Kubernetes serves it in one group and version, with its releases."""

    group: str
    version: str
    plural: str
    kind: str
    releases: Releases
    namespaced: bool = False
    verbs: frozenset[str] = EVERY_VERB
    subresources: Mapping[str, Releases] = msgspec.field(default_factory=dict)
    off: Releases = NONE
    """The releases that serve it only with `--runtime-config`."""
    stored: Mapping[str, Releases] = msgspec.field(default_factory=dict)
    """Further versions in which releases store the kind."""
    introduced: str = ""
    deprecated: str = ""
    removed: str = ""
    replacement: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def definition(self) -> str:
        return f"{package(self.group)}.{self.version}.{self.kind}"

    def by_default(self, version: Version) -> bool:
        """Whether a release serves it by default."""
        return self.releases.has(version) and not self.off.has(version)

    def storage_version(self, version: Version) -> str:
        """Return the version in which a release stores it."""
        return next((other for other, when in self.stored.items() if when.has(version)), self.version)


Definitions = Mapping[str, Mapping[str, Field]]
Enums = Mapping[str, Mapping[str, Value]]


def package(group: str) -> str:
    """Return the package name of a group's definitions."""
    return _PACKAGES.get(group) or group.partition(".")[0]


class History(msgspec.Struct, frozen=True):
    """The tables of Kubernetes' API history: fields of types, values of enums, and resources."""

    definitions: Definitions
    enums: Enums
    resources: Sequence[Served]
    _by_kind: Mapping[tuple[str, str, str], Served]

    def kind(self, group: str, version: str, kind: str) -> Served | None:
        return self._by_kind.get((group, version, kind))

    def versions(self, group: str, plural: str) -> list[Served]:
        """Return the versions of a resource."""
        return [each for each in self.resources if (each.group, each.plural) == (group, plural)]

    @property
    def groups(self) -> frozenset[str]:
        return frozenset(each.group for each in self.resources)


@cache
def served_resources() -> Sequence[Served]:
    """Read the resources only, in a fraction of the time for all fields."""
    return [_parse_resource(line.split(" ")) for line in _lines((_FOLDER / "resources.txt").read_text())]


@cache
def history() -> History:
    """Read the tables of Kubernetes' API history, on the first call."""
    served = served_resources()
    definitions, enums = _definitions(_FOLDER / "fields.txt")
    return History(definitions, enums, served, {(each.group, each.version, each.kind): each for each in served})


@cache
def changing_fields() -> tuple[Definitions, Enums]:
    """Read the fields and values of Mooring's own kinds that differ between releases: small enough for every server."""
    return _definitions(CHANGING)


def _definitions(file: Path) -> tuple[Definitions, Enums]:
    definitions: dict[str, dict[str, Field]] = {}
    enums: dict[str, dict[str, Value]] = {}
    fields: dict[str, Field] = {}
    for line in _lines(file.read_text()):
        if line.startswith("  "):
            name, *words = line[2:].split(" ")
            fields[name] = _field(name, words)
        elif line.startswith("enum "):
            _, name, *values = line.split(" ")
            enums[name] = dict(map(_value, values))
        else:
            fields = definitions[line] = {}
    return definitions, enums


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if not line.startswith("#"))


@cache
def _releases(text: str) -> Releases:
    return Releases.parse(text)


def _field(name: str, words: list[str]) -> Field:
    kind, *more = words
    if not more:
        return Field(name, kind)
    releases, gates, default, deprecated = ALL, [], "", NONE
    for word in more:
        what, equals, value = word.partition("=")
        if what == "gate":
            gates.append(value)
        elif what == "default":
            default = value
        elif what == "deprecated":
            deprecated = _releases(value) if equals else ALL
        else:
            releases = _releases(word)
    return Field(name, kind, releases, tuple(gates), default, deprecated)


def _value(word: str) -> tuple[str, Value]:
    word, *gates = word.split("!")
    name, _, when = word.partition("@")
    return unquote(name), Value(_releases(when), tuple(gates))


def _parse_resource(words: list[str]) -> Served:
    place, kind, when, *more = words
    group, version, plural = place.split("/") if place.count("/") == 2 else ("", *place.split("/"))
    about = [word.partition("=")[::2] for word in more]
    said = dict(about)
    subs = dict(each.partition("@")[::2] for each in said["sub"].split(";")) if "sub" in said else {}
    stored = (value.partition("@")[::2] for what, value in about if what == "stored")
    return Served(
        group,
        version,
        plural,
        kind,
        _releases(when),
        "namespaced" in said,
        frozenset(said["verbs"].split(",")) if "verbs" in said else EVERY_VERB,
        {name: _releases(at) for name, at in subs.items()},
        (_releases(said["off"]) if said["off"] else ALL) if "off" in said else NONE,
        {version: _releases(at) for version, at in stored},
        said.get("introduced", ""),
        said.get("deprecated", ""),
        said.get("removed", ""),
        said.get("use", ""),
    )
