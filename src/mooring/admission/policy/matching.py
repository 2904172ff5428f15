"""Match requests against the rules and selectors of policies, bindings and webhooks.

    matcher = Matcher.from_match_resources(policy.spec.match_constraints)
    view = matcher.match(attributes, namespace_labels)     # the matched kind and resource, None if it does not match

Rules name operations, groups, versions, resources with subresources, a scope and names. With the match policy
`Equivalent` a rule for one version also matches the object written in another version, converted to its own. Selectors
match the labels of the namespace, and of the old or new object. `MatcherIndex` finds the candidates among thousands of
matchers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, Protocol, TypeVar

from mooring.admission.policy.attributes import Attributes, GroupVersionKind, GroupVersionResource, MatchKey
from mooring.api import admissionregistration_v1 as v1
from mooring.api import label_selector
from mooring.api.label_selector import EVERYTHING, Selector
from mooring.api.meta_v1 import LabelSelector

ANY = "*"
MAX_CACHED_KEYS = 1024
"""The maximum number of cached match keys."""
NamespaceLabels = Callable[[str], Mapping[str, str]]
"""A function that returns the labels of a namespace; it raises NotFound."""


class RequestView(NamedTuple):
    """The kind and resource in which a policy or webhook sees a request: as sent, or converted to another version."""

    kind: GroupVersionKind
    resource: GroupVersionResource


def rule_matches(rule: v1.RuleWithOperations, attributes: Attributes, resource: GroupVersionResource) -> bool:
    """Return whether a rule matches a request if its resource were `resource`; the rule's object names are ignored."""
    return (
        _includes_or_wildcard(rule.operations, attributes.operation)
        and _includes_or_wildcard(rule.api_groups, resource.group)
        and _includes_or_wildcard(rule.api_versions, resource.version)
        and _scope_matches(rule.scope, attributes)
        and any(_resource_matches(each, resource.resource, attributes.subresource) for each in rule.resources)
    )


def _includes_or_wildcard(wanted: Sequence[str], found: str) -> bool:
    return found in wanted or ANY in wanted


def _scope_matches(scope: str | None, attributes: Attributes) -> bool:
    if scope is None or scope == ANY:
        return True
    namespaced = bool(attributes.namespace) and not attributes.is_for_namespaces
    return namespaced == (scope == "Namespaced")


def _resource_matches(wanted: str, resource: str, subresource: str) -> bool:
    name, _, below = wanted.partition("/")
    return name in (ANY, resource) and below in (ANY, subresource)


def match_any_rule(
    rules: Sequence[v1.RuleWithOperations], match_policy: str | None, attributes: Attributes
) -> RequestView | None:
    """Return the kind and resource, in the sent or an equivalent version, that the first rule matches; None if none."""
    for rule in rules:
        if rule_matches(rule, attributes, attributes.resource) and _name_matches(rule, attributes.name):
            return RequestView(attributes.kind, attributes.resource)
    if match_policy != v1.EQUIVALENT:
        return None
    others = [each for each in attributes.list_equivalent_kinds() if each is not attributes.resource_kind]
    for rule in rules if others else ():
        for each in others:
            resource = GroupVersionResource.of_kind(each)
            if rule_matches(rule, attributes, resource) and _name_matches(rule, attributes.name):
                return RequestView(attributes.get_equivalent_object_kind(each), resource)
    return None


def _name_matches(rule: v1.RuleWithOperations, name: str) -> bool:
    names = rule.resource_names if isinstance(rule, v1.NamedRuleWithOperations) else ()
    return not names or name in names


