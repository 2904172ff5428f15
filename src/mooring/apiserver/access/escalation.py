"""Prevent privilege escalation by writes of roles and bindings.

The author of a role needs all rights in it, or the verb `escalate` on it. The author of a binding needs all rights of
its role, or the verb `bind` on the role. Every change is checked, because even a label grants rights if another role
aggregates by it; only changes of owner references and finalizers are exempt. Called before a role or binding is stored.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.api.base import copy_of
from mooring.api.meta_v1 import Resource
from mooring.api.quoting import go_quote
from mooring.api.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef
from mooring.apiserver.access.authz import Attributes
from mooring.apiserver.access.rbac import EVERYTHING, RbacAuthorizer, grants
from mooring.apiserver.messages import users

GROUP = "rbac.authorization.k8s.io"
_MOST_WORK = 10_000_000
"""The maximum number of comparisons of rights for one write: far more than reasonable roles need."""


class EscalationCheck:
    """Refuses writes of roles and bindings that grant rights which their author does not have."""

    kinds = (ClusterRole, Role, ClusterRoleBinding, RoleBinding)

    def __init__(self, authorizer: RbacAuthorizer) -> None:
        self._authorizer = authorizer

    def check(self, user: UserInfo, new: Resource | None, old: Resource | None, subresource: str) -> None:  # noqa: ARG002 - roles have none
        """Raise Forbidden if a role or binding grants rights that the user lacks and may not grant."""
        if users.MASTERS in user.groups or not isinstance(new, self.kinds):
            return
        if old is not None and changes_only_owners(new, old):
            return
        if isinstance(new, ClusterRole | Role):
            self._check_role(user, new, old)
        else:
            self._check_binding(user, new)

    def _check_role(self, user: UserInfo, role: ClusterRole | Role, old: Resource | None) -> None:
        resource = "roles" if isinstance(role, Role) else "clusterroles"
        if self._may_use_verb(user, "escalate", resource, role.metadata.namespace, role.metadata.name):
            return
        self._refuse_missing_rights(user, role.rules, resource, role)
        is_aggregated = _is_aggregated(role) or _is_aggregated(old)
        if is_aggregated and missing_rights(EVERYTHING, self._authorizer.rules(user, "")):
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise errors.forbidden(resource, role.metadata.name, why, group=GROUP)

    def _check_binding(self, user: UserInfo, binding: ClusterRoleBinding | RoleBinding) -> None:
        namespace = binding.metadata.namespace
        reference = binding.role_ref
        bound = "roles" if reference.kind == "Role" else "clusterroles"
        if self._may_use_verb(user, "bind", bound, namespace, reference.name):
            return
        resource = "rolebindings" if isinstance(binding, RoleBinding) else "clusterrolebindings"
        self._refuse_missing_rights(user, self._rules_of(reference, namespace), resource, binding)

    def _rules_of(self, reference: RoleRef, namespace: str) -> list[PolicyRule]:
        rules = self._authorizer.book.rules_of(reference, namespace)
        if rules is None:
            resource = "roles" if reference.kind == "Role" else "clusterroles"
            raise errors.not_found(resource, reference.name, group=GROUP)
        return rules

    def _may_use_verb(self, user: UserInfo, verb: str, resource: str, namespace: str, name: str) -> bool:
        attributes = Attributes(verb, GROUP, resource, "", namespace, name)
        return self._authorizer.authorize(user, attributes).allowed

    def _refuse_missing_rights(self, user: UserInfo, rules: Sequence[PolicyRule], resource: str, obj: Resource) -> None:
        held = self._authorizer.rules(user, obj.metadata.namespace)
        if _count_comparisons(rules, held) > _MOST_WORK:
            why = "it lists too many rights to compare them with those of its author: write several smaller roles"
            raise errors.forbidden(resource, obj.metadata.name, why, group=GROUP)
        missing = missing_rights(rules, held)
        if missing:
            groups = " ".join(go_quote(group) for group in user.groups)
            why = (
                f"user {go_quote(user.username)} (groups=[{groups}]) is attempting to grant RBAC permissions "
                "not currently held:\n" + "\n".join(map(_format_rule, missing))
            )
            raise errors.forbidden(resource, obj.metadata.name, why, group=GROUP)


def missing_rights(wanted: Sequence[PolicyRule], held: Sequence[PolicyRule]) -> list[PolicyRule]:
    """Return the rules in `wanted` that grant any right which none of the rules `held` grants."""
    return [rule for rule in wanted if not all(any(grants(each, right) for each in held) for right in _rights_of(rule))]


def _count_comparisons(wanted: Sequence[PolicyRule], held: Sequence[PolicyRule]) -> int:
    """Return an upper bound of the comparisons in `missing_rights`, to refuse roles that would take too long."""
    words = sum(len(words) for rule in held for words in _fields_of(rule))
    return words * sum(map(_count_rights, wanted))


def _fields_of(rule: PolicyRule) -> tuple[list[str], ...]:
    return rule.verbs, rule.api_groups, rule.resources, rule.resource_names, rule.non_resource_urls


def _count_rights(rule: PolicyRule) -> int:
    verbs, groups, resources, names, paths = map(len, _fields_of(rule))
    return verbs * groups * resources * (names or 1) + verbs * paths


def _rights_of(rule: PolicyRule) -> Iterator[Attributes]:
    """Yield the single rights of a rule, which grants every combination of its lists."""
    for verb, group, full, name in product(rule.verbs, rule.api_groups, rule.resources, rule.resource_names or [""]):
        resource, _, subresource = full.partition("/")
        yield Attributes(verb, group, resource, subresource, name=name)
    for verb, path in product(rule.verbs, rule.non_resource_urls):
        yield Attributes(verb, path=path)


def changes_only_owners(new: Resource, old: Resource) -> bool:
    """Return whether an update changes nothing but owner references and finalizers."""
    copied = copy_of(new)
    metadata, before = copied.metadata, old.metadata
    metadata.owner_references, metadata.finalizers = before.owner_references, before.finalizers
    metadata.managed_fields, metadata.resource_version = before.managed_fields, before.resource_version
    return copied == old


def _is_aggregated(role: Resource | None) -> bool:
    rule = role.aggregation_rule if isinstance(role, ClusterRole) else None
    return rule is not None and bool(rule.cluster_role_selectors)


def _format_rule(rule: PolicyRule) -> str:
    parts = [
        f"{name}:[{' '.join(go_quote(value) for value in values)}]"
        for name, values in (
            ("APIGroups", rule.api_groups),
            ("Resources", rule.resources),
            ("ResourceNames", rule.resource_names),
            ("NonResourceURLs", rule.non_resource_urls),
            ("Verbs", rule.verbs),
        )
        if values
    ]
    return "{" + ", ".join(parts) + "}"
