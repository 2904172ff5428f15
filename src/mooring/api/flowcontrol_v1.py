"""flowcontrol.apiserver.k8s.io/v1: FlowSchema and PriorityLevelConfiguration, which requests matter more."""

from typing import Annotated

from mooring.api.base import Int32, Object, StateCondition, always, list_map, list_set, required
from mooring.api.meta_v1 import Resource


class FlowDistinguisherMethod(Object):
    """The way in which requests of a FlowSchema are divided into flows."""

    type: str = required(str)
    """ByUser or ByNamespace."""


class PriorityLevelConfigurationReference(Object):
    """Names a PriorityLevelConfiguration."""

    name: str = required(str)
    """The name."""


class UserSubject(Object):
    """A user."""

    name: str = required(str)
    """The user's name, or `*` for all."""


class GroupSubject(Object):
    """A group of users."""

    name: str = required(str)
    """The group's name, or `*` for all."""


class ServiceAccountSubject(Object):
    """A service account."""

    namespace: str = required(str)
    """The account's namespace."""
    name: str = required(str)
    """The account's name, or `*` for all of the namespace."""


class Subject(Object):
    """The sender of a request: a user, group or service account."""

    kind: str = required(str)
    """User, Group or ServiceAccount; the field of that name says which."""
    user: UserSubject | None = None
    group: GroupSubject | None = None
    service_account: ServiceAccountSubject | None = None


class ResourcePolicyRule(Object):
    """Requests for resources; all of its lists must have something that suits a request."""

    verbs: Annotated[list[str], list_set(patch_merge=False)] = required(list)
    """Verbs, or `*` for all."""
    api_groups: Annotated[list[str], list_set(patch_merge=False)] = required(list)
    """API groups, or `*` for all."""
    resources: Annotated[list[str], list_set(patch_merge=False)] = required(list)
    """Resources, with their subresource as in `nodes/status`, or `*` for all."""
    cluster_scope: bool = False
    """Whether requests that are in no namespace suit."""
    namespaces: Annotated[list[str], list_set(patch_merge=False)] = always(list)
    """Namespaces, or `*` for all."""


class NonResourcePolicyRule(Object):
    """Requests for other paths."""

    verbs: Annotated[list[str], list_set(patch_merge=False)] = required(list)
    """Verbs, or `*` for all."""
    non_resource_urls: Annotated[list[str], list_set(patch_merge=False)] = required(list, name="nonResourceURLs")
    """Non-resource paths; each may end with `*`, or be `*` for all."""


class PolicyRulesWithSubjects(Object):
    """Requests by who sends them and what for; one of the subjects and one of the rules must suit."""

    subjects: list[Subject] = required(list)
    """Who sends them."""
    resource_rules: list[ResourcePolicyRule] = []
    """What for, if it is a resource."""
    non_resource_rules: list[NonResourcePolicyRule] = []
    """What for, if it is another path."""


class FlowSchemaSpec(Object):
    """The requests that a FlowSchema matches, and their priority level."""

    priority_level_configuration: PriorityLevelConfigurationReference = required(PriorityLevelConfigurationReference)
    matching_precedence: Int32 = always(int)
    """The order among matching FlowSchemas: the lowest number applies; 1 to 10000."""
    distinguisher_method: FlowDistinguisherMethod | None = None
    """What makes a flow of its own; without it, all requests of the schema are one."""
    rules: list[PolicyRulesWithSubjects] = []
    """The requests; one of the rules must suit."""


class FlowSchemaCondition(StateCondition):
    """One aspect of a FlowSchema's state, such as Dangling."""

    status: str = ""
    """True, False or Unknown."""


class FlowSchemaStatus(Object):
    """The state of a FlowSchema."""

    conditions: Annotated[list[FlowSchemaCondition], list_map("type")] = []


class FlowSchema(Resource):
    """Requests that belong together, and their priority."""

    spec: FlowSchemaSpec = required(FlowSchemaSpec)
    status: FlowSchemaStatus = always(FlowSchemaStatus)


class QueuingConfiguration(Object):
    """The queues in which requests wait."""

    queues: Int32 = always(int)
    """How many queues there are."""
    hand_size: Int32 = always(int)
    """How many of them a flow may use."""
    queue_length_limit: Int32 = always(int)
    """How many requests wait in one at most."""


class LimitResponse(Object):
    """The response to requests above the limit."""

    type: str = required(str)
    """Queue or Reject."""
    queuing: QueuingConfiguration | None = None


class LimitedPriorityLevelConfiguration(Object):
    """The share of the server's concurrency that a priority level has."""

    nominal_concurrency_shares: Int32 | None = always(lambda: None)
    """The share of this level relative to the other levels; 30 when absent."""
    limit_response: LimitResponse = required(LimitResponse)
    lendable_percent: Int32 | None = None
    """How much of it other levels may borrow."""
    borrowing_limit_percent: Int32 | None = None
    """How much the level may borrow; as much as there is when absent."""


class ExemptPriorityLevelConfiguration(Object):
    """The nominal concurrency shares of the exempt level."""

    nominal_concurrency_shares: Int32 | None = None
    """The share of this level relative to the other levels."""
    lendable_percent: Int32 | None = None
    """How much of it other levels may borrow."""


class PriorityLevelConfigurationSpec(Object):
    """The limits of a priority level."""

    type: str = required(str)
    """Exempt or Limited."""
    limited: LimitedPriorityLevelConfiguration | None = None
    exempt: ExemptPriorityLevelConfiguration | None = None


class PriorityLevelConfigurationCondition(FlowSchemaCondition):
    """One aspect of a priority level's state."""


class PriorityLevelConfigurationStatus(Object):
    """The state of a priority level."""

    conditions: Annotated[list[PriorityLevelConfigurationCondition], list_map("type")] = []


class PriorityLevelConfiguration(Resource):
    """A priority that requests have."""

    spec: PriorityLevelConfigurationSpec = required(PriorityLevelConfigurationSpec)
    status: PriorityLevelConfigurationStatus = always(PriorityLevelConfigurationStatus)
