"""authorization.k8s.io/v1: the question whether someone may do something."""

from msgspec import field

from mooring.api.base import Object, always, required
from mooring.api.meta_v1 import LabelSelectorRequirement, Resource


class FieldSelectorRequirement(Object):
    """A condition on a field of the objects asked for."""

    key: str = required(str)
    operator: str = required(str)
    """In or NotIn."""
    values: list[str] = []
    """The values to compare with."""


class FieldSelectorAttributes(Object):
    """The field selector of the request."""

    raw_selector: str = ""
    """The selector as text."""
    requirements: list[FieldSelectorRequirement] = []
    """The selector as conditions that must all hold."""


class LabelSelectorAttributes(Object):
    """The label selector of the request."""

    raw_selector: str = ""
    """The selector as text."""
    requirements: list[LabelSelectorRequirement] = []
    """The selector as conditions that must all hold."""


class ResourceAttributes(Object):
    """The request, if it is for a resource."""

    namespace: str = ""
    """The namespace; empty for all, or for cluster-scoped resources."""
    verb: str = ""
    """What would be done, such as get; * for everything."""
    group: str = ""
    """The API group; * for all."""
    version: str = ""
    """The API version; * for all."""
    resource: str = ""
    """The resource; * for all."""
    subresource: str = ""
    name: str = ""
    """The name of the object; empty for all."""
    field_selector: FieldSelectorAttributes | None = None
    label_selector: LabelSelectorAttributes | None = None


class NonResourceAttributes(Object):
    """The request, if it is for a non-resource path."""

    path: str = ""
    verb: str = ""
    """The HTTP method, in lower case."""


class SubjectAccessReviewSpec(Object):
    """The user and the action to check."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: list[str] = []
    """The groups of the user."""
    extra: dict[str, list[str]] = {}
    """What the authenticator says about the user in addition."""
    uid: str = ""
    """The id of the user."""


class SubjectAccessReviewStatus(Object):
    """The result of an access review: whether the action is allowed."""

    allowed: bool = required(bool)
    """Whether the request would be allowed."""
    denied: bool = False
    """Whether it would be denied, whatever other authorizers say."""
    reason: str = ""
    """Why."""
    evaluation_error: str = ""
    """What went wrong while deciding; the decision may still hold."""


class SubjectAccessReview(Resource):
    """Asks whether a user may do something."""

    spec: SubjectAccessReviewSpec = required(SubjectAccessReviewSpec)
    status: SubjectAccessReviewStatus = always(SubjectAccessReviewStatus)


class LocalSubjectAccessReview(Resource):
    """Asks whether a user may do something in a namespace."""

    spec: SubjectAccessReviewSpec = required(SubjectAccessReviewSpec)
    """Who would do what; its namespace is the review's own."""
    status: SubjectAccessReviewStatus = always(SubjectAccessReviewStatus)


class SelfSubjectAccessReviewSpec(Object):
    """The client's own action to check."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None


class SelfSubjectAccessReview(Resource):
    """Asks whether the client itself may do something."""

    spec: SelfSubjectAccessReviewSpec = required(SelfSubjectAccessReviewSpec)
    status: SubjectAccessReviewStatus = always(SubjectAccessReviewStatus)


class ResourceRule(Object):
    """The actions that the client may perform on resources."""

    verbs: list[str] = required(list)
    """What may be done; * for everything."""
    api_groups: list[str] = []
    """The API groups of the resources; * for all."""
    resources: list[str] = []
    """The resources; * for all."""
    resource_names: list[str] = []
    """The names of single objects; all when empty."""


class NonResourceRule(Object):
    """The actions that the client may perform on non-resource paths."""

    verbs: list[str] = required(list)
    """What may be done; * for everything."""
    non_resource_urls: list[str] = field(default_factory=list, name="nonResourceURLs")
    """The paths; a * at the end stands for the rest."""


class SelfSubjectRulesReviewSpec(Object):
    """The namespace for which the client's rules are requested."""

    namespace: str = ""
    """The namespace."""


class SubjectRulesReviewStatus(Object):
    """The rights of the client."""

    resource_rules: list[ResourceRule] = required(list)
    """What it may do with resources."""
    non_resource_rules: list[NonResourceRule] = required(list)
    """What it may do with other paths."""
    incomplete: bool = required(bool)
    """Whether there may be more rights than are listed."""
    evaluation_error: str = ""
    """What went wrong while gathering them."""


class SelfSubjectRulesReview(Resource):
    """Asks what the client itself may do in a namespace."""

    spec: SelfSubjectRulesReviewSpec = required(SelfSubjectRulesReviewSpec)
    status: SubjectRulesReviewStatus = always(SubjectRulesReviewStatus)
