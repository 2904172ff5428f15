"""The strategy of a kind: its defaults, validation rules and immutable fields.

One `Strategy` subclass per kind, all of them listed in ``registry.py``; ``pipeline.py`` calls the methods in the order
in which Kubernetes does. A method that a kind does not need is inherited. Methods change the object that they are given
in place (it was decoded for this request), and never the old object.

    create: default → mutate → prepare_for_create → validate_create → warnings → admit
    update: default → mutate → prepare_for_update → validate_update → warnings → admit

- `default` sets defaults and needs only the object.
- `mutate` does what Kubernetes' mutating admission plugins do: it may use `request.lookups` and may reject by raising
  an error of ``mooring.api.errors``.
- `prepare_*` resets fields that clients must not set: status, generation, gated fields.
- `validate_*` returns *all* errors, in Kubernetes' order and with its messages. It never raises. Most kinds inherit it
  and implement `validate`, the same for create and update.
- `admit` does what Kubernetes' validating admission plugins do: it rejects a valid object by the cluster's state.

A subresource is a strategy of its own in `subresources`; `StatusStrategy` is the usual one for `status`. Read next:
``configuration.py`` for small examples, ``node.py`` for a kind with more rules.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, get_args

import msgspec

from mooring.admission import checks, meta
from mooring.admission.meta import NameCheck
from mooring.admission.options import AdmissionOptions
from mooring.api import meta_v1, names
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import LimitRange, Pod, ServiceAccount
from mooring.api.field_errors import Errors
from mooring.api.kinds import KINDS
from mooring.api.node_v1 import RuntimeClass
from mooring.api.response_limits import add_warning

if TYPE_CHECKING:  # it needs the rules of pods, which need this module
    from mooring.admission.pod.known_specs import ValidSpecCache

T = TypeVar("T", bound=meta_v1.Resource)

_KINDS = {kind.type: kind for kind in reversed(KINDS)}
"""The API kinds by struct; of several versions with one struct, the newest."""


class Priority(msgspec.Struct, frozen=True):
    """The name, value and preemption policy of a PriorityClass."""

    name: str
    value: int
    preemption_policy: str = "PreemptLowerPriority"


class Lookups(Protocol):
    """The cluster state that admission reads; the API server implements it with caches, lint with its input files.

    The default bodies are used by `NoCluster`.
    """

    @property
    def knows_runtime_classes(self) -> bool:
        """Return whether all RuntimeClasses are known, so that a pod with an unknown one is rejected."""
        return False

    def namespace_phase(self, name: str) -> str | None:
        """Return a namespace's phase (`Active` or `Terminating`); None if it does not exist."""
        return "Active"

    def priority_class(self, name: str) -> Priority | None:
        return SYSTEM_PRIORITIES.get(name)

    def default_priority_class(self) -> Priority | None:
        """Return the PriorityClass with `globalDefault` (of several, the lowest value); None if none has it."""
        return None

    def default_storage_class(self) -> str | None:
        """Return the name of the default StorageClass (of several, the newest); None if there is none."""
        return None

    def default_ingress_class(self) -> str | None:
        """Return the name of the default IngressClass (of several, the newest); None if there is none."""
        return None

    def allows_expansion(self, storage_class: str) -> bool:
        """Return whether the named StorageClass exists and has `allowVolumeExpansion`."""
        return bool(storage_class)  # the class is unknown here

    def service_accounts(self, namespace: str) -> Mapping[str, ServiceAccount] | None:
        """Return, by name, the account `default` and the pod's; None if the namespace has no account `default`."""
        return None

    def runtime_class(self, name: str) -> RuntimeClass | None:
        return None

    def topology_labels(self, node: str) -> Mapping[str, str]:
        """Return a node's zone and region labels; empty if the node does not exist."""
        return {}

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        return ()

    def security_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace for Pod Security and DRA admin access; empty if there are none."""
        return {}

    def allows_admin_access(self, namespace: str) -> bool:
        """Return whether claims in a namespace may request admin access to devices, by the namespace's label."""
        return True

    def pods(self, namespace: str) -> tuple[int, Iterator[Pod]]:
        """Return the number of pods in a namespace, and an iterator over the pods."""
        return 0, iter(())


