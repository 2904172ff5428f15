"""What every kind tells the pipeline about itself: its defaults, its rules, and what may change.

One `Strategy` subclass per kind, all of them listed in ``registry.py``; ``pipeline.py`` calls the methods in the order
in which Kubernetes does. A method that a kind does not need is inherited. Methods change the object that they are given
in place (it was decoded for this request and nobody else has seen it), and never the old object.

    create: default → mutate → prepare_for_create → validate_create → warnings → judge
    update: default → mutate → prepare_for_update → validate_update → warnings → judge

- `default` fills in what the client left out and needs nothing but the object.
- `mutate` does what Kubernetes' mutating admission plugins do: it may look things up (`request.lookups`) and may
  refuse, by raising an error of ``mooring.api.errors``.
- `prepare_*` puts fields right that the client has no say in: status, generation, fields behind a gate.
- `validate_*` returns *all* errors, in Kubernetes' order and words. It never raises.
- `judge` does what Kubernetes' validating admission plugins do: it refuses a valid object for what the cluster says.

A subresource such as `status` is a strategy of its own in `subresources`; `StatusStrategy` is the usual one.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from mooring.admission import meta
from mooring.admission.free_words import Place, WordCheck
from mooring.admission.options import AdmissionOptions
from mooring.api import meta_v1
from mooring.api.answer_limits import add_warning
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import LimitRange, Pod, ServiceAccount
from mooring.api.field_errors import FieldError
from mooring.api.node_v1 import RuntimeClass

if TYPE_CHECKING:  # it needs the rules of pods, which need this module
    from mooring.admission.pod.known_specs import KnownSpecs

T = TypeVar("T", bound=meta_v1.Resource)


class Priority(msgspec.Struct, frozen=True):
    """What admission needs of a PriorityClass."""

    name: str
    value: int
    preemption_policy: str = "PreemptLowerPriority"


class Lookups(Protocol):
    """What admission asks the cluster. The API server answers from its caches, lint and replay from what they have."""

    @property
    def knows_runtime_classes(self) -> bool:
        """Whether a RuntimeClass that cannot be found does not exist."""

    def namespace_phase(self, name: str) -> str | None:
        """The phase of a namespace (`Active`, `Terminating`), None when it does not exist."""

    def priority_class(self, name: str) -> Priority | None:
        """The PriorityClass of that name."""

    def default_priority_class(self) -> Priority | None:
        """The PriorityClass with `globalDefault`; the one with the lowest value if there are several."""

    def default_storage_class(self) -> str | None:
        """The name of the StorageClass that claims without one get; the newest if several are marked."""

    def default_ingress_class(self) -> str | None:
        """The name of the IngressClass that Ingresses without one get; the newest if several are marked."""

    def allows_expansion(self, storage_class: str) -> bool:
        """Whether there is a StorageClass of that name whose volumes may grow."""

    def service_accounts(self, namespace: str) -> Mapping[str, ServiceAccount] | None:
        """The accounts that a new pod in a namespace may mean, by name; None where nobody keeps accounts."""

    def runtime_class(self, name: str) -> RuntimeClass | None:
        """The RuntimeClass of that name."""

    def topology_labels(self, node: str) -> Mapping[str, str]:
        """The zone and region that a node has as labels; nothing where there is no such node."""

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        """The LimitRanges of a namespace, by name."""

    def security_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace that say how secure its pods must be."""

    def pods(self, namespace: str) -> tuple[int, Iterator[Pod]]:
        """How many pods a namespace has, and all of them, one after the other."""


class NoCluster:
    """Lookups without a cluster: every namespace exists, and nothing but the system's own PriorityClasses does."""

    knows_runtime_classes = False

    def namespace_phase(self, name: str) -> str | None:
        return "Active"

    def priority_class(self, name: str) -> Priority | None:
        return SYSTEM_PRIORITIES.get(name)

    def default_priority_class(self) -> Priority | None:
        return None

    def default_storage_class(self) -> str | None:
        return None

    def default_ingress_class(self) -> str | None:
        return None

    def allows_expansion(self, storage_class: str) -> bool:
        return bool(storage_class)  # what a class says is not known here

    def service_accounts(self, namespace: str) -> Mapping[str, ServiceAccount] | None:
        return None

    def runtime_class(self, name: str) -> RuntimeClass | None:
        return None

    def topology_labels(self, node: str) -> Mapping[str, str]:
        return {}

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        return ()

    def security_labels(self, namespace: str) -> Mapping[str, str]:
        return {}

    def pods(self, namespace: str) -> tuple[int, Iterator[Pod]]:
        return 0, iter(())


SYSTEM_PRIORITIES: Mapping[str, Priority] = {
    "system-cluster-critical": Priority("system-cluster-critical", 2_000_000_000),
    "system-node-critical": Priority("system-node-critical", 2_000_001_000),
}
"""The PriorityClasses that every cluster has."""


