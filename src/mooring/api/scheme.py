"""The scheme: which kinds are served at a version, in which version they are stored, and conversion between versions.

A component builds one `Scheme` at start, from its versions and `--runtime-config`; no later code reads versions.
*Known* kinds can be decoded and converted at any version, because they may be in the store; which are *served* depends
on the emulation version and `--runtime-config`. Tests pass their own kinds. Read next: ``kinds.py`` for the kinds there
are, ``lifecycles.py`` for when they came and went, ``conversion.py``.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import cast

from msgspec import structs

from mooring.api.dynamic import Dynamic, convert_version
from mooring.api.kinds import ALPHA, BETA, KINDS, STABLE, GroupVersion, Kind, is_version, preference, rank
from mooring.api.meta_v1 import Resource
from mooring.base.version import ComponentVersions, Version

_FIRST_OFF_BY_DEFAULT = Version(1, 24)
"""Beta APIs introduced in this release or later are off by default."""
_ENDPOINTS_DEPRECATED = Version(1, 33)

_LEVELS = {"api/all": (ALPHA, BETA, STABLE), "api/ga": (STABLE,), "api/beta": (BETA,), "api/alpha": (ALPHA,)}
"""The keys of `--runtime-config` that select stability levels; later, more specific ones win."""

_GROUPS = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "resource.k8s.io",
)
"""The order of groups in discovery, which clients use as preference; other groups follow by name."""


class SchemeError(ValueError):
    """An unknown kind, version or switch. The message lists the known ones."""


def parse_runtime_config(text: str) -> dict[str, bool]:
    """Parse `--runtime-config`: `resource.k8s.io/v1beta1=true,api/beta`. A key alone means true."""
    wanted: dict[str, bool] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, _, value = (piece.strip() for piece in part.partition("="))
        switch = {"": True, "true": True, "false": False}.get(value.lower())
        if not key:
            raise SchemeError(f'--runtime-config: "{part}" names no API: write group/version=true')
        if switch is None:
            raise SchemeError(f'--runtime-config: "{value}" is not a value for {key}: write true or false')
        wanted[key] = switch
    return wanted


class Scheme:
    """The kinds of one component."""

    def __init__(
        self,
        versions: ComponentVersions | None = None,
        runtime_config: Mapping[str, bool] = MappingProxyType({}),
        kinds: Iterable[Kind] = KINDS,
    ) -> None:
        self._versions = versions or ComponentVersions.resolve()
        present = (_at_release(self._versions.emulation, kind) for kind in kinds)
        self._known = {(kind.api_version, kind.kind): kind for kind in present}
        self._families = _families(self._known.values())
        self._built_in_families = frozenset(self._families)
        switches = _Switches(self._known.values(), self._versions, runtime_config)
        self.warnings = tuple(switches.warnings)
        """Warnings for the operator at start."""
        self.served = tuple(kind for kind in self._known.values() if switches.serve(kind))
        """The kinds that clients can use, those that only appear in subresources included."""
        self._resources = {(kind.group, kind.version, kind.plural): kind for kind in self.served if kind.plural}
        self._built_in = frozenset(self._resources)
        self.changes = 0
        """Incremented when custom kinds change, so that callers can invalidate caches."""

    def register(self, versions: Iterable[Kind], storage: Kind) -> None:
        """Register all versions of a custom kind, replacing earlier ones; `storage` is the storage version.

        Built-in resources and kinds are never replaced. All versions are known; those that the definition serves are
        served.
        """
        if storage.family in self._built_in_families:
            return
        versions = tuple(kind for kind in versions if not self._is_built_in(kind))
        self.unregister(storage.family)
        self._known |= {(kind.api_version, kind.kind): kind for kind in versions}
        self._families[storage.family] = versions
        self._storage[storage.family] = storage
        served = [kind for kind in versions if kind.custom and kind.custom.version.served]
        added = {(kind.group, kind.version, kind.plural): kind for kind in served}
        self._resources |= {place: kind for place, kind in added.items() if place not in self._built_in}
        self.served = (*self.served, *served)
        self._invalidate()

    def unregister(self, family: tuple[str, str]) -> None:
        """Unregister a custom kind."""
        if family in self._built_in_families:
            return
        gone = frozenset(self._families.pop(family, ()))
        if not gone:
            return
        del self._storage[family]
        for kind in gone:
            del self._known[kind.api_version, kind.kind]
            if self._resources.get((kind.group, kind.version, kind.plural)) is kind:
                del self._resources[kind.group, kind.version, kind.plural]
        self.served = tuple(kind for kind in self.served if kind not in gone)
        self._invalidate()

    def _is_built_in(self, kind: Kind) -> bool:
        known = self._known.get((kind.api_version, kind.kind))
        return known is not None and known.custom is None

    def _invalidate(self) -> None:
        self.changes += 1
        for name in ("_served", "_discovery"):
            self.__dict__.pop(name, None)

    @property
    def known(self) -> tuple[Kind, ...]:
        """All kinds that can be decoded and converted."""
        return tuple(self._known.values())

    def kind(self, api_version: str, kind: str) -> Kind | None:
        """Return a known kind by the apiVersion and kind of its objects."""
        return self._known.get((api_version, kind))

    def type_of(self, api_version: str, kind: str) -> type[Resource] | None:
        """Return the type of a known kind, for decoding (`codec.decode_kind(body, scheme.type_of)`)."""
        found = self.kind(api_version, kind)
        return found.type if found else None

    def kind_of(self, obj: Resource) -> Kind:
        """Return the kind of an object; raise `SchemeError` if it is unknown."""
        kind = self.kind(obj.api_version, obj.kind)
        if kind is None:
            raise SchemeError(f'no kind "{obj.kind}" is registered for version "{obj.api_version}"')
        return kind

    def is_served(self, kind: Kind) -> bool:
        """Whether clients can use a kind, also if it comes from another scheme."""
        return (kind.api_version, kind.kind) in self._served

    def resource(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the served kind of a URL."""
        return self._resources.get((group, version, plural))

    def resources(self, group: str, version: str) -> tuple[Kind, ...]:
        """Return the served kinds of a group-version that have a URL, by name, as discovery lists them."""
        return self._discovery.get(group, {}).get(version, ())

    @property
    def groups(self) -> tuple[str, ...]:
        """The served groups, in the order of discovery."""
        return tuple(self._discovery)

    def versions(self, group: str) -> tuple[str, ...]:
        """Return the served versions of a group, preferred first."""
        return tuple(self._discovery.get(group, ()))

    def family(self, kind: Kind) -> tuple[Kind, ...]:
        """Return all known versions of a kind, newest first."""
        return self._families[kind.family]

    def hub(self, kind: Kind) -> Kind:
        """Return the newest known version of a kind, the hub of conversion; that version itself for custom kinds."""
        return kind if kind.custom else self.family(kind)[0]

    def hub_of(self, object_type: type[Resource]) -> Kind:
        """Return the newest version of a built-in kind by its type; raise KeyError."""
        return self._hubs[object_type]

    @cached_property
    def _hubs(self) -> Mapping[type[Resource], Kind]:
        hubs = (versions[0] for versions in self._families.values())
        return {hub.type: hub for hub in hubs if not hub.custom}

    def storage(self, kind: Kind) -> Kind:
        """Return the storage version of a kind.

        It is the newest version known to the releases before, at and after the minimum compatibility version, so that
        each of them can read what another wrote. Newer kinds use their newest version at the emulation version. Alpha
        versions are used only if there is nothing else.
        """
        return self._storage[kind.family]

    def convert(self, obj: Resource, to: Kind | str) -> Resource:
        """Convert an object to another version (a `Kind` or an apiVersion). Unchanged parts are shared."""
        if self._known.get((obj.api_version, obj.kind)) is to:
            return obj
        source = self.kind_of(obj)
        target = self._target(source, to)
        if target is source:
            return obj
        if source.custom:
            return convert_version(cast("Dynamic", obj), target)
        hub = source.to_hub(obj) if source.to_hub else obj
        converted = target.from_hub(hub) if target.from_hub else hub
        return cast("Resource", structs.replace(converted, api_version=target.api_version, kind=target.kind))

    def deprecation_warning(self, kind: Kind) -> str | None:
        """Return Kubernetes' warning for clients of a deprecated version, or None."""
        if kind.custom:
            return _custom_warning(kind)
        if kind.group == "" and kind.kind == "Endpoints" and self._versions.emulation >= _ENDPOINTS_DEPRECATED:
            return "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
        life = kind.lifecycle
        if life.deprecated is None or self._versions.emulation < life.deprecated:
            return None
        text = f"{kind.api_version} {kind.kind} is deprecated in v{life.deprecated}+"
        text += f", unavailable in v{life.removed}+" if life.removed else ""
        return text + (f"; use {life.replacement} {kind.kind}" if life.replacement else "")

    def _target(self, source: Kind, to: Kind | str) -> Kind:
        target = self.kind(to, source.kind) if isinstance(to, str) else to
        if target is None or target.family != source.family:
            wanted = to if isinstance(to, str) else f"{to.api_version} {to.kind}"
            versions = ", ".join(kind.api_version for kind in self.family(source))
            raise SchemeError(f"{source.api_version} {source.kind} cannot be converted to {wanted}, only to {versions}")
        return target

    @cached_property
    def _served(self) -> frozenset[tuple[str, str]]:
        return frozenset((kind.api_version, kind.kind) for kind in self.served)

    @cached_property
    def _discovery(self) -> dict[str, dict[str, tuple[Kind, ...]]]:
        groups: dict[str, dict[str, list[Kind]]] = defaultdict(lambda: defaultdict(list))
        for kind in sorted(self._resources.values(), key=lambda kind: (_group_order(kind.group), kind.plural)):
            groups[kind.group][kind.version].append(kind)
        return {
            group: {version: tuple(versions[version]) for version in sorted(versions, key=preference)}
            for group, versions in groups.items()
        }

    @cached_property
    def _storage(self) -> dict[tuple[str, str], Kind]:
        return {family: _storage_version(kinds, self._versions) for family, kinds in self._families.items()}


