"""The options of lint: the server's options at the requested versions and gates, computed once.

`Settings` are the user's and can be sent to another process; `LintOptions` are derived from them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from mooring.admission import options as admission_options
from mooring.admission.options import AdmissionOptions
from mooring.advisor.lint.facts import ClusterFacts
from mooring.advisor.lint.removed_apis import removal_of
from mooring.advisor.lint.rules import Problem, Rule, Severity
from mooring.api.core_v1 import Node
from mooring.api.kinds import ALPHA, Kind
from mooring.api.scheme import Scheme
from mooring.base.component import Component
from mooring.base.version import ComponentVersions, Version
from mooring.constraints import options as constraint_options
from mooring.constraints.options import ConstraintOptions


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a lint run as the user requests them."""

    component: Component
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    nodes: tuple[Node, ...] | None = None
    """The nodes of the cluster, if they are known."""
    facts: ClusterFacts | None = None
    """Further known facts of the cluster."""
    disabled: frozenset[str] = frozenset()
    """The numbers of disabled rules."""
    strict: bool = False
    """Whether warnings count as errors."""
    kubernetes: str = ""
    """The release of Kubernetes to lint for, instead of Mooring's versions and gates."""


@dataclass(frozen=True, slots=True)
class LintOptions:
    """The options derived from a lint run's settings: the server's admission, and lifecycles of API versions."""

    scheme: Scheme
    admission: AdmissionOptions
    newest: AdmissionOptions
    """Admission of the newest server with default gates, which may have stored objects rejected here."""
    constraints: ConstraintOptions
    absence: Callable[[str, str], str | None]
    """Return why the server does not serve an API version and kind; None if it does, or if that is unknown."""
    departure: Callable[[str, str], str | None]
    """Return the warning about an API version that the next minor release removes; None for others."""
    facts: ClusterFacts
    settings: Settings
    release: Callable[[Any], list[Problem]] | None = None
    """The fields that the release of Kubernetes lacks; None unless linting for a release."""

    def severity(self, rule: Rule) -> Severity:
        return Severity.ERROR if self.settings.strict and rule.severity is Severity.WARNING else rule.severity


def build_options(settings: Settings) -> LintOptions:
    """Derive the lint options from settings. Raise `SchemeError` if the runtime configuration is wrong."""
    versions = settings.component.versions
    scheme = Scheme(versions, settings.runtime_config or MappingProxyType({}))
    lives = _Lifecycles(scheme, versions)
    facts = settings.facts or ClusterFacts()
    # Discovery is more exact than the version.
    absence = lives.absence if facts.served is None else lambda _version, _kind: None
    return LintOptions(
        scheme=scheme,
        admission=admission_options.for_component(settings.component),
        newest=AdmissionOptions(),
        constraints=constraint_options.from_gates(settings.component.gates),
        absence=lru_cache(maxsize=1024)(lambda version, kind: facts.absence(version, kind) or absence(version, kind)),
        departure=lru_cache(maxsize=1024)(lives.departure),
        facts=facts,
        settings=settings,
        release=_release_check(settings.kubernetes),
    )


def _release_check(kubernetes: str) -> Callable[[Any], list[Problem]] | None:
    if not kubernetes:
        return None
    from mooring.advisor.releases.single import Release  # noqa: PLC0415 - few ask for it

    return Release(kubernetes).problems


@dataclass(frozen=True, slots=True)
class _Lifecycles:
    scheme: Scheme
    versions: ComponentVersions

    def absence(self, api_version: str, kind: str) -> str | None:
        found = self.scheme.kind(api_version, kind)
        here = self.versions.emulation
        if found is not None:
            return None if self.scheme.is_served(found) else self._why_not_served(found)
        removal = removal_of(api_version, kind)
        if removal is not None and Version.parse(removal.release) <= here:
            return f"{api_version} {kind} was removed in {removal.release}{_replacement_text(removal.replacement)}"
        group = api_version.rpartition("/")[0]
        others = [known.api_version for known in self.scheme.known if (known.group, known.kind) == (group, kind)]
        if others:
            return f"{api_version} {kind} does not exist{_replacement_text(' or '.join(dict.fromkeys(others)))}"
        return None

    def _why_not_served(self, kind: Kind) -> str:
        life, here = kind.lifecycle, self.versions.emulation
        name = f"{kind.api_version} {kind.kind}"
        if here < life.introduced:
            return f"{name} does not exist at {here}: it was introduced in {life.introduced}"
        if not life.known_at(here):
            return f"{name} was removed in {life.removed}{_replacement_text(self._find_replacement(kind))}"
        if kind.stability == ALPHA and self.versions.is_emulating:
            return f"{name} is alpha, and not served while {self.versions.binary} emulates {here}"
        return f"{name} is not served unless it is switched on: --runtime-config={kind.api_version}=true"

    def _find_replacement(self, kind: Kind) -> str:
        """Return the API version to use instead: Kubernetes' advice, or the newest version if there is none."""
        newest = self.scheme.hub(kind)
        return kind.lifecycle.replacement or ("" if newest is kind else newest.api_version)

    def departure(self, api_version: str, kind: str) -> str | None:
        found, following = self.scheme.kind(api_version, kind), self.versions.emulation.plus(1)
        if found is not None:
            removed, replacement = found.lifecycle.removed, self._find_replacement(found)
        else:
            removal = removal_of(api_version, kind)
            removed = Version.parse(removal.release) if removal else None
            replacement = removal.replacement if removal else ""
        if removed != following:
            return None
        return f"{api_version} {kind} is removed in {following}, the next minor version{_replacement_text(replacement)}"


def _replacement_text(replacement: str) -> str:
    return f"; use {replacement}" if replacement else ""
