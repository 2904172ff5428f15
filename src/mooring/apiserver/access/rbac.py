"""Authorize requests by roles and bindings, as Kubernetes' RBAC does: an action without a binding that allows it is
refused.

`RoleBook` is a snapshot of all roles and bindings, indexed by subject; `RbacAuthorizer` follows the store and builds a
new book whenever one changes. Within a book, the rights of a user on a resource in a namespace are computed once. A
ClusterRole with an aggregation rule has the rules of the selected roles at once, without waiting for a controller to
copy them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from mooring.api import label_selector
from mooring.api.authentication_v1 import UserInfo
from mooring.api.meta_v1 import Resource
from mooring.api.rbac_v1 import (
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from mooring.api.scheme import Scheme
from mooring.apiserver.access.authz import Attributes, Decision
from mooring.apiserver.messages import users
from mooring.apiserver.registry.storage.objects import KindsFollower
from mooring.base.bounded_cache import BoundedCache
from mooring.store.kv import Store

_TYPES: tuple[type[Resource], ...] = (ClusterRole, ClusterRoleBinding, Role, RoleBinding)
_MEMO = 8192
_MEMO_KEY = 4096
_SubjectKey = tuple[str, str]
"""The kind (`User` or `Group`) and name by which bindings are indexed; service accounts are users."""
EVERYTHING = [
    PolicyRule(verbs=["*"], api_groups=["*"], resources=["*"]),
    PolicyRule(verbs=["*"], non_resource_urls=["*"]),
]


class _Grant(msgspec.Struct, frozen=True):
    """The rules that one binding gives a subject, and the text that explains this in decisions."""

    rules: Sequence[PolicyRule]
    reason: str


class _Rights(NamedTuple):
    """A user's rights to a verb on a resource: on all objects, or on those in `names`; the values are reasons."""

    any_name: str | None
    names: dict[str, str]


class RoleBook:
    """An immutable index of all roles and bindings at one moment, by which actions are authorized."""

    def __init__(
        self,
        cluster_roles: Iterable[ClusterRole] = (),
        cluster_role_bindings: Iterable[ClusterRoleBinding] = (),
        roles: Iterable[Role] = (),
        role_bindings: Iterable[RoleBinding] = (),
    ) -> None:
        self._cluster_roles = {role.metadata.name: role for role in cluster_roles}
        self._roles = {(role.metadata.namespace, role.metadata.name): role for role in roles}
        self._grants: dict[tuple[str, _SubjectKey], list[_Grant]] = defaultdict(list)
        self._aggregated: dict[str, list[PolicyRule]] = {}
        self._memo: BoundedCache[tuple[str, ...], _Rights] = BoundedCache(_MEMO)
        for cluster_role_binding in cluster_role_bindings:
            self._index_binding(cluster_role_binding)
        for role_binding in role_bindings:
            self._index_binding(role_binding)

    def rules_of(self, reference: RoleRef, namespace: str) -> list[PolicyRule] | None:
        """Return the rules of a role that a `roleRef` names, and of those it aggregates; None if it does not exist."""
        if reference.kind != "ClusterRole":
            role = self._roles.get((namespace, reference.name))
            return role.rules if role else None
        cluster_role = self._cluster_roles.get(reference.name)
        if cluster_role is None or not cluster_role.aggregation_rule:
            return cluster_role.rules if cluster_role else None
        if reference.name not in self._aggregated:
            rules = self._aggregate_rules(cluster_role, cluster_role.aggregation_rule)
            self._aggregated[reference.name] = rules
        return self._aggregated[reference.name]

    def _aggregate_rules(self, role: ClusterRole, how: AggregationRule) -> list[PolicyRule]:
        rules = {msgspec.json.encode(rule): rule for rule in role.rules}
        for wanted in how.cluster_role_selectors:
            selector = label_selector.from_label_selector(wanted)
            for name in sorted(self._cluster_roles):
                other = self._cluster_roles[name]
                if other is not role and selector.matches(other.metadata.labels):
                    rules |= {msgspec.json.encode(rule): rule for rule in other.rules}
        return list(rules.values())

    def rules(self, user: UserInfo, namespace: str) -> list[PolicyRule]:
        if users.MASTERS in user.groups:
            return EVERYTHING
        return [rule for grant in self._grants_of(user, namespace) for rule in grant.rules]

    def authorize(self, user: UserInfo, attributes: Attributes) -> Decision:
        if users.MASTERS in user.groups:
            return Decision(True)
        if attributes.path:
            return self._authorize_path(user, attributes)
        decision = self._cached_rights(user, attributes)
        why = decision.any_name
        if why is None and attributes.name:
            why = decision.names.get(attributes.name)
        return Decision(False) if why is None else Decision(True, why)

    def _index_binding(self, binding: ClusterRoleBinding | RoleBinding) -> None:
        namespace = binding.metadata.namespace
        rules = self.rules_of(binding.role_ref, namespace)
        if rules is None:
            return  # a binding may come before its role
        kind = "RoleBinding" if namespace else "ClusterRoleBinding"
        name = f"{namespace}/{binding.metadata.name}" if namespace else binding.metadata.name
        for subject in binding.subjects:
            role = f'{binding.role_ref.kind} "{binding.role_ref.name}"'
            reason = f'RBAC: allowed by {kind} "{name}" of {role} to {subject.kind} "{_format_subject(subject)}"'
            self._grants[namespace, _subject_of(subject, namespace)].append(_Grant(rules, reason))

    def _grants_of(self, user: UserInfo, namespace: str) -> Iterator[_Grant]:
        subjects = [("User", user.username), *(("Group", group) for group in user.groups)]
        for scope in ("", namespace) if namespace else ("",):
            for subject in subjects:
                yield from self._grants.get((scope, subject), ())

    def _authorize_path(self, user: UserInfo, attributes: Attributes) -> Decision:
        for grant in self._grants_of(user, ""):
            for rule in grant.rules:
                if grants(rule, attributes):
                    return Decision(True, grant.reason)
        return Decision(False)

    def _cached_rights(self, user: UserInfo, attributes: Attributes) -> _Rights:
        key = (
            user.username,
            *user.groups,
            attributes.verb,
            attributes.group,
            attributes.resource,
            attributes.subresource,
            attributes.namespace,
        )
        if sum(map(len, key)) > _MEMO_KEY:
            return self._compute_rights(user, attributes)  # a question of a review, not worth a cache entry
        found = self._memo.get(key)
        if found is None:
            found = self._compute_rights(user, attributes)
            self._memo.put(key, found)
        return found

    def _compute_rights(self, user: UserInfo, attributes: Attributes) -> _Rights:
        names: dict[str, str] = {}
        for grant in self._grants_of(user, attributes.namespace):
            for rule in grant.rules:
                if not resource_matches(rule, attributes):
                    continue
                if not rule.resource_names:
                    return _Rights(grant.reason, names)
                names.update({name: grant.reason for name in rule.resource_names if name not in names})
        return _Rights(None, names)