def _at_release(emulation: Version, kind: Kind) -> Kind:
    later = {name for name, since in kind.lifecycle.subresources.items() if since > emulation}
    if not later:
        return kind
    return replace(kind, subresources=tuple(each for each in kind.subresources if each.name not in later))


def _families(kinds: Iterable[Kind]) -> dict[tuple[str, str], tuple[Kind, ...]]:
    """Group the versions of each kind, newest first; those that store their objects in another group come last."""
    families: dict[tuple[str, str], list[Kind]] = defaultdict(list)
    for kind in kinds:
        families[kind.family].append(kind)
    for (group, name), versions in families.items():
        versions.sort(key=lambda kind: (kind.storage_group is None, rank(kind.version)), reverse=True)
        hub = versions[0]
        if hub.storage_group is not None:
            raise SchemeError(f"{hub.api_version} {name} keeps its objects in group {group!r}, which has no such kind")
        for kind in versions[1:]:
            if kind.type is not hub.type and not (kind.to_hub and kind.from_hub):
                raise SchemeError(
                    f"{kind.api_version} {name} has another shape than {hub.api_version} and no conversion"
                )
    return {family: tuple(versions) for family, versions in families.items()}


def _storage_version(newest_first: tuple[Kind, ...], versions: ComponentVersions) -> Kind:
    own = [kind for kind in newest_first if kind.storage_group is None]
    stable = [kind for kind in own if kind.stability != ALPHA]
    middle = versions.min_compatibility
    window = (middle.minus(1), middle, middle.plus(1))
    for kind in stable:
        if all(kind.lifecycle.known_at(version) for version in window):
            return kind
    here = [kind for kind in (*stable, *own) if kind.lifecycle.known_at(versions.emulation)]
    return here[0] if here else own[-1]  # a kind that does not exist at this version is never written


