"""Nobody gives away more than they have: the check on writes of roles and bindings.

Whoever writes a role must have all its rights, or the verb `escalate` on it; whoever writes a binding must have all
rights of the role that it gives, or the verb `bind` on that role. The resources call `check` before they store one.
"""

from collections.abc import Sequence
from itertools import product

from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.api.meta_v1 import Resource
from mooring.api.quoting import quoted
from mooring.api.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef
from mooring.apiserver.security import users
from mooring.apiserver.security.authz import Attributes
from mooring.apiserver.security.rbac import RbacAuthorizer, path_matches

GROUP = "rbac.authorization.k8s.io"
_Right = tuple[str, str, str, str, str]
"""verb, group, resource, name, path: a rule comes to all combinations of what it lists."""


class EscalationCheck:
    """Judges roles and bindings before they are stored."""

    def __init__(self, authorizer: RbacAuthorizer) -> None:
        self._authorizer = authorizer

    def check(self, user: UserInfo, new: Resource, old: Resource | None) -> None:
        """Raises Forbidden when `user` gives away what they do not have. Other kinds pass."""
        if users.MASTERS in user.groups:
            return
        match new:
            case ClusterRole() | Role():
                self._check_role(user, new, old)
            case ClusterRoleBinding() | RoleBinding():
                self._check_binding(user, new, old)

    def _check_role(self, user: UserInfo, role: ClusterRole | Role, old: Resource | None) -> None:
        if isinstance(old, ClusterRole | Role) and old.rules == role.rules and _aggregates(old) == _aggregates(role):
            return
        resource = "roles" if isinstance(role, Role) else "clusterroles"
        if self._may(user, "escalate", resource, role.metadata.namespace, role.metadata.name):
            return
        if _aggregates(role) and _aggregates(role) != _aggregates(old):
            why = "must have cluster-admin privileges to use an aggregationRule"
            if missing_rights([_ANYTHING], self._authorizer.rules(user, "")):
                raise errors.forbidden(resource, role.metadata.name, why, group=GROUP)
        self._refuse_missing(user, role.rules, resource, role)

    def _check_binding(self, user: UserInfo, binding: ClusterRoleBinding | RoleBinding, old: Resource | None) -> None:
        if (
            isinstance(old, ClusterRoleBinding | RoleBinding)
            and old.subjects == binding.subjects
            and old.role_ref == binding.role_ref
        ):
            return
        namespace = binding.metadata.namespace
        reference = binding.role_ref
        bound = "roles" if reference.kind == "Role" else "clusterroles"
        if self._may(user, "bind", bound, namespace, reference.name):
            return
        resource = "rolebindings" if isinstance(binding, RoleBinding) else "clusterrolebindings"
        self._refuse_missing(user, self._rules_of(reference, namespace), resource, binding)

    def _rules_of(self, reference: RoleRef, namespace: str) -> list[PolicyRule]:
        rules = self._authorizer.book.rules_of(reference, namespace)
        if rules is None:
            resource = "roles" if reference.kind == "Role" else "clusterroles"
            raise errors.not_found(resource, reference.name, group=GROUP)
        return rules

    def _may(self, user: UserInfo, verb: str, resource: str, namespace: str, name: str) -> bool:
        attributes = Attributes(verb, GROUP, resource, "", namespace, name)
        return self._authorizer.authorize(user, attributes).allowed

    def _refuse_missing(self, user: UserInfo, rules: Sequence[PolicyRule], resource: str, obj: Resource) -> None:
        missing = missing_rights(rules, self._authorizer.rules(user, obj.metadata.namespace))
        if missing:
            groups = " ".join(quoted(group) for group in user.groups)
            why = (
                f"user {quoted(user.username)} (groups=[{groups}]) is attempting to grant RBAC permissions "
                "not currently held:\n" + "\n".join(map(_shown, missing))
            )
            raise errors.forbidden(resource, obj.metadata.name, why, group=GROUP)


def missing_rights(wanted: Sequence[PolicyRule], held: Sequence[PolicyRule]) -> list[PolicyRule]:
    """The rules of `wanted` that `held` does not cover completely."""
    return [rule for rule in wanted if not all(_holds(held, right) for right in _rights(rule))]


def _rights(rule: PolicyRule) -> list[_Right]:
    resources = product(rule.verbs, rule.api_groups, rule.resources, rule.resource_names or [""], [""])
    paths = product(rule.verbs, [""], [""], [""], rule.non_resource_urls)
    return [*resources, *paths]


def _holds(held: Sequence[PolicyRule], right: _Right) -> bool:
    verb, group, resource, name, path = right
    for rule in held:
        if verb not in rule.verbs and "*" not in rule.verbs:
            continue
        if path:
            if path_matches(rule.non_resource_urls, path):
                return True
        elif (
            (group in rule.api_groups or "*" in rule.api_groups)
            and _covers_resource(rule.resources, resource)
            and (not rule.resource_names or (name and name in rule.resource_names))
        ):
            return True
    return False


def _covers_resource(held: Sequence[str], resource: str) -> bool:
    subresource = resource.partition("/")[2]
    return resource in held or "*" in held or (bool(subresource) and f"*/{subresource}" in held)


def _aggregates(role: Resource | None) -> object:
    return role.aggregation_rule if isinstance(role, ClusterRole) else None


def _shown(rule: PolicyRule) -> str:
    parts = [
        f"{name}:[{' '.join(quoted(value) for value in values)}]"
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


_ANYTHING = PolicyRule(verbs=["*"], api_groups=["*"], resources=["*"])
