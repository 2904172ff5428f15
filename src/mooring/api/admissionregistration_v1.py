"""admissionregistration.k8s.io/v1: CEL policies that validate and mutate requests, and their bindings.

The request matching of policies and webhooks (`Rule`, `MatchCondition`) is here too; ``admission/policy/`` evaluates
it.
"""

from typing import Annotated, ClassVar

import msgspec

from mooring.api.base import Int32, Int64, Merge, Object, always, atomic, list_map, list_set, required
from mooring.api.meta_v1 import Condition, LabelSelector, Resource

FAIL, IGNORE = "Fail", "Ignore"
EXACT, EQUIVALENT = "Exact", "Equivalent"
DENY, WARN, AUDIT, ALLOW = "Deny", "Warn", "Audit", "Allow"
APPLY_CONFIGURATION, JSON_PATCH = "ApplyConfiguration", "JSONPatch"
NEVER, IF_NEEDED = "Never", "IfNeeded"
CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


class RuleWithOperations(Object):
    """Operations on resources."""

    operations: list[str] = []
    """CREATE, UPDATE, DELETE, CONNECT, or `*` for all of them."""
    api_groups: list[str] = []
    """The groups of the resources, or `*`; the core group is empty."""
    api_versions: list[str] = []
    """The versions of the resources, or `*`."""
    resources: list[str] = []
    """`pods`, `pods/status`, `pods/*` with all its subresources, `*` without any, `*/scale`, `*/*`."""
    scope: str | None = None
    """`Cluster`, `Namespaced` or `*`; Namespaces are cluster-scoped."""


class NamedRuleWithOperations(RuleWithOperations):
    """Operations on resources, of certain names if there are any."""

    __merge__: ClassVar[Merge | None] = atomic()

    resource_names: list[str] = []
    """The names of the objects; all when empty."""


class MatchCondition(Object):
    """A condition in CEL that a request must meet."""

    name: str = required(str)
    """What errors call it; a qualified name."""
    expression: str = required(str)
    """A boolean expression over `object`, `oldObject`, `request` and `authorizer`."""


class MatchResources(Object):
    """Selects the requests that a policy matches, by rules and selectors."""

    __merge__: ClassVar[Merge | None] = atomic()

    namespace_selector: LabelSelector | None = None
    """The labels of the object's namespace; cluster-scoped objects always match."""
    object_selector: LabelSelector | None = None
    """The labels of the object, as it was or as it will be."""
    resource_rules: list[NamedRuleWithOperations] = []
    """One of them must match."""
    exclude_resource_rules: list[NamedRuleWithOperations] = []
    """None of them may match."""
    match_policy: str | None = None
    """`Exact`, or `Equivalent` when the same objects in other groups and versions count too."""


class ParamKind(Object):
    """The kind of a policy's parameters."""

    __merge__: ClassVar[Merge | None] = atomic()

    api_version: str = ""
    """The group and version of the parameter kind."""
    kind: str = ""
    """The name of the parameter kind."""


class ParamRef(Object):
    """Selects the objects that are the parameters of a binding."""

    __merge__: ClassVar[Merge | None] = atomic()

    name: str = ""
    """The name of the only one."""
    namespace: str = ""
    """Where they are; the namespace of the request when empty."""
    selector: LabelSelector | None = None
    """Selects parameter objects by label, instead of by name."""
    parameter_not_found_action: str | None = None
    """`Allow` or `Deny`: what happens where there are none."""


class Variable(Object):
    """An expression with a name, computed when it is first needed."""

    __merge__: ClassVar[Merge | None] = atomic()

    name: str = required(str)
    """`variables.` and this name is what other expressions write."""
    expression: str = required(str)
    """What it stands for."""


class Validation(Object):
    """Something that must hold."""

    expression: str = required(str)
    """Must evaluate to true for an allowed object."""
    message: str = ""
    """The message for a rejected object."""
    reason: str | None = None
    """`Unauthorized`, `Forbidden`, `Invalid` or `RequestEntityTooLarge`; it decides about the code of the answer."""
    message_expression: str = ""
    """Computes the message; `message` is what remains if that fails."""


class AuditAnnotation(Object):
    """Something that goes into the audit log."""

    key: str = required(str)
    """The name of the annotation, after the policy's."""
    value_expression: str = required(str)
    """A text, or null where there is nothing to say."""


class ExpressionWarning(Object):
    """A warning about an expression of a policy."""

    field_ref: str = required(str)
    """Where it stands."""
    warning: str = required(str)
    """What the types of the matched kinds say about it."""


class TypeChecking(Object):
    """The results of type-checking a policy against the kinds that it matches."""

    expression_warnings: list[ExpressionWarning] = []
    """One for each expression in which something was found."""


class ValidatingAdmissionPolicyStatus(Object):
    """The status of a policy."""

    observed_generation: Int64 = 0
    type_checking: TypeChecking | None = None
    """Type checking warnings; absent before the first check."""
    conditions: Annotated[list[Condition], list_map("type", patch_key="")] = []


class ValidatingAdmissionPolicySpec(Object):
    """The validation rules."""

    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    validations: list[Validation] = []
    """What must hold."""
    failure_policy: str | None = None
    """`Fail` or `Ignore`: what a mistake in the policy means."""
    audit_annotations: list[AuditAnnotation] = []
    """What goes into the audit log."""
    match_conditions: Annotated[list[MatchCondition], list_map("name")] = []
    """Conditions that a request must meet to be validated."""
    variables: Annotated[list[Variable], list_map("name")] = []
    """Expressions that others may use."""