class NoCluster(Lookups):
    """Lookups without a cluster: namespaces exist; objects do not, except Kubernetes' own system PriorityClasses."""


SYSTEM_PRIORITIES: Mapping[str, Priority] = {
    "system-cluster-critical": Priority("system-cluster-critical", 2_000_000_000),
    "system-node-critical": Priority("system-node-critical", 2_000_001_000),
}
"""The PriorityClasses that every cluster has."""


class Request(msgspec.Struct, kw_only=True):
    """The context of one write for admission: server options, cluster state, namespace and name, user and time."""

    options: AdmissionOptions
    lookups: Lookups = msgspec.field(default_factory=NoCluster)
    now: datetime
    """The time that goes into `creationTimestamp` and `timeAdded`."""
    namespace: str = ""
    """The namespace in the request's path; empty for cluster-scoped kinds."""
    name: str = ""
    """The name in the request's path; empty when an object is created in its collection."""
    user: UserInfo = msgspec.field(default_factory=UserInfo)
    """The user, recorded in objects that carry their author."""
    warnings: list[str] = []
    known_specs: "ValidSpecCache | None" = None
    """A cache of valid PodSpecs; with None, every PodSpec is validated."""

    def warn(self, text: str) -> None:
        """Add a warning for the client, unless it repeats an earlier one or there are too many."""
        add_warning(self.warnings, text)


class Strategy(Generic[T]):
    """The admission rules of one kind. This base class suits a kind with `spec` and `status` and no rules of its own.

    A subclass names the kind's struct as type argument; ``api/kinds.py`` has the kind's names, scope and subresources.
    """

    object_type: type[meta_v1.Resource]
    """The struct of the kind, in the newest version."""
    group: str = ""
    kind: str
    resource: str
    """The plural resource name, as in paths and in errors that name an object."""
    namespaced: bool = True
    has_status: bool = False
    """Whether the kind has a `status` subresource."""
    has_generation: bool = True
    """Whether `metadata.generation` counts changes of `spec`."""
    allow_create_on_update: bool = False
    """Whether PUT of a name that does not exist creates it."""
    allow_unconditional_update: bool = True
    """Whether an update may leave out `metadata.resourceVersion`."""
    immutable: tuple[str, ...] = ()
    """The paths of fields that an update must not change, such as `spec.selector`."""

    def __init_subclass__(cls) -> None:
        for base in cls.__dict__.get("__orig_bases__", ()):  # `Strategy[Pod]`, with its type argument
            for argument in get_args(base):
                if kind := _KINDS.get(argument):
                    cls.object_type, cls.group, cls.kind = kind.type, kind.group, kind.kind
                    cls.resource = kind.plural or f"{kind.kind.lower()}s"
                    cls.namespaced, cls.has_status = kind.namespaced, kind.has_status

    def __init__(self, subresources: "Mapping[str, Strategy[Any]] | None" = None) -> None:
        status = {"status": StatusStrategy(self)} if self.has_status else {}
        self.subresources: Mapping[str, Strategy[Any]] = {**status, **(subresources or {})}

    def default(self, obj: T) -> None:
        pass

    def mutate(self, obj: T, old: T | None, request: Request) -> None:
        """Change an object in place as Kubernetes' mutating admission plugins do. `old` is None for a create."""

    def prepare_for_create(self, obj: T, request: Request) -> None:
        """Reset what clients must not set on create; by default, clear the status and set the generation to 1."""
        if "status" in obj.__struct_fields__:
            obj.status = type(obj)().status  # type: ignore[attr-defined] # some kinds have none
        if self.has_generation:
            obj.metadata.generation = 1

    def name_check(self, name: str) -> names.Messages:
        """Return why an object's name is malformed; empty if it is valid. By default, it must be a DNS subdomain."""
        return names.dns1123_subdomain(name)

    def name_check_for(self, obj: T, request: Request) -> NameCheck:
        """Return the function that checks an object's name; kinds override it if the rule depends on the object."""
        return self.name_check

    def validate_create(self, obj: T, request: Request) -> Errors:
        """Return all errors of a new object: those in its metadata, then those of the kind's rules."""
        check = self.name_check_for(obj, request)
        errors = meta.validate_object_meta(obj.metadata, namespaced=self.namespaced, name_check=check)
        return errors + self.validate(obj, None, request)

    def update_derived_names(self, obj: T, taken: str) -> None:
        """Update labels and selectors that contain the name `taken`, after the object got another generated name."""

    def prepare_for_update(self, new: T, old: T, request: Request) -> None:
        """Restore the old status, which only `/status` may change; increment the generation if the spec changes."""
        keep_status(new, old)
        if self.has_generation:
            changed = getattr(new, "spec", None) != getattr(old, "spec", None)
            new.metadata.generation = old.metadata.generation + changed

    def validate_update(self, new: T, old: T, request: Request) -> Errors:
        """Return all errors of an update: in metadata, by the kind's rules, and for changes of immutable fields."""
        errors = meta.validate_object_meta_update(new.metadata, old.metadata) + self.validate(new, old, request)
        return errors + checks.forbid_changes(new, old, *self.immutable) if self.immutable else errors

    def validate(self, obj: T, old: T | None, request: Request) -> Errors:
        """Validate an object except its metadata; return all errors. `old` is None for a create."""
        return []

    def prepare_status(self, new: T, old: T, request: Request) -> None:
        """Adjust the new status in place, in an update of the subresource `status`, before it is validated."""

    def validate_status(self, new: T, old: T, request: Request) -> Errors:
        """Validate the status in an update of the subresource `status`; return all errors."""
        return []

    def warnings(self, new: T, old: T | None, request: Request) -> list[str]:
        """Return warnings for the client about an accepted object. `old` is None for a create."""
        return []

    def admit(self, new: T, old: T | None, request: Request) -> None:
        """Raise Forbidden if the cluster's state does not permit this valid object. `old` is None for a create."""