def _custom_warning(kind: Kind) -> str | None:
    version = kind.custom.version if kind.custom else None
    if version is None or not version.deprecated:
        return None
    if version.deprecation_warning:
        return version.deprecation_warning
    versions = kind.custom.definition.spec.versions if kind.custom else []
    newer = [each.name for each in versions if each.served and not each.deprecated]
    newer = sorted((name for name in newer if preference(name) < preference(kind.version)), key=preference)
    instead = f"; use {kind.group}/{newer[0]} {kind.kind}" if newer else ""
    return f"{kind.api_version} {kind.kind} is deprecated{instead}"


def _group_order(group: str) -> tuple[int, str]:
    return (_GROUPS.index(group) if group in _GROUPS else len(_GROUPS), group)


class _Switches:
    """The kinds that `--runtime-config` and the versions leave on. The most specific switch wins."""

    def __init__(self, kinds: Iterable[Kind], versions: ComponentVersions, wanted: Mapping[str, bool]) -> None:
        self._versions = versions
        self._kinds = tuple(kinds)
        self._by_level: dict[int, bool] = {}
        self._by_version: dict[GroupVersion, bool] = {}
        self._by_resource: dict[tuple[GroupVersion, str], bool] = {}
        self.warnings: list[str] = []
        if wanted.get("api/all") is False and not any(wanted.values()):
            raise SchemeError(
                "--runtime-config: api/all=false leaves nothing to serve: switch on what you need besides"
            )
        for key, levels in _LEVELS.items():
            if key in wanted:
                self._check_alpha(key, levels == (ALPHA,), on=wanted[key])
                self._by_level.update(dict.fromkeys(levels, wanted[key]))
        for key, on in wanted.items():
            if key not in _LEVELS:
                self._switch(key, on=on)

    def serve(self, kind: Kind) -> bool:
        if kind.is_internal:
            return False
        if not kind.lifecycle.known_at(self._versions.emulation):
            return False
        if kind.stability == ALPHA and self._versions.is_emulating:
            return False
        default = kind.stability == STABLE or (
            kind.stability == BETA and (kind.lifecycle.introduced < _FIRST_OFF_BY_DEFAULT or kind.lifecycle.is_legacy)
        )
        by_level = self._by_level.get(kind.stability, default)
        by_version = self._by_version.get(kind.group_version, by_level)
        return self._by_resource.get((kind.group_version, kind.plural), by_version)

    def _switch(self, key: str, *, on: bool) -> None:
        """Apply a `group/version` or `group/version/resource`; the core group's are `v1` and `v1/resource`."""
        words = key.removeprefix("api/").split("/")
        if is_version(words[0]):
            words = ["", *words]
        if len(words) not in {2, 3}:
            raise SchemeError(f'--runtime-config: "{key}" names no API: write group/version or group/version/resource')
        group_version, resource = GroupVersion(words[0], words[1]), words[2] if len(words) > 2 else ""
        named = self._kinds_named(key, group_version, resource)
        self._check_alpha(key, named[0].stability == ALPHA, on=on)
        if resource:
            self._by_resource[group_version, resource] = on
        else:
            self._by_version[group_version] = on
        if on and not any(kind.lifecycle.known_at(self._versions.emulation) for kind in named):
            self.warnings.append(
                f"--runtime-config: {key} does not exist at {self._versions.emulation}: {_life(named)}"
            )

    def _kinds_named(self, key: str, group_version: GroupVersion, resource: str) -> list[Kind]:
        """Return the kinds that a switch selects; raise if there are none."""
        group = [kind for kind in self._kinds if kind.group == group_version.group]
        if not group:
            known = ", ".join(sorted({kind.group for kind in self._kinds} - {""}))
            raise SchemeError(f'--runtime-config: "{key}" names an unknown API group; known are {known}')
        version = [kind for kind in group if kind.version == group_version.version]
        if not version:
            known = ", ".join(sorted({kind.version for kind in group}, key=rank, reverse=True))
            raise SchemeError(f'--runtime-config: "{key}" names an unknown version; known are {known}')
        named = [kind for kind in version if not resource or kind.plural == resource]
        if not named:
            known = ", ".join(sorted(kind.plural for kind in version if kind.plural))
            raise SchemeError(f'--runtime-config: "{key}" names an unknown resource; known are {known}')
        return named

    def _check_alpha(self, key: str, is_alpha: bool, *, on: bool) -> None:
        if on and is_alpha and self._versions.is_emulating:
            raise SchemeError(
                f"--runtime-config: {key} is alpha and cannot be switched on at emulation version"
                f" {self._versions.emulation}, which is below this binary's {self._versions.binary}"
            )


def _life(kinds: list[Kind]) -> str:
    first = min(kind.lifecycle.introduced for kind in kinds)
    ends = [kind.lifecycle.removed for kind in kinds if kind.lifecycle.removed]
    return f"introduced in {first}" + (f", removed in {max(ends)}" if ends else "")