def resource_matches(rule: PolicyRule, attributes: Attributes) -> bool:
    """Return whether a rule's verbs, groups and resources include an action; the object's name is ignored."""
    if not (_includes_value(rule.verbs, attributes.verb) and _includes_value(rule.api_groups, attributes.group)):
        return False
    if _includes_value(rule.resources, attributes.full_resource):
        return True
    return bool(attributes.subresource) and f"*/{attributes.subresource}" in rule.resources


def grants(rule: PolicyRule, attributes: Attributes) -> bool:
    """Return whether a rule allows an action on a resource, on the object with the name, or on a non-resource path."""
    if attributes.path:
        return _includes_value(rule.verbs, attributes.verb) and _path_matches(rule.non_resource_urls, attributes.path)
    return resource_matches(rule, attributes) and (not rule.resource_names or attributes.name in rule.resource_names)


def _path_matches(patterns: Sequence[str], path: str) -> bool:
    """Return whether a non-resource path matches one of a rule's patterns; a trailing `*` matches any rest."""
    return any(
        pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern[:-1])) for pattern in patterns
    )


def _includes_value(values: Sequence[str], wanted: str) -> bool:
    return wanted in values or "*" in values


def _subject_of(subject: Subject, namespace: str) -> _SubjectKey:
    if subject.kind == "ServiceAccount":
        return "User", users.service_account_name(subject.namespace or namespace, subject.name)
    return subject.kind, subject.name


def _format_subject(subject: Subject) -> str:
    return f"{subject.name}/{subject.namespace}" if subject.kind == "ServiceAccount" else subject.name


class RbacAuthorizer(KindsFollower):
    """Authorizes actions by the roles and bindings in the store, following their changes."""

    def __init__(self, store: Store, scheme: Scheme) -> None:
        super().__init__(store, scheme, map(scheme.hub_of, _TYPES))
        self._book: RoleBook | None = None

    @property
    def book(self) -> RoleBook:
        if self._book is None:
            self._book = RoleBook(*(self._followers[each.__name__].objects.values() for each in _TYPES))
        return self._book

    def authorize(self, user: UserInfo, attributes: Attributes) -> Decision:
        return self.book.authorize(user, attributes)

    async def prepare(self, user: UserInfo, attributes: Attributes) -> None:
        """Do nothing, since all roles and bindings are in memory."""

    def rules(self, user: UserInfo, namespace: str) -> list[PolicyRule]:
        return self.book.rules(user, namespace)

    @property
    def synced(self) -> bool:
        return all(each.synced.is_set() for each in self._followers.values())

    def _on_changes(self) -> None:
        self._book = None
