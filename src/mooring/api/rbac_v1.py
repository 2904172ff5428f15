"""rbac.authorization.k8s.io/v1: roles, and who has them. The API server's authorizer acts on these."""

from typing import ClassVar

from msgspec import field

from mooring.api.base import Merge, Object, always, atomic, required
from mooring.api.meta_v1 import LabelSelector, Resource


class PolicyRule(Object):
    """The verbs that are allowed on resources or paths."""

    verbs: list[str] = required(list)
    """What may be done; * for everything."""
    api_groups: list[str] = []
    """The API groups of the resources; * for all."""
    resources: list[str] = []
    """The resources, with subresources after a slash; * for all."""
    resource_names: list[str] = []
    """The names of single objects; all when empty."""
    non_resource_urls: list[str] = field(default_factory=list, name="nonResourceURLs")
    """Paths that are no resources; a * at the end stands for the rest."""


class Subject(Object):
    """A user, group or service account."""

    __merge__: ClassVar[Merge | None] = atomic()

    kind: str = required(str)
    """User, Group or ServiceAccount."""
    api_group: str = ""
    """The API group of the kind; empty for service accounts."""
    name: str = required(str)
    """The name."""
    namespace: str = ""
    """The namespace, for service accounts."""


class RoleRef(Object):
    """The role that a binding gives."""

    __merge__: ClassVar[Merge | None] = atomic()

    api_group: str = always(str)
    """The API group of the role."""
    kind: str = required(str)
    """Role or ClusterRole."""
    name: str = required(str)


class Role(Resource):
    """A set of rights within a namespace."""

    rules: list[PolicyRule] = always(list)
    """The rights."""


class RoleBinding(Resource):
    """Gives a role to subjects, within a namespace."""

    subjects: list[Subject] = []
    """Who gets the role."""
    role_ref: RoleRef = required(RoleRef)
    """The role; it cannot be changed."""


class AggregationRule(Object):
    """Chooses ClusterRoles whose rights are put together."""

    cluster_role_selectors: list[LabelSelector] = []
    """Selectors of cluster roles; a role must match at least one."""


class ClusterRole(Resource):
    """A set of rights in the whole cluster."""

    rules: list[PolicyRule] = always(list)
    """The rights."""
    aggregation_rule: AggregationRule | None = None


class ClusterRoleBinding(Resource):
    """Gives a ClusterRole to subjects, in the whole cluster."""

    subjects: list[Subject] = []
    """Who gets the role."""
    role_ref: RoleRef = required(RoleRef)
    """The role; it cannot be changed."""
