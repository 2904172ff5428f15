"""Require the right to read the parameters of an admission policy, because its messages can reveal them.

As in Kubernetes, the author of a policy with a `paramKind` needs `get` on all objects of that kind; the author of a
binding with a `paramRef` needs it on the objects that it names. Called for every written object (`AccessChecks`).
"""

from mooring.api import codec, errors, field_errors
from mooring.api.admissionregistration_v1 import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ParamKind,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from mooring.api.authentication_v1 import UserInfo
from mooring.api.field_path import Path
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.apiserver.access.authz import Attributes, Authorizer
from mooring.apiserver.messages import users
from mooring.apiserver.registry.storage.stored import ROOT
from mooring.store.kv import Store

_Policy = ValidatingAdmissionPolicy | MutatingAdmissionPolicy
_Binding = ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding
_GROUP = "admissionregistration.k8s.io"
_ALL = "*"
_SPEC = Path("spec")


class PolicyParameterChecks:
    """Refuses admission policies and bindings with parameters that their author may not read."""

    kinds = (
        ValidatingAdmissionPolicy,
        MutatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding,
        MutatingAdmissionPolicyBinding,
    )

    def __init__(self, store: Store, scheme: Scheme, authorizer: Authorizer) -> None:
        self._store = store
        self._scheme = scheme
        self._authorizer = authorizer

    def check(self, user: UserInfo, new: Resource | None, old: Resource | None, subresource: str) -> None:
        """Raise Invalid if a policy's or binding's new parameters are objects the user may not `get`."""
        if not isinstance(new, self.kinds) or subresource or users.MASTERS in user.groups:
            return
        if isinstance(new, _Policy):
            before = old.spec.param_kind if isinstance(old, _Policy) else None
            if new.spec.param_kind is not None and new.spec.param_kind != before:
                self._check_policy(user, new, new.spec.param_kind)
        elif new.spec.param_ref is not None and not _has_same_parameters(new, old):
            self._check_binding(user, new)

    def _check_policy(self, user: UserInfo, policy: _Policy, kind: ParamKind) -> None:
        group, resource = self._resource_of(kind)
        if not self._may_read(user, Attributes("get", group, resource, namespace=_ALL, name=_ALL)):
            why = (
                f'user {_format_user(user)} must have "get" permission on all objects of the referenced paramKind '
                f"(kind={kind.kind}, apiVersion={kind.api_version})"
            )
            raise _refusal_error(policy, "paramKind", why)

    def _check_binding(self, user: UserInfo, binding: _Binding) -> None:
        reference = binding.spec.param_ref
        assert reference is not None  # noqa: S101 - just asked for
        verb = "get" if reference.name else "list"
        kind = self._param_kind(binding)
        group, resource = (_ALL, _ALL) if kind is None else self._resource_of(kind)
        if self._may_read(user, Attributes(verb, group, resource, namespace=reference.namespace, name=reference.name)):
            return
        why = f'user {_format_user(user)} does not have "{verb}" permission on the object referenced by paramRef'
        if kind is None:
            why = (
                f"unable to get policy {binding.spec.policy_name} to determine minimum required permissions and user "
                f'{_format_user(user)} does not have "{verb}" permission for all groups, versions and resources'
            )
        raise _refusal_error(binding, "paramRef", why)

    def _param_kind(self, binding: _Binding) -> ParamKind | None:
        """Return the `paramKind` of a binding's policy; None if the policy is missing or has none."""
        is_validating = isinstance(binding, ValidatingAdmissionPolicyBinding)
        kind: type[_Policy] = ValidatingAdmissionPolicy if is_validating else MutatingAdmissionPolicy
        kv = self._store.peek(f"{ROOT}{self._scheme.hub_of(kind).plural}/{binding.spec.policy_name}")
        return codec.decode_own(kv.value, kind).spec.param_kind if kv is not None else None

    def _resource_of(self, kind: ParamKind) -> tuple[str, str]:
        """Return a kind's group and resource; `*` as resource if the kind is unknown."""
        found = self._scheme.kind(kind.api_version, kind.kind)
        group = kind.api_version.rpartition("/")[0]
        return group, found.plural if found is not None else _ALL

    def _may_read(self, user: UserInfo, attributes: Attributes) -> bool:
        return self._authorizer.authorize(user, attributes).allowed


def _has_same_parameters(new: _Binding, old: Resource | None) -> bool:
    if not isinstance(old, _Binding):
        return False
    return new.spec.param_ref == old.spec.param_ref and new.spec.policy_name == old.spec.policy_name


def _format_user(user: UserInfo) -> str:
    """Return a user as Kubernetes' messages print it (Go's format of the struct)."""
    return f"&{{{user.username} {user.uid} [{' '.join(user.groups)}] map[]}}"


def _refusal_error(obj: _Policy | _Binding, field: str, why: str) -> errors.Invalid:
    problem = field_errors.forbidden(_SPEC.child(field), why)
    return errors.invalid(type(obj).__name__, obj.metadata.name, [problem], group=_GROUP)