class SubresourceStrategy(Strategy[T]):
    """The strategy for updates of a subresource. `main` is the strategy of the kind; its defaults are set here, too."""

    def __init__(self, main: Strategy[T]) -> None:
        self.main = main
        self.subresources = {}

    def default(self, obj: T) -> None:
        self.main.default(obj)


class StatusStrategy(SubresourceStrategy[T]):
    """The strategy for updates of the subresource `status`, which change only status and some metadata."""

    def prepare_for_update(self, new: T, old: T, request: Request) -> None:
        """Restore all old fields except metadata and status, and let the kind's strategy adjust the status."""
        for name in new.__struct_fields__:
            if name not in ("api_version", "kind", "metadata", "status"):
                setattr(new, name, getattr(old, name))  # shared, immutable from here on
        self.main.prepare_status(new, old, request)

    def validate_update(self, new: T, old: T, request: Request) -> Errors:
        errors = meta.validate_object_meta_update(new.metadata, old.metadata)
        return errors + self.main.validate_status(new, old, request)


def keep_status(new: T, old: T) -> None:
    """Restore the old status in the new object, unless its kind has no status."""
    if "status" in new.__struct_fields__:
        new.status = old.status  # type: ignore[attr-defined] # shared: nothing changes it


def set_missing(struct: msgspec.Struct, **defaults: object) -> None:
    """Set each named field of a struct that is None to the given default, in place."""
    for name, value in defaults.items():
        if getattr(struct, name) is None:
            setattr(struct, name, value)


def set_empty(struct: msgspec.Struct, **defaults: object) -> None:
    """Set each named field of a struct that is empty, zero or None to the given default, in place."""
    for name, value in defaults.items():
        if not getattr(struct, name):
            setattr(struct, name, value)
