"""meta/v1: what every kind has (type, metadata), selectors, Status, request options, discovery documents and Table.

Every other API module builds on this one: a stored kind is a :class:`Resource`, its list a :class:`ResourceList`.
Timestamps are RFC 3339 text as the client gave them. JSON of no fixed shape is kept as plain Python values. The field
sets of managed fields stay JSON, as in Kubernetes, because few readers of an object need them. Read next:
``core_v1/pod.py``.
"""

from functools import cache
from typing import Annotated, Any, ClassVar, cast

from msgspec import Raw, defstruct, field, json

from mooring.api.base import Int32, Int64, Merge, Object, always, atomic, list_map, list_set, required

NO_FIELD_SET = Raw(b"null")


class TypeMeta(Object):
    """Names the schema of an object."""

    kind: str = ""
    """The kind of the object, in CamelCase."""
    api_version: str = ""
    """APIVersion defines the group and version of the schema, such as apps/v1, or v1 for the core group."""


class OwnerReference(Object):
    """Points to an object that owns this one, in the same namespace or cluster-scoped."""

    __merge__: ClassVar[Merge | None] = atomic()

    api_version: str = required(str)
    """The group and version of the owner."""
    kind: str = required(str)
    name: str = required(str)
    uid: str = required(str)
    """The unique id of the owner."""
    controller: bool | None = None
    """Whether the owner is the controller that manages this object."""
    block_owner_deletion: bool | None = None
    """Whether foreground deletion of the owner waits until this object is gone."""


class ManagedFieldsEntry(Object):
    """The fields that one manager has set through one kind of operation."""

    manager: str = ""
    """The name of the workflow or person that manages the fields."""
    operation: str = ""
    """Apply for server-side apply, Update for everything else."""
    api_version: str = ""
    """The version in whose schema the fields are named."""
    time: str | None = None
    """When the manager last changed its set of fields."""
    fields_type: str = ""
    """The format of the field set; FieldsV1 is the only one."""
    fields_v1: Raw = NO_FIELD_SET
    """The set of fields as a tree of path elements, in compact JSON; ``codec.py`` compacts what clients send."""
    subresource: str = ""
    """The subresource through which the fields were set, empty for the object itself."""


class ObjectMeta(Object):
    """The metadata that every stored object has."""

    name: str = ""
    """The name, unique for a kind within its namespace; it cannot be changed."""
    generate_name: str = ""
    """A prefix from which the server makes a unique name when no name is given."""
    namespace: str = ""
    """The namespace of the object; empty for cluster-scoped kinds."""
    self_link: str = ""
    """Not used any more; kept so that old objects can be read."""
    uid: str = ""
    """The unique id in time and space that the server gave the object."""
    resource_version: str = ""
    """An opaque version of the object for optimistic concurrency and watches."""
    generation: Int64 = 0
    """A number that grows with every change of the desired state."""
    creation_timestamp: str | None = None
    """CreationTimestamp is a timestamp: when the server created the object."""
    deletion_timestamp: str | None = None
    """When the object will be deleted; set by the server when a deletion was asked for."""
    deletion_grace_period_seconds: Int64 | None = None
    """How many seconds the object has to end gracefully, set together with the deletion time."""
    labels: dict[str, str] = {}
    """Keys and values by which selectors find the object."""
    annotations: dict[str, str] = {}
    """Keys and values that tools attach to the object and that no selector looks at."""
    owner_references: Annotated[list[OwnerReference], list_map("uid")] = []
    """The objects that this one depends on; when all are gone it is collected."""
    finalizers: Annotated[list[str], list_set()] = []
    """Names that must all be removed before the object disappears."""
    managed_fields: list[ManagedFieldsEntry] = []
    """Which manager set which fields, for server-side apply."""


def encode_field_sets(metadata: Any) -> Any:
    """Return a metadata tree with its field sets as JSON, since `msgspec.convert` does not encode them."""
    entries = metadata.get("managedFields") if isinstance(metadata, dict) else None
    if not entries or not isinstance(entries, list):
        return metadata
    return {**metadata, "managedFields": [_encode_field_set(entry) for entry in entries]}


def _encode_field_set(entry: Any) -> Any:
    fields = entry.get("fieldsV1") if isinstance(entry, dict) else None
    return {**entry, "fieldsV1": Raw(json.encode(fields))} if isinstance(fields, dict) else entry


class ShardInfo(Object):
    """The part of a collection that a sharded list covers."""

    selector: str = required(str)
    """The shard selector that the list was asked with."""


class ListMeta(Object):
    """The metadata of a list."""

    self_link: str = ""
    """Not used any more; kept so that old lists can be read."""
    resource_version: str = ""
    """The version of the collection that the list shows; watches start from it."""
    continue_: str = field(default="", name="continue")
    """A token with which the next page is asked for; empty on the last page."""
    remaining_item_count: Int64 | None = None
    """How many items follow after this page, where the server knows it."""
    shard_info: ShardInfo | None = None
    """Set when the list covers only one shard of the collection."""


