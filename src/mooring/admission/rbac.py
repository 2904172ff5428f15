"""Validate Roles, ClusterRoles and their bindings."""

from typing import TypeVar

from mooring.admission import checks
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors, label_selector, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject

GROUP = "rbac.authorization.k8s.io"
_RULES = Path("rules")
_SUBJECTS = Path("subjects")
_ROLE_REF = Path("roleRef")

AnyBinding = TypeVar("AnyBinding", RoleBinding, ClusterRoleBinding)
AnyRole = TypeVar("AnyRole", Role, ClusterRole)


class _RbacStrategy(Strategy[AnyRole]):
    group = GROUP
    has_generation = False
    allow_create_on_update = True

    def name_check(self, name: str) -> names.Messages:
        return names.path_segment_name(name)

    def validate(self, obj: AnyRole, old: AnyRole | None, request: Request) -> Errors:
        return checks.validate_items(obj.rules, _RULES, _validate_policy_rule, namespaced=self.namespaced)


class RoleStrategy(_RbacStrategy[Role]):
    """Validate Roles."""


class ClusterRoleStrategy(_RbacStrategy[ClusterRole]):
    def validate(self, obj: ClusterRole, old: ClusterRole | None, request: Request) -> Errors:
        errors = super().validate(obj, old, request)
        if obj.aggregation_rule is None:
            return errors
        here = Path("aggregationRule.clusterRoleSelectors")
        selectors = obj.aggregation_rule.cluster_role_selectors
        errors += checks.require(
            selectors, here, "at least one clusterRoleSelector required if aggregationRule is non-nil"
        )
        for index, selector in enumerate(selectors):
            if wrong := label_selector.validate(selector, here.index(index)):
                wrong.append(field_errors.invalid(here.index(index), selector, "invalid label selector."))
                errors += wrong
        return errors


class _BindingStrategy(Strategy[AnyBinding]):
    group = GROUP
    has_generation = False
    allow_create_on_update = True
    role_kinds: tuple[str, ...]

    def name_check(self, name: str) -> names.Messages:
        return names.path_segment_name(name)

    def default(self, obj: AnyBinding) -> None:
        obj.role_ref.api_group = obj.role_ref.api_group or GROUP
        for subject in obj.subjects:
            if not subject.api_group and subject.kind in ("User", "Group"):
                subject.api_group = GROUP

    def validate(self, obj: AnyBinding, old: AnyBinding | None, request: Request) -> Errors:
        errors = _validate_role_ref(obj.role_ref, self.role_kinds)
        errors += checks.validate_items(obj.subjects, _SUBJECTS, _validate_subject, namespaced=self.namespaced)
        if old is not None and obj.role_ref != old.role_ref:
            errors.append(field_errors.invalid(_ROLE_REF, obj.role_ref, "cannot change roleRef"))
        return errors


class RoleBindingStrategy(_BindingStrategy[RoleBinding]):
    role_kinds = ("Role", "ClusterRole")


class ClusterRoleBindingStrategy(_BindingStrategy[ClusterRoleBinding]):
    role_kinds = ("ClusterRole",)


def _validate_policy_rule(rule: PolicyRule, path: Path, *, namespaced: bool) -> Errors:
    errors = [] if rule.verbs else [field_errors.required(path.child("verbs"), "verbs must contain at least one value")]
    if rule.non_resource_urls:
        here = path.child("nonResourceURLs")
        detail = "namespaced rules cannot apply to non-resource URLs"
        errors += checks.invalid_if(namespaced, here, rule.non_resource_urls, detail)
        has_both = rule.api_groups or rule.resources or rule.resource_names
        detail = "rules cannot apply to both regular resources and non-resource URLs"
        return errors + checks.invalid_if(has_both, here, rule.non_resource_urls, detail)
    detail = "resource rules must supply at least one"
    errors += checks.require(rule.api_groups, path.child("apiGroups"), f"{detail} api group")
    return errors + checks.require(rule.resources, path.child("resources"), f"{detail} resource")


def _validate_role_ref(ref: RoleRef, kinds: tuple[str, ...]) -> Errors:
    errors = checks.one_of(ref.api_group, [GROUP], _ROLE_REF.child("apiGroup"))
    errors += checks.one_of(ref.kind, kinds, _ROLE_REF.child("kind"))
    return errors + checks.require_name(ref.name, _ROLE_REF.child("name"), names.path_segment_name)


def _validate_subject(subject: Subject, path: Path, *, namespaced: bool) -> Errors:
    errors = [] if subject.name else [field_errors.required(path.child("name"))]
    group = path.child("apiGroup")
    match subject.kind:
        case "ServiceAccount":
            errors += checks.optional_name(subject.name or None, path.child("name"), names.dns1123_subdomain)
            errors += checks.one_of(subject.api_group, [""], group)
            errors += checks.require(namespaced or subject.namespace, path.child("namespace"))
        case "User" | "Group":
            errors += checks.one_of(subject.api_group, [GROUP], group)
        case kind:
            errors.append(field_errors.not_supported(path.child("kind"), kind, ["ServiceAccount", "User", "Group"]))
    return errors
