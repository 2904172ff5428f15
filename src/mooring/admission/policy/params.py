"""Resolve the parameters of a policy: the objects that a binding selects for one request.

`PolicyLookups` provides namespaces, objects and authorization. Errors have Kubernetes' messages; the failure
policy decides the request.
"""

from collections.abc import Sequence
from typing import Protocol

from mooring.admission.policy.attributes import Tree
from mooring.api import label_selector
from mooring.api.admissionregistration_v1 import DENY, ParamKind, ParamRef
from mooring.api.kinds import Kind
from mooring.api.label_selector import Selector
from mooring.constraints.celenv.authorizer import Decide


class ConfigurationError(Exception):
    """A policy or binding refers to something that does not exist; the message is Kubernetes'."""


class PolicyLookups(Protocol):
    """Interface to the cluster state that policies may read."""

    @property
    def decide(self) -> Decide:
        """A function that authorizes an action of a user."""
        ...

    def namespace(self, name: str) -> Tree:
        """Return a namespace as JSON; raise NotFound."""
        ...

    def param_kind(self, api_version: str, kind: str) -> Kind | None:
        """Return the served kind with the given apiVersion and kind; None if there is none."""
        ...

    def find_object(self, kind: Kind, namespace: str, name: str) -> Tree | None: ...

    def select_objects(self, kind: Kind, namespace: str, selector: Selector) -> Sequence[Tree]:
        """Return the objects of a kind whose labels match a selector."""
        ...


NONE: Sequence[Tree | None] = (None,)
"""The parameters of a policy without a paramKind, which is evaluated once, without parameters."""


def params_for(
    kind: ParamKind | None, ref: ParamRef | None, namespace: str, cluster: PolicyLookups
) -> Sequence[Tree | None]:
    """Return a policy's parameter objects for a request in a namespace. Raise ConfigurationError."""
    if kind is None or ref is None:
        return NONE
    known = check_kind(kind, cluster)
    where = _namespace(known, ref, namespace)
    if ref.name:
        one = cluster.find_object(known, where, ref.name)
        found: Sequence[Tree | None] = () if one is None else (one,)
    else:
        found = cluster.select_objects(known, where, label_selector.from_label_selector(ref.selector))
    if not found and ref.parameter_not_found_action == DENY:
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def check_kind(kind: ParamKind, cluster: PolicyLookups) -> Kind:
    """Return the kind of a policy's parameters; raise ConfigurationError if it is not served."""
    known = cluster.param_kind(kind.api_version, kind.kind)
    if known is None:
        problem = f"failed to find resource referenced by paramKind: '{_format_kind(kind)}'"
        raise ConfigurationError(problem)
    return known


def _namespace(kind: Kind, ref: ParamRef, namespace: str) -> str:
    if not kind.namespaced:
        if ref.namespace:
            problem = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            raise ConfigurationError(problem)
        return ""
    if not ref.namespace and not namespace:
        problem = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        raise ConfigurationError(problem)
    return ref.namespace or namespace


def _format_kind(kind: ParamKind) -> str:
    group, _, version = kind.api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind.kind}"
