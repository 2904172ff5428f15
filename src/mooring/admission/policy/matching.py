"""Which requests a policy, a binding or a webhook concerns.

    matcher = Matcher.of(policy.spec.match_constraints)
    match = matcher.match(attributes, namespace_labels)    # the kind and resource that it sees, None if none of its own

Rules name operations, groups, versions, resources with subresources, a scope and names. With the match policy
`Equivalent` a rule for one version concerns the same object written in another, and sees it in its own. Selectors look
at the labels of the namespace, and of the object as it was or will be. `Index` finds among thousands of matchers those
whose rules can match at all.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, Protocol, TypeVar

from mooring.admission.policy.attributes import Attributes, GroupVersionKind, GroupVersionResource, Sort
from mooring.api import label_selector
from mooring.api.admissionregistration_v1 import (
    CREATE,
    EQUIVALENT,
    UPDATE,
    MatchResources,
    NamedRuleWithOperations,
    RuleWithOperations,
)
from mooring.api.label_selector import EVERYTHING, Selector
from mooring.api.meta_v1 import LabelSelector

ANY = "*"
REMEMBERED = 1024
"""Of how many sorts of requests is kept what was found out about them."""
NamespaceLabels = Callable[[str], Mapping[str, str]]
"""The labels of a namespace; raises NotFound where there is none."""


class Match(NamedTuple):
    """As what a request is seen by whom it concerns."""

    kind: GroupVersionKind
    resource: GroupVersionResource


def rule_matches(rule: RuleWithOperations, attributes: Attributes, resource: GroupVersionResource) -> bool:
    """Whether a rule covers a request, taken as one for `resource`; names do not count here."""
    return (
        _among(rule.operations, attributes.operation)
        and _among(rule.api_groups, resource.group)
        and _among(rule.api_versions, resource.version)
        and _scope_matches(rule.scope, attributes)
        and any(_resource_matches(each, resource.resource, attributes.subresource) for each in rule.resources)
    )


def _among(wanted: Sequence[str], found: str) -> bool:
    return found in wanted or ANY in wanted


def _scope_matches(scope: str | None, attributes: Attributes) -> bool:
    if scope is None or scope == ANY:
        return True
    namespaced = bool(attributes.namespace) and not attributes.is_of_namespace
    return namespaced == (scope == "Namespaced")


def _resource_matches(wanted: str, resource: str, subresource: str) -> bool:
    name, _, below = wanted.partition("/")
    return name in (ANY, resource) and below in (ANY, subresource)


def matched(rules: Sequence[RuleWithOperations], match_policy: str | None, attributes: Attributes) -> Match | None:
    """As what the rules see a request; None if they do not cover it."""
    for rule in rules:
        if rule_matches(rule, attributes, attributes.resource) and _name_matches(rule, attributes.name):
            return Match(attributes.kind, attributes.resource)
    if match_policy != EQUIVALENT:
        return None
    others = [each for each in attributes.equivalents() if each is not attributes.resource_kind]
    for rule in rules if others else ():
        for each in others:
            resource = GroupVersionResource.of(each)
            if rule_matches(rule, attributes, resource) and _name_matches(rule, attributes.name):
                return Match(attributes.kind_in(each), resource)
    return None


def _name_matches(rule: RuleWithOperations, name: str) -> bool:
    names = rule.resource_names if isinstance(rule, NamedRuleWithOperations) else ()
    return not names or name in names


@dataclass(frozen=True)
class Matcher:
    """What a policy, a binding or a webhook says about whom it concerns."""

    rules: Sequence[RuleWithOperations] = ()
    """Without any, everything is covered: bindings say nothing more than their policy then."""
    excluded: Sequence[RuleWithOperations] = ()
    match_policy: str | None = EQUIVALENT
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None

    @classmethod
    def of(cls, resources: MatchResources) -> "Matcher":
        return cls(
            resources.resource_rules,
            resources.exclude_resource_rules,
            resources.match_policy,
            resources.namespace_selector,
            resources.object_selector,
        )

    def match(
        self, attributes: Attributes, namespace_labels: NamespaceLabels, by_rules: Match | None = None
    ) -> Match | None:
        """As what a request is seen; None if it is not concerned. Raises NotFound for a namespace that is not there.

        `by_rules` is what the rules alone say, where that is known already (see `Index`).
        """
        found = by_rules or self.match_rules(attributes)
        if found is None or not self._object_matches(attributes):
            return None
        return found if self._namespace_matches(attributes, namespace_labels) else None

    def match_rules(self, attributes: Attributes) -> Match | None:
        """The same by the rules alone."""
        if self.excluded and matched(self.excluded, self.match_policy, attributes):
            return None
        if self.rules:
            return matched(self.rules, self.match_policy, attributes)
        return Match(attributes.kind, attributes.resource)

    @property
    def selects_all(self) -> bool:
        """Whether no label keeps anything out."""
        return self._namespaces is EVERYTHING and self._objects is EVERYTHING

    @cached_property
    def has_names(self) -> bool:
        """Whether its rules look at the name of an object, so that they have to be asked every time."""
        named = (each for each in (*self.rules, *self.excluded) if isinstance(each, NamedRuleWithOperations))
        return any(each.resource_names for each in named)

    @cached_property
    def _namespaces(self) -> Selector:
        return _selector(self.namespace_selector)

    @cached_property
    def _objects(self) -> Selector:
        return _selector(self.object_selector)

    def _object_matches(self, attributes: Attributes) -> bool:
        selector = self._objects
        if selector is EVERYTHING:
            return True
        return any(
            each is not None and selector.matches(each.metadata.labels) for each in (attributes.obj, attributes.old)
        )

    def _namespace_matches(self, attributes: Attributes, namespace_labels: NamespaceLabels) -> bool:
        selector = self._namespaces
        if selector is EVERYTHING or (not attributes.namespace and not attributes.is_of_namespace):
            return True  # what is in no namespace is never spared
        if attributes.is_of_namespace and not attributes.subresource and attributes.operation in (CREATE, UPDATE):
            return attributes.obj is not None and selector.matches(attributes.obj.metadata.labels)
        return selector.matches(namespace_labels(attributes.namespace))


def _selector(selector: LabelSelector | None) -> Selector:
    return EVERYTHING if selector is None else label_selector.from_label_selector(selector)


class Concerned(Protocol):
    """Something that has a matcher."""

    @property
    def matcher(self) -> Matcher: ...


C = TypeVar("C", bound=Concerned)


class Index(Generic[C]):
    """Finds those whose rules can cover a request, whatever it is called and labelled; each sort of request once."""

    def __init__(self, everyone: Iterable[C]) -> None:
        self._everyone = [*everyone]
        self._known: dict[Sort, list[tuple[C, Match | None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._everyone)

    def spares(self, sort: Sort) -> bool:
        """Whether a sort of request is known to concern nobody."""
        return not self._everyone or self._known.get(sort) == []

    def concerned(self, attributes: Attributes) -> list[C]:
        """In their order."""
        return [each for each, _ in self.matching(attributes)]

    def matching(self, attributes: Attributes) -> list[tuple[C, Match | None]]:
        """The same, each with what its rules say; None where that depends on the object's name."""
        if not self._everyone:
            return []
        sort = attributes.sort
        found = self._known.get(sort)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[sort] = [*self._found(attributes)]
        return found

    def _found(self, attributes: Attributes) -> Iterator[tuple[C, Match | None]]:
        same: dict[Match, Match] = {}  # one object for all that see the request alike
        for each in self._everyone:
            if not each.matcher.has_names:
                match = each.matcher.match_rules(attributes)
                if match is not None:
                    yield each, same.setdefault(match, match)
            elif _may_match(each.matcher, attributes):
                yield each, None


def _may_match(matcher: Matcher, attributes: Attributes) -> bool:
    """Whether rules with names cover a request, whatever its object is called."""
    kinds = [attributes.resource]
    if matcher.match_policy == EQUIVALENT:
        kinds += [GroupVersionResource.of(each) for each in attributes.equivalents()]
    return any(rule_matches(rule, attributes, kind) for rule in matcher.rules for kind in kinds)
