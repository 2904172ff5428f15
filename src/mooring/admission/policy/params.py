"""The parameters of a policy: which objects a binding means, for one request.

What the cluster has is asked of a `Cluster`, which knows namespaces, objects of any kind and what somebody may do.
Problems have Kubernetes' words and are the policy's own: the failure policy decides what becomes of the request.
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
    """A policy or binding asks for something that there is not; the message is Kubernetes'."""


class Cluster(Protocol):
    """What policies may know of the cluster beside the request."""

    @property
    def decide(self) -> Decide:
        """Says what somebody may do."""
        ...

    def namespace(self, name: str) -> Tree:
        """A namespace as JSON; raises NotFound."""
        ...

    def param_kind(self, api_version: str, kind: str) -> Kind | None:
        """A kind that is served here."""
        ...

    def named(self, kind: Kind, namespace: str, name: str) -> Tree | None:
        """One object of a kind."""
        ...

    def selected(self, kind: Kind, namespace: str, selector: Selector) -> Sequence[Tree]:
        """The objects of a kind that have certain labels."""
        ...


NONE: Sequence[Tree | None] = (None,)
"""No parameters, which is one way to be asked."""


def params_for(kind: ParamKind | None, ref: ParamRef | None, namespace: str, cluster: Cluster) -> Sequence[Tree | None]:
    """The parameters for a request in a namespace: each is a question of its own. Raises ConfigurationError."""
    if kind is None or ref is None:
        return NONE
    known = check_kind(kind, cluster)
    where = _namespace(known, ref, namespace)
    if ref.name:
        one = cluster.named(known, where, ref.name)
        found: Sequence[Tree | None] = () if one is None else (one,)
    else:
        found = cluster.selected(known, where, label_selector.from_label_selector(ref.selector))
    if not found and ref.parameter_not_found_action == DENY:
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def check_kind(kind: ParamKind, cluster: Cluster) -> Kind:
    """The kind of a policy's parameters; raises ConfigurationError where there is none."""
    known = cluster.param_kind(kind.api_version, kind.kind)
    if known is None:
        problem = f"failed to find resource referenced by paramKind: '{_shown(kind)}'"
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


def _shown(kind: ParamKind) -> str:
    """As Go writes a GroupVersionKind."""
    group, _, version = kind.api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind.kind}"
