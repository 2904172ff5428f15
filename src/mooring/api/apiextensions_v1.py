"""apiextensions.k8s.io/v1: CustomResourceDefinition, by which a cluster learns kinds that no release has.

A definition names a kind and gives a schema for each of its versions. ``mooring.api.structural`` says what a schema
does to values, ``mooring.admission.definitions`` which schemas are allowed, ``mooring.api.dynamic`` what objects of the
new kind are.
"""

from typing import Annotated, Any

from msgspec import field

from mooring.api.base import Int32, Int64, Object, StateCondition, always, list_map, required
from mooring.api.meta_v1 import Resource

Number = int | float
"""As it was written, so that 10 does not become 10.0."""


class ExternalDocumentation(Object):
    """Points to a longer description elsewhere."""

    description: str = ""
    """The value at the path."""
    url: str = ""


class ValidationRule(Object):
    """A rule in CEL that values must keep."""

    rule: str = required(str)
    """The expression; `self` is the value, `oldSelf` what it was before an update."""
    message: str = ""
    """What to say when the rule is broken."""
    message_expression: str = ""
    """An expression that gives the message."""
    reason: str | None = None
    """The reason of the error: FieldValueInvalid, FieldValueForbidden, FieldValueRequired or FieldValueDuplicate."""
    field_path: str = ""
    """The field that the error names, relative to the value."""
    optional_old_self: bool | None = None
    """Whether the rule also runs on create, with `oldSelf` as an optional value."""


class JSONSchemaProps(Object):
    """A JSON schema of the structural sort, with Kubernetes' extensions."""

    id: str = ""
    """Not supported."""
    schema: str = field(default="", name="$schema")
    """Not supported."""
    ref: str | None = field(default=None, name="$ref")
    """Not supported."""
    description: str = ""
    """What the value means, for `kubectl explain`."""
    type: str = ""
    """object, array, string, integer, number or boolean."""
    format: str = ""
    """What a text looks like, such as date-time; unknown formats are ignored."""
    title: str = ""
    """A short name of the value."""
    default: Any = None
    """What takes the place of an absent value."""
    maximum: Number | None = None
    """The largest number."""
    exclusive_maximum: bool = False
    """Whether the largest number itself is too large."""
    minimum: Number | None = None
    """The smallest number."""
    exclusive_minimum: bool = False
    """Whether the smallest number itself is too small."""
    max_length: Int64 | None = None
    """The most characters of a text."""
    min_length: Int64 | None = None
    """The fewest characters of a text."""
    pattern: str = ""
    """A regular expression that a text must match somewhere."""
    max_items: Int64 | None = None
    """The most items of a list."""
    min_items: Int64 | None = None
    """The fewest items of a list."""
    unique_items: bool = False
    """Not supported."""
    multiple_of: Number | None = None
    """The value must be a multiple of this number."""
    enum: list[Any] = []
    """The values that there are."""
    max_properties: Int64 | None = None
    """The most fields of an object."""
    min_properties: Int64 | None = None
    """The fewest fields of an object."""
    required: list[str] = []
    """The fields that must be there."""
    items: "JSONSchemaProps | list[JSONSchemaProps] | None" = None
    """The schema of a list's items."""
    all_of: "list[JSONSchemaProps]" = []
    """Schemas that must all hold."""
    one_of: "list[JSONSchemaProps]" = []
    """Schemas; exactly one must match."""
    any_of: "list[JSONSchemaProps]" = []
    """Schemas; at least one must match."""
    not_: "JSONSchemaProps | None" = field(default=None, name="not")
    """A schema that must not hold."""
    properties: "dict[str, JSONSchemaProps]" = {}
    """The schemas of an object's fields."""
    additional_properties: "JSONSchemaProps | bool | None" = None
    """The schema of a map's values."""
    pattern_properties: "dict[str, JSONSchemaProps]" = {}
    """Not supported."""
    dependencies: dict[str, Any] = {}
    """Not supported."""
    additional_items: "JSONSchemaProps | bool | None" = None
    """Not supported."""
    definitions: "dict[str, JSONSchemaProps]" = {}
    """Not supported."""
    external_docs: ExternalDocumentation | None = None
    example: Any = None
    """A value that the schema allows."""
    nullable: bool = False
    """Whether null is a value."""
    preserve_unknown_fields: bool | None = field(default=None, name="x-kubernetes-preserve-unknown-fields")
    """Whether fields without a schema are kept."""
    embedded_resource: bool = field(default=False, name="x-kubernetes-embedded-resource")
    """Whether the value is an object of the API, with apiVersion, kind and metadata."""
    int_or_string: bool = field(default=False, name="x-kubernetes-int-or-string")
    """Whether the value is a number or a text."""
    list_map_keys: list[str] = field(default_factory=list, name="x-kubernetes-list-map-keys")
    """The fields that tell the items of a list of type map apart."""
    list_type: str | None = field(default=None, name="x-kubernetes-list-type")
    """How a list merges: atomic, set or map."""
    map_type: str | None = field(default=None, name="x-kubernetes-map-type")
    """How an object merges: granular or atomic."""
    validations: Annotated[list[ValidationRule], list_map("rule")] = field(
        default_factory=list, name="x-kubernetes-validations"
    )
    """Rules in CEL."""


class CustomResourceValidation(Object):
    """The schema of a version."""

    open_api_v3_schema: JSONSchemaProps | None = field(default=None, name="openAPIV3Schema")