class Resource(TypeMeta):
    """An object with a name that the API stores or shows: the base of every kind."""

    metadata: ObjectMeta = always(ObjectMeta)
    """Standard object's metadata: name, labels and everything else that all objects have."""


class ResourceList(TypeMeta):
    """Several objects of one kind: the base of every list kind, which says of what kind."""

    metadata: ListMeta = always(ListMeta)
    items: list[Any] = required(list)


@cache
def list_of(kind: type[Resource]) -> type[ResourceList]:
    """Create the list type of a kind on first use, for OpenAPI and protobuf."""
    made = defstruct(
        f"{kind.__name__}List",
        [("items", list[kind], required(list))],  # type: ignore[valid-type] # known only when it is made
        bases=(ResourceList,),
        module=kind.__module__,
        namespace={"__doc__": f"Several objects of the kind {kind.__name__}."},
        kw_only=True,
    )
    return cast("type[ResourceList]", made)


class LabelSelectorRequirement(Object):
    """A condition on the value of one label."""

    key: str = required(str)
    """The label that the condition looks at."""
    operator: str = required(str)
    """In, NotIn, Exists or DoesNotExist."""
    values: list[str] = []
    """The values to compare with; empty for Exists and DoesNotExist."""


class LabelSelector(Object):
    """Chooses objects by their labels: all conditions must hold; an empty selector chooses every object."""

    __merge__: ClassVar[Merge | None] = atomic()

    match_labels: dict[str, str] = {}
    """Labels that an object must have with exactly these values."""
    match_expressions: list[LabelSelectorRequirement] = []
    """Conditions on labels that must all hold."""


class GroupResource(Object):
    """A resource, whatever its version."""

    group: str = required(str)
    """The API group of the resource; empty for the core group."""
    resource: str = required(str)
    """The plural name of the resource, such as pods."""


class Condition(Object):
    """One aspect of an object's current state."""

    type: str = required(str)
    """What the condition is about, in CamelCase."""
    status: str = required(str)
    """True, False or Unknown."""
    observed_generation: Int64 = 0
    """The generation of the object for which the condition was set."""
    last_transition_time: str | None = required(lambda: None)
    reason: str = required(str)
    message: str = required(str)


class StatusCause(Object):
    """One of the reasons why a request failed."""

    reason: str = ""
    """A machine-readable reason, such as FieldValueInvalid."""
    message: str = ""
    field: str = ""
    """The path of the field that caused the error."""


class StatusDetails(Object):
    """The object and causes that a Status is about."""

    name: str = ""
    group: str = ""
    """The API group of the object."""
    kind: str = ""
    """The kind or resource of the object."""
    uid: str = ""
    causes: list[StatusCause] = []
    """The single reasons, for errors that have several."""
    retry_after_seconds: Int32 = 0
    """After how many seconds the client should try again."""


class Status(TypeMeta):
    """The outcome of a request that returns no object."""

    metadata: ListMeta = always(ListMeta)
    """The version of the collection, where it matters."""
    status: str = ""
    """Success or Failure."""
    message: str = ""
    reason: str = ""
    """A machine-readable reason, such as NotFound."""
    details: StatusDetails | None = None
    code: Int32 = 0
    """The suggested HTTP status code."""


class Preconditions(Object):
    """Conditions that an object must meet before it is changed."""

    uid: str | None = None
    """The unique id that the object must have."""
    resource_version: str | None = None
    """The version that the object must have."""


class DeleteOptions(TypeMeta):
    """The options of a deletion."""

    grace_period_seconds: Int64 | None = None
    """Seconds that the object has to end; zero means at once."""
    preconditions: Preconditions | None = None
    """What must hold of the object, else the answer is a conflict."""
    orphan_dependents: bool | None = None
    """Use propagationPolicy instead: whether dependents are left without an owner."""
    propagation_policy: str | None = None
    """What happens to dependents: Orphan, Background or Foreground."""
    dry_run: list[str] = []
    """All: do everything but keep nothing."""
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None
    """Deletes an object that cannot be read from the store; dangerous."""


class WatchEvent(Object):
    """One change in a watch."""

    type: str = required(str)
    """ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""
    object: Any = required(dict)
    """The object after the change, as it was last for DELETED, or a Status for ERROR."""


class PartialObjectMetadata(Resource):
    """The metadata of an object of any kind."""


class PartialObjectMetadataList(ResourceList):
    """The metadata of several objects."""

    items: list[PartialObjectMetadata] = required(list)


class TableColumnDefinition(Object):
    """A column of a Table."""

    name: str = required(str)
    """The heading of the column."""
    type: str = required(str)
    """The OpenAPI type of the cells: string, integer, number, boolean or date."""
    format: str = required(str)
    """The OpenAPI format of the cells; name marks the column with the object's name."""
    description: str = required(str)
    """A sentence about what the column shows."""
    priority: Int32 = required(int)
    """Columns above zero are shown only in wide output."""