class Request(msgspec.Struct, kw_only=True):
    """One write: the options it is judged by, what it may look up, and where it was sent."""

    options: AdmissionOptions
    lookups: Lookups = msgspec.field(default_factory=NoCluster)
    now: datetime
    """The time that goes into `creationTimestamp` and `timeAdded`."""
    namespace: str = ""
    """The namespace in the request's path; empty for cluster-scoped kinds."""
    name: str = ""
    """The name in the request's path; empty when an object is created in its collection."""
    user: UserInfo = msgspec.field(default_factory=UserInfo)
    """Who writes: objects that speak for their author have it written into them."""
    warnings: list[str] = []
    known_specs: "KnownSpecs | None" = None
    """What whoever admits many pods remembers of them; None judges each anew."""

    def warn(self, text: str) -> None:
        """Tell the client something, once, whether the request succeeds or not; the first of very much."""
        add_warning(self.warnings, text)


class Strategy(Generic[T]):
    """The rules of one kind. The defaults here suit a kind with `spec` and `status` and without rules."""

    object_type: type[meta_v1.Resource]
    """The struct of the kind, in the version that all others are converted to."""
    group: str = ""
    kind: str
    resource: str
    """The plural, as in paths and in errors that name an object."""
    namespaced: bool = True
    has_generation: bool = True
    """Whether `metadata.generation` counts changes of `spec`."""
    allow_create_on_update: bool = False
    """Whether PUT of a name that does not exist creates it."""
    allow_unconditional_update: bool = True
    """Whether an update may leave out `metadata.resourceVersion`."""
    may_take_long: bool = False
    """Whether judging a large object takes so long that a server does it beside its other work."""
    is_judged_by_text: bool = False
    """Whether what becomes of a new object depends on what it says and on its namespace, and on nothing else."""

    def __init__(self, subresources: "Mapping[str, Strategy[Any]] | None" = None) -> None:
        self.subresources = subresources or {}

    def free_word(self, place: Place) -> WordCheck | None:
        """The check of a word that new objects of one sort may differ in, if they are judged by their text."""
        return None

    def default(self, obj: T) -> None:
        """Fill in what the client left out."""

    def mutate(self, obj: T, old: T | None, request: Request) -> None:
        """Do what admission plugins do. `old` is None for a create."""

    def prepare_for_create(self, obj: T, request: Request) -> None:
        """Clear what clients do not set on create: here the status; and count the first generation."""
        clear_status(obj)
        if self.has_generation:
            obj.metadata.generation = 1

    def validate_create(self, obj: T, request: Request) -> list[FieldError]:
        """All that is wrong with a new object, `metadata` included (``meta.validate_object_meta``)."""
        return []

    def renamed(self, obj: T, taken: str) -> None:
        """Put right what was made from the name `taken`: the admitted object has got another since."""

    def prepare_for_update(self, new: T, old: T, request: Request) -> None:
        """Keep what an update of the main resource must not touch: here the status; and count the generation."""
        keep_status(new, old)
        if self.has_generation:
            changed = getattr(new, "spec", None) != getattr(old, "spec", None)
            new.metadata.generation = old.metadata.generation + changed

    def validate_update(self, new: T, old: T, request: Request) -> list[FieldError]:
        """All that is wrong with a change, `metadata` included (``meta.validate_object_meta_update``)."""
        raise NotImplementedError(type(self).__name__)

    def warnings(self, new: T, old: T | None, request: Request) -> list[str]:
        """What is worth telling the client about an object that was accepted. `old` is None for a create."""
        return []

    def judge(self, new: T, old: T | None, request: Request) -> None:
        """Refuse what is valid and yet not wanted where it is, by raising Forbidden. `old` is None for a create."""


class StatusStrategy(Strategy[T]):
    """The `status` subresource of a kind: the status changes, and the metadata that ``subresources.py`` allows."""

    def __init__(self, main: Strategy[T]) -> None:
        super().__init__()
        self.main = main

    def prepare_for_update(self, new: T, old: T, request: Request) -> None:
        """Restore everything except status and metadata."""
        for name in new.__struct_fields__:
            if name not in ("api_version", "kind", "metadata", "status"):
                setattr(new, name, getattr(old, name))  # shared: nothing changes it any more

    def default(self, obj: T) -> None:
        self.main.default(obj)

    def validate_update(self, new: T, old: T, request: Request) -> list[FieldError]:
        """The rules of the metadata alone, unless the kind adds its own."""
        return meta.validate_object_meta_update(new.metadata, old.metadata)


def keep_status(new: T, old: T) -> None:
    """Put the old status into the new object."""
    if "status" in new.__struct_fields__:
        new.status = old.status  # type: ignore[attr-defined] # shared: nothing changes it; some kinds have none


def clear_status(obj: meta_v1.Resource) -> None:
    """Give the object the status of a new one."""
    if "status" in obj.__struct_fields__:
        obj.status = type(obj)().status  # type: ignore[attr-defined] # as in `keep_status`