class ValidatingAdmissionPolicy(Resource):
    """Rules in CEL about what may be written, once a binding says where."""

    spec: ValidatingAdmissionPolicySpec = always(ValidatingAdmissionPolicySpec)
    status: ValidatingAdmissionPolicyStatus = always(ValidatingAdmissionPolicyStatus)


class ValidatingAdmissionPolicyBindingSpec(Object):
    """The policy, parameters and scope of a binding."""

    policy_name: str = required(str)
    """The policy; without it the binding does nothing."""
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None
    """Restricts the requests that the policy matches; absent matches all."""
    validation_actions: Annotated[list[str], list_set(patch_merge=False)] = required(list)
    """The actions on a violation: `Deny`, `Warn`, `Audit`."""


class ValidatingAdmissionPolicyBinding(Resource):
    """Says where a policy holds, with which parameters."""

    spec: ValidatingAdmissionPolicyBindingSpec = required(ValidatingAdmissionPolicyBindingSpec)


class ApplyConfiguration(Object):
    """A change that is merged as server-side apply merges."""

    expression: str = ""
    """Evaluates to an `Object{…}` with the fields to set."""


class JSONPatch(Object):
    """A change as a list of steps."""

    expression: str = ""
    """Makes a list of `JSONPatch{op: …, path: …, value: …}`."""


class Mutation(Object):
    """One change."""

    patch_type: str = required(str)
    """`ApplyConfiguration` or `JSONPatch`."""
    apply_configuration: ApplyConfiguration | None = None
    json_patch: JSONPatch | None = msgspec.field(default=None, name="jsonPatch")


class MutatingAdmissionPolicySpec(Object):
    """The mutations."""

    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    variables: list[Variable] = []
    """Expressions that others may use."""
    mutations: list[Mutation] = []
    """The changes, one after the other."""
    failure_policy: str | None = None
    """`Fail` or `Ignore`: what a mistake in the policy means."""
    match_conditions: Annotated[list[MatchCondition], list_map("name")] = []
    """What must hold of a request that it changes."""
    reinvocation_policy: str = ""
    """`Never`, or `IfNeeded` when it is asked again after others have changed the object."""


class MutatingAdmissionPolicy(Resource):
    """CEL mutations of requests; a binding selects the requests."""

    spec: MutatingAdmissionPolicySpec = always(MutatingAdmissionPolicySpec)


class MutatingAdmissionPolicyBindingSpec(Object):
    """The policy, parameters and scope of a binding."""

    policy_name: str = ""
    """The policy; without it the binding does nothing."""
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None
    """Which of the requests that it changes are meant; all when absent."""


class MutatingAdmissionPolicyBinding(Resource):
    """Says where a policy holds, with which parameters."""

    spec: MutatingAdmissionPolicyBindingSpec = always(MutatingAdmissionPolicyBindingSpec)


class ServiceReference(Object):
    """A Service that answers webhooks."""

    namespace: str = required(str)
    name: str = required(str)
    path: str | None = None
    """The path to which requests are sent."""
    port: Int32 | None = None
    """The port of the Service; 443 unless given."""


class WebhookClientConfig(Object):
    """The address of a webhook: a URL or a Service."""

    url: str | None = None
    """Where it is; https only."""
    service: ServiceReference | None = None
    ca_bundle: bytes = msgspec.field(default=b"", name="caBundle")
    """Certificates of the authorities that may have signed the webhook's, in PEM."""


class Webhook(Object):
    """The fields that both types of admission webhooks have."""

    name: str = required(str)
    """The qualified name of the webhook, such as images.example.com."""
    client_config: WebhookClientConfig = required(WebhookClientConfig)
    rules: list[RuleWithOperations] = []
    """The requests that it is asked about: those that one of the rules matches."""
    failure_policy: str | None = None
    """What a call that fails means: Fail refuses the request, Ignore lets it pass."""
    match_policy: str | None = None
    """Exact matches the rules literally; Equivalent also matches the same resource in other groups and versions."""
    namespace_selector: LabelSelector | None = None
    """The namespaces whose objects it is asked about, by their labels."""
    object_selector: LabelSelector | None = None
    """The objects that it is asked about, by their labels: those of the new or of the old object."""
    side_effects: str | None = required(lambda: None)
    """None or NoneOnDryRun: whether a call changes something elsewhere; others are not asked on dry run."""
    timeout_seconds: Int32 | None = None
    """How long an answer may take, from 1 to 30 seconds; 10 unless given."""
    admission_review_versions: list[str] = required(list)
    """The versions of AdmissionReview that it understands, the preferred one first."""
    match_conditions: Annotated[list[MatchCondition], list_map("name")] = []
    """Conditions that must all hold for it to be asked."""


class ValidatingWebhook(Webhook):
    """A webhook that may refuse requests."""


class ValidatingWebhookConfiguration(Resource):
    """Webhooks that may refuse requests, and change nothing."""

    webhooks: Annotated[list[ValidatingWebhook], list_map("name")] = []
    """The webhooks, and what each is asked about."""


class MutatingWebhook(Webhook):
    """A webhook that may change objects and refuse requests."""

    reinvocation_policy: str | None = None
    """IfNeeded has it asked again when others have changed the object after it; Never does not."""


class MutatingWebhookConfiguration(Resource):
    """Webhooks that may change objects on their way into the store."""

    webhooks: Annotated[list[MutatingWebhook], list_map("name")] = []
    """The webhooks, and what each is asked about."""


WebhookConfiguration = ValidatingWebhookConfiguration | MutatingWebhookConfiguration