class TableRowCondition(Object):
    """Something special about a row."""

    type: str = required(str)
    """What the condition is about; Completed marks objects that have run to their end."""
    status: str = required(str)
    """True, False or Unknown."""
    reason: str = ""
    message: str = ""


class TableRow(Object):
    """A row of a Table: one object."""

    cells: list[Any] = required(list)
    """One value for each column."""
    conditions: list[TableRowCondition] = []
    object: Any = None
    """The requested part of the object: all, its metadata or nothing."""


class Table(TypeMeta):
    """Objects as rows of text, made for people."""

    # no list with `items`: kubectl would take it for one without objects
    metadata: ListMeta = always(ListMeta)
    column_definitions: list[TableColumnDefinition] = required(list)
    """What the cells of each row mean."""
    rows: list[TableRow] = required(list)


class GroupVersionForDiscovery(Object):
    """A version of a group."""

    group_version: str = required(str)
    """Group and version, such as apps/v1."""
    version: str = required(str)
    """The version alone, so that clients need not split."""


class ServerAddressByClientCIDR(Object):
    """The address that clients of a network should use."""

    client_cidr: str = required(str, name="clientCIDR")
    """The network of the clients."""
    server_address: str = required(str)
    """The host, or host and port, of the server."""


class APIGroup(TypeMeta):
    """A group and its versions."""

    name: str = required(str)
    versions: list[GroupVersionForDiscovery] = required(list)
    """The versions that are served."""
    preferred_version: GroupVersionForDiscovery | None = None
    """The version that clients should use when they have no preference."""
    server_address_by_client_cidrs: list[ServerAddressByClientCIDR] = field(
        default_factory=list, name="serverAddressByClientCIDRs"
    )
    """Addresses of the server by the network of the client."""


class APIGroupList(TypeMeta):
    """All groups, as served at /apis."""

    groups: list[APIGroup] = required(list)


class APIVersions(TypeMeta):
    """The versions of the core group, as served at /api."""

    versions: list[str] = required(list)
    """The versions that are served."""
    server_address_by_client_cidrs: list[ServerAddressByClientCIDR] = required(list, name="serverAddressByClientCIDRs")
    """Addresses of the server by the network of the client."""


class APIResource(Object):
    """A resource or subresource of a group-version."""

    name: str = required(str)
    """The plural name, with the subresource after a slash."""
    singular_name: str = required(str)
    """The singular name, as in the name of a command's argument."""
    namespaced: bool = required(bool)
    """Whether objects of the resource live in namespaces."""
    group: str = ""
    """The group of the kind, where it differs from the list's."""
    version: str = ""
    """The version of the kind, where it differs from the list's."""
    kind: str = required(str)
    """The kind of the resource's objects."""
    verbs: list[str] = required(list)
    """What can be done with the resource."""
    short_names: list[str] = []
    """Abbreviations that people type."""
    categories: list[str] = []
    """Groups of resources that are listed together, such as all."""
    storage_version_hash: str = ""
    """Changes when the version in which objects are stored does."""


class APIResourceList(TypeMeta):
    """The resources of one group-version."""

    group_version: str = required(str)
    """Group and version, such as apps/v1."""
    resources: list[APIResource] = required(list)
    """The resources and subresources."""


class GroupVersionKind(Object):
    """Names a kind without doubt."""

    group: str = always(str)
    version: str = always(str)
    """The version within the group."""
    kind: str = always(str)
    """The kind."""


class GroupVersionResource(Object):
    """Names a resource without doubt."""

    group: str = required(str)
    version: str = required(str)
    """The version within the group."""
    resource: str = required(str)
    """The plural name of the resource."""


class RootPaths(Object):
    """The paths that the server answers, as served at /."""

    paths: list[str] = required(list)


class VersionInfo(Object):
    """The versions of a server, as served at /version."""

    major: str = required(str)
    """The major version that it behaves as."""
    minor: str = required(str)
    """The minor version that it behaves as."""
    binary_major: str = ""
    """The major version of the program itself."""
    binary_minor: str = ""
    """The minor version of the program itself."""
    emulation_major: str = ""
    """The major version that it emulates."""
    emulation_minor: str = ""
    """The minor version that it emulates."""
    min_compatibility_major: str = ""
    """The major version with which it stays compatible."""
    min_compatibility_minor: str = ""
    """The minor version with which it stays compatible."""
    git_version: str = required(str)
    """The version as clients compare it, such as v1.37.0."""
    git_commit: str = required(str)
    """The commit that it was built from."""
    git_tree_state: str = required(str)
    """Whether it was built from exactly that commit: clean or dirty."""
    build_date: str = required(str)
    """When it was built."""
    go_version: str = required(str)
    """The language and its version."""
    compiler: str = required(str)
    """The compiler or interpreter."""
    platform: str = required(str)
    """The operating system and processor, such as linux/amd64."""