@dataclass(frozen=True)
class Matcher:
    """The match rules, exclude rules and label selectors of a policy, binding or webhook."""

    rules: Sequence[v1.RuleWithOperations] = ()
    """The match rules. An empty list matches everything: a binding without rules does not restrict its policy."""
    excluded: Sequence[v1.RuleWithOperations] = ()
    match_policy: str | None = v1.EQUIVALENT
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None

    @classmethod
    def from_match_resources(cls, resources: v1.MatchResources) -> "Matcher":
        return cls(
            resources.resource_rules,
            resources.exclude_resource_rules,
            resources.match_policy,
            resources.namespace_selector,
            resources.object_selector,
        )

    def match(
        self, attributes: Attributes, namespace_labels: NamespaceLabels, by_rules: RequestView | None = None
    ) -> RequestView | None:
        """Return the kind and resource in which a request matches; None if it does not. Raise NotFound if its namespace
        does not exist. `by_rules` is a cached result of `match_rules`.
        """
        found = by_rules or self.match_rules(attributes)
        if found is None or not self._object_matches(attributes):
            return None
        return found if self._namespace_matches(attributes, namespace_labels) else None

    def match_rules(self, attributes: Attributes) -> RequestView | None:
        """Return the kind and resource in which a request matches the rules; None if not. Selectors are ignored."""
        if self.excluded and match_any_rule(self.excluded, self.match_policy, attributes):
            return None
        if self.rules:
            return match_any_rule(self.rules, self.match_policy, attributes)
        return RequestView(attributes.kind, attributes.resource)

    @property
    def selects_all(self) -> bool:
        """Return whether neither the namespace selector nor the object selector excludes anything."""
        return self._namespaces is EVERYTHING and self._objects is EVERYTHING

    @cached_property
    def has_names(self) -> bool:
        """Return whether rules have `resourceNames`, so that matches depend on more than the request's `MatchKey`."""
        named = (each for each in (*self.rules, *self.excluded) if isinstance(each, v1.NamedRuleWithOperations))
        return any(each.resource_names for each in named)

    @cached_property
    def _namespaces(self) -> Selector:
        return _compile_selector(self.namespace_selector)

    @cached_property
    def _objects(self) -> Selector:
        return _compile_selector(self.object_selector)

    def _object_matches(self, attributes: Attributes) -> bool:
        selector = self._objects
        if selector is EVERYTHING:
            return True
        return any(
            each is not None and selector.matches(each.metadata.labels) for each in (attributes.obj, attributes.old)
        )

    def _namespace_matches(self, attributes: Attributes, namespace_labels: NamespaceLabels) -> bool:
        selector = self._namespaces
        if selector is EVERYTHING or (not attributes.namespace and not attributes.is_for_namespaces):
            return True  # cluster-scoped objects are never excluded
        if (
            attributes.is_for_namespaces
            and not attributes.subresource
            and attributes.operation in (v1.CREATE, v1.UPDATE)
        ):
            return attributes.obj is not None and selector.matches(attributes.obj.metadata.labels)
        return selector.matches(namespace_labels(attributes.namespace))


def _compile_selector(selector: LabelSelector | None) -> Selector:
    return EVERYTHING if selector is None else label_selector.from_label_selector(selector)


class HasMatcher(Protocol):
    """Interface of the items of a `MatcherIndex`: a policy or webhook with the matcher for its requests."""

    @property
    def matcher(self) -> Matcher: ...


C = TypeVar("C", bound=HasMatcher)


class MatcherIndex(Generic[C]):
    """Finds the policies or webhooks whose match rules match a request; caches the result by `MatchKey`."""

    def __init__(self, everyone: Iterable[C]) -> None:
        self._all = [*everyone]
        self._known: dict[MatchKey, list[tuple[C, RequestView | None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def matches_nothing(self, key: MatchKey) -> bool:
        """Return whether, by the cache, no policy or webhook matches requests with this key; False if not cached."""
        return not self._all or self._known.get(key) == []

    def candidates(self, attributes: Attributes) -> list[C]:
        """Return, in order, the policies or webhooks whose match rules match a request. Selectors are ignored."""
        return [each for each, _ in self.find_candidates_with_views(attributes)]

    def find_candidates_with_views(self, attributes: Attributes) -> list[tuple[C, RequestView | None]]:
        """Return the policies or webhooks whose rules match a request, each with the matched kind and resource,
        or with None if its rules have object names, which the caller must then match.
        """
        if not self._all:
            return []
        key = attributes.match_key
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MAX_CACHED_KEYS:
                self._known.clear()
            found = self._known[key] = [*self._find_candidates(attributes)]
        return found

    def _find_candidates(self, attributes: Attributes) -> Iterator[tuple[C, RequestView | None]]:
        same: dict[RequestView, RequestView] = {}  # one shared object per distinct view
        for each in self._all:
            if not each.matcher.has_names:
                match = each.matcher.match_rules(attributes)
                if match is not None:
                    yield each, same.setdefault(match, match)
            elif _may_match_without_names(each.matcher, attributes):
                yield each, None


def _may_match_without_names(matcher: Matcher, attributes: Attributes) -> bool:
    kinds = [attributes.resource]
    if matcher.match_policy == v1.EQUIVALENT:
        kinds += [GroupVersionResource.of_kind(each) for each in attributes.list_equivalent_kinds()]
    return any(rule_matches(rule, attributes, kind) for rule in matcher.rules for kind in kinds)