class CustomResourceSubresourceStatus(Object):
    """Objects have a status that is written by itself."""


class CustomResourceSubresourceScale(Object):
    """Objects have a scale."""

    spec_replicas_path: str = required(str)
    """Where the wanted number of replicas stands, below .spec."""
    status_replicas_path: str = required(str)
    """Where the present number of replicas stands, below .status."""
    label_selector_path: str | None = None
    """Where the selector of the replicas stands, as text."""


class CustomResourceSubresources(Object):
    """The subresources of a version."""

    status: CustomResourceSubresourceStatus | None = None
    """Given when the status is written by itself."""
    scale: CustomResourceSubresourceScale | None = None
    """Given when objects can be scaled."""


class CustomResourceColumnDefinition(Object):
    """A column of the table that `kubectl get` prints."""

    name: str = required(str)
    """The heading."""
    type: str = required(str)
    """integer, number, string, boolean or date."""
    format: str = ""
    """A hint for clients."""
    description: str = ""
    """What the column shows."""
    priority: Int32 = 0
    """Above zero for columns that only wide output shows."""
    json_path: str = required(str)
    """Where the value stands, such as .spec.replicas."""


class SelectableField(Object):
    """A field by which objects can be selected."""

    json_path: str = required(str)
    """Where it stands, such as .spec.color."""


class CustomResourceDefinitionVersion(Object):
    """One version of the kind."""

    name: str = required(str)
    """The name of the version, such as v1 or v2beta1."""
    served: bool = required(bool)
    """Whether clients can use it."""
    storage: bool = required(bool)
    """Whether objects are stored in it; exactly one version says so."""
    deprecated: bool = False
    """Whether clients of this version are warned."""
    deprecation_warning: str | None = None
    """A custom warning instead of the default."""
    schema: CustomResourceValidation | None = None
    subresources: CustomResourceSubresources | None = None
    additional_printer_columns: list[CustomResourceColumnDefinition] = []
    """Columns of tables beside the name; without any, the age."""
    selectable_fields: list[SelectableField] = []
    """Fields for field selectors beside name and namespace."""


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
    ca_bundle: bytes = field(default=b"", name="caBundle")
    """Certificates of the authorities that may have signed the webhook's, in PEM."""


class WebhookConversion(Object):
    """A webhook that converts objects between versions."""

    client_config: WebhookClientConfig | None = None
    conversion_review_versions: list[str] = required(list)
    """The versions of ConversionReview that it understands, the preferred one first."""


class CustomResourceConversion(Object):
    """The conversion of objects between versions."""

    strategy: str = required(str)
    """None changes the apiVersion alone; Webhook asks a webhook."""
    webhook: WebhookConversion | None = None
    """The webhook, for the strategy of that name."""


class CustomResourceDefinitionNames(Object):
    """The names of the custom kind and its resource."""

    plural: str = required(str)
    """The name of the resource in paths."""
    singular: str = ""
    """The name of one of them; the kind in small letters unless given."""
    short_names: list[str] = []
    """Abbreviations for people."""
    kind: str = required(str)
    list_kind: str = ""
    """The kind of a list; by default the kind with the suffix List."""
    categories: list[str] = []
    """Groups of resources that it belongs to, such as all."""


class CustomResourceDefinitionSpec(Object):
    """The definition of a custom kind: names, scope and versions."""

    group: str = required(str)
    names: CustomResourceDefinitionNames = required(CustomResourceDefinitionNames)
    scope: str = required(str)
    """Namespaced or Cluster."""
    versions: list[CustomResourceDefinitionVersion] = required(list)
    conversion: CustomResourceConversion | None = None
    preserve_unknown_fields: bool = False
    """Not supported any more; x-kubernetes-preserve-unknown-fields in the schema takes its place."""


class CustomResourceDefinitionCondition(StateCondition):
    """One aspect of a definition's state: NamesAccepted, Established, NonStructuralSchema or Terminating."""

    last_transition_time: str | None = None
    observed_generation: Int64 = 0
    """The generation for which the condition was set."""


class CustomResourceDefinitionStatus(Object):
    """The observed state of a definition: accepted names, conditions and stored versions."""

    conditions: Annotated[list[CustomResourceDefinitionCondition], list_map("type")] = always(list)
    """Whether its names are accepted, and whether it is served."""
    accepted_names: CustomResourceDefinitionNames = always(CustomResourceDefinitionNames)
    stored_versions: list[str] = always(list)
    """The versions in which objects may have been stored."""
    observed_generation: Int64 = 0


class CustomResourceDefinition(Resource):
    """A kind that users have added."""

    spec: CustomResourceDefinitionSpec = required(CustomResourceDefinitionSpec)
    status: CustomResourceDefinitionStatus = always(CustomResourceDefinitionStatus)


CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""On a definition that is being deleted, as long as there are objects of its kind."""

NAMES_ACCEPTED, ESTABLISHED, NON_STRUCTURAL, TERMINATING = (
    "NamesAccepted",
    "Established",
    "NonStructuralSchema",
    "Terminating",
)


def condition_of(definition: CustomResourceDefinition, kind: str) -> CustomResourceDefinitionCondition | None:
    """Return the condition of a type."""
    for each in definition.status.conditions:  # asked for every custom object: a generator would cost more
        if each.type == kind:
            return each
    return None


def holds(definition: CustomResourceDefinition, kind: str) -> bool:
    """Whether a condition is true."""
    found = condition_of(definition, kind)
    return found is not None and found.status == "True"
