"""The plugin API: one Protocol for each extension point, in the order in which a pod meets them.

    queue_sort, pre_enqueue      which pod is next, and which may be tried at all
    pre_filter, filter           which nodes can take it
    post_filter                  what could be done when none can (preemption)
    pre_score, score, normalize  which of them is best
    choose                       which of several that are equally good
    reserve, permit              claim what it needs there, ask whether to go on
    pre_bind, bind, post_bind    make it so

A plugin has a `name` and any of these methods. Filter and Score come in two forms:

* **Vectorised** (`FilterPlugin`, `ScorePlugin`): judges all rows of the node table at once and returns arrays.
  With `scope = Scope.SHAPE` it is shown only `PodInfo.shape`, of that the parts that it says in `signs`, and what it
  signs itself (`SignPlugin`); pods that look alike then share its verdicts, and it is asked again only about rows that
  changed (or about others too, see `RefreshedFilter`, `RefreshedScore`). With `scope = Scope.POD` it is asked anew for
  every pod and may look at the pod itself.
* **Per node** (`NodeFilterPlugin`, `NodeScorePlugin`): plain Python for one node at a time, asked only about nodes that
  everybody before it accepted. This is the form for users' own plugins.

What `pre_filter` and `pre_score` return as state is handed to the later calls; plugins keep nothing about a pod in
themselves, so one instance serves all pods. Plugins whose state is needed after filtering find it in `CycleState`.
Everything up to `reserve` is synchronous and does no I/O; `pre_bind` and `bind` may.
Read next: ``scheduler/plugins/taint_toleration.py`` for a vectorised plugin, ``scheduler/deciding/profiles.py`` for the
order.
"""

from collections.abc import Hashable, Iterable, Sequence
from enum import Enum, Flag, auto
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import Pod, PodSpec
from mooring.api.meta_v1 import Resource
from mooring.constraints.columns.revisions import Derived
from mooring.scheduler.columns.cluster import Cluster, NodeInfo
from mooring.scheduler.columns.shapes import PodInfo, PodShape
from mooring.scheduler.framework.events import ClusterEvent, EventWithHint
from mooring.scheduler.framework.status import Status
from mooring.scheduler.framework.verdicts import Mask, Rows, Scores, Verdicts

if TYPE_CHECKING:  # they are made from what the framework's plugins have said
    from mooring.scheduler.deciding.refusals import Refusals

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class Scope(Enum):
    """For whom a vectorised plugin's verdicts hold."""

    SHAPE = "shape"
    """For all pods of the same shape."""
    POD = "pod"
    """For this pod in this cycle."""


@runtime_checkable
class SignPlugin(Protocol):
    """SHAPE plugins that read more of a pod than shapes have: pods that sign alike have one shape."""

    def sign(self, pod: Pod) -> object:
        """What it reads, such as an annotation, in a form that can be encoded; it finds it in `shape.own`.

        It must not differ for pods of one template, or no two of them would share verdicts.
        """
        ...


class Reads(Flag):
    """Which changes of a node make a SHAPE plugin judge its row again (changes elsewhere: `RefreshedFilter`)."""

    NODE = auto()
    """The node object: labels, taints, allocatable, images."""
    PODS = auto()
    """The pods on the node."""


class PreFilterResult(msgspec.Struct, Generic[S], frozen=True):
    """What a plugin has worked out for a pod, or for all of its shape."""

    state: S
    node_names: frozenset[str] | None = None
    """The only nodes that need to be looked at; None means all."""
    is_pinned: bool = False
    """Whether the node that a pod of a pinned shape is made for is the only one (`Part.UNPINNED`)."""


class CycleState(msgspec.Struct):
    """What plugins carry through one attempt to schedule one pod."""

    pre_filter: dict[str, Any] = msgspec.field(default_factory=dict)
    """By plugin, the state that its `pre_filter` returned (only plugins of `Scope.POD`)."""
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    """Anything else, by plugin."""


class Plugin(Protocol):
    @property
    def name(self) -> str: ...


@runtime_checkable
class EnqueueExtensions(Protocol):
    """Plugins that can refuse a pod tell which events may change that; without it, every event does."""

    def events_to_register(self) -> Sequence[EventWithHint]: ...


@runtime_checkable
class RefersToObjects(Protocol):
    """Plugins whose events are mostly about an object that few pods name: such an event then asks only about these."""

    name: str

    def refers_to(self, pod: Pod) -> Iterable[str]:
        """The keys of the objects that a pod names, as `about` of the plugin's events says them."""
        ...


@runtime_checkable
class GateKeeper(Protocol):
    """PreEnqueue plugins that can tell what opens their gate, besides a change of the pod itself."""

    name: str

    def opened_by(self, event: ClusterEvent, old: Any, new: Any) -> bool | str:
        """Whether an event may let pods in, or just those that refer to the object with this key."""
        ...


@runtime_checkable
class QueueSortPlugin(Protocol):
    """Exactly one orders the queue."""

    def sort_key(self, pod: Pod, queued_at: float) -> tuple[Any, ...]:
        """The pod with the smallest key is next; `queued_at` is a monotonic time."""
        ...


@runtime_checkable
class PreEnqueuePlugin(Protocol):
    """Asked before a pod enters the active queue; one that is refused waits until it changes."""

    def pre_enqueue(self, pod: Pod) -> Status: ...


@runtime_checkable
class FilterPlugin(Protocol[S]):
    """Vectorised: says for each row whether the pod can run there."""

    name: str
    scope: Scope
    reads: Reads

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult[S] | Status:
        """What `filter` needs to know, or a status instead: `SKIP` when the plugin does not apply to the pod, `SUCCESS`
        when it does and every node passes, a refusal when no node does."""
        ...

    def filter(self, state: S, rows: Rows) -> Verdicts | Status:
        """The verdicts on `rows`. A `Status` in their place is an error and ends the cycle."""
        ...


@runtime_checkable
class RefreshedFilter(Protocol[S_contra]):
    """SHAPE Filter plugins whose verdict on a row depends on more than that row: they derive it from the cluster."""

    def refresh(self, state: S_contra, /) -> Derived | None:
        """Bring the state up to date; when verdicts have changed, and on which rows besides those that did themselves.

        None leaves the plugin out for now, as `SKIP` does.
        """
        ...


@runtime_checkable
class QuietFilter(Protocol):
    """SHAPE Filter plugins with a `refresh` that know which pods can end their being left out."""

    def woken_by(self, shape: PodShape, /) -> bool:
        """Whether the plugin may have something to say once a pod of a shape has come, where it had nothing before."""
        ...


@runtime_checkable
class SpecFilter(Protocol):
    """POD Filter plugins that know which pods are none of their business by the specification alone."""

    def says_of(self, spec: PodSpec, /) -> Status | None:
        """What `pre_filter` says of every pod with this specification whatever else there is: SKIP or SUCCESS.

        None where that depends. What it says is kept for pods that share the specification, and so is what `pre_score`
        says of one of them.
        """
        ...


@runtime_checkable
class LikeRows(Protocol[S_contra]):
    """SHAPE Filter plugins that read the pods of a row and can tell when two rows look the same to them."""

    def likeness(self, state: S_contra, row: int, /) -> Hashable:
        """Equal for rows that have the same verdict, and still have it after the same pods come or go there."""
        ...


@runtime_checkable
class ResourceFilter(Protocol[S_contra]):
    """SHAPE Filter plugins whose verdict on a row depends on its resources alone."""

    def fits_resources(self, state: S_contra, allocatable: NDArray[np.int64], used: NDArray[np.int64], /) -> Mask:
        """Which nodes that have, and have used, so much would do: lines as in the resource columns, a column each."""
        ...

    def filter_resources(self, state: S_contra, allocatable: NDArray[np.int64], used: NDArray[np.int64], /) -> Verdicts:
        """The same as verdicts."""
        ...


@runtime_checkable
class NodeFilterPlugin(Protocol):
    """Per node: says whether the pod can run there."""

    name: str

    def filter_node(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status: ...


@runtime_checkable
class NodePreFilterPlugin(Protocol):
    """Asked once before `filter_node`; what it learns it leaves in `cycle.data`."""

    def pre_filter_pod(self, cycle: CycleState, pod: Pod, cluster: Cluster) -> Status: ...


class PostFilterResult(msgspec.Struct, frozen=True):
    """What a PostFilter plugin has done for a pod, or says."""

    status: Status
    nominated: str | None = None
    """The node that will have room once the victims have gone."""
    victims: tuple[Pod, ...] = ()
    """The most important first."""
    keeps_nomination: bool = False
    """Whether the pod keeps the node that it was nominated for before, when it is nominated for none now."""
    in_background: bool = True
    """Whether other pods may be tried while the victims are being deleted."""


@runtime_checkable
class PostFilterPlugin(Protocol):
    """Asked when no node can take the pod; `statuses` say why, node by node."""

    def post_filter(self, pod: PodInfo, statuses: "Refusals") -> PostFilterResult: ...


@runtime_checkable
class ScorePlugin(Protocol[S]):
    """Vectorised: gives each row points."""

    name: str
    score_scope: Scope
    score_reads: Reads

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> S | Status:
        """What `score` needs to know, or a status instead: `SKIP` when the plugin does not score the pod, `SUCCESS`
        when it does and gives every node 0 points."""
        ...

    def score(self, state: S, rows: Rows) -> Scores: ...


@runtime_checkable
class RefreshedScore(Protocol[S_contra]):
    """SHAPE Score plugins whose points for a row depend on more than that row."""

    def refresh_score(self, state: S_contra, feasible: Mask, /) -> Derived | None:
        """As `refresh`, for points.

        `feasible` are the rows that passed every filter, for plugins whose points depend on the competition. The array
        is never changed: the same one means the same rows.
        """
        ...


@runtime_checkable
class GroupedScore(Protocol[S_contra]):
    """Those among them whose points are the same for all rows of a group."""

    def score_groups(self, state: S_contra, /) -> tuple[Scores, NDArray[np.intp]]:
        """Points by group, and the group of each row: an array in which rows change their group only with their pods.

        To be asked after `refresh_score`.
        """
        ...


@runtime_checkable
class Normalizer(Protocol):
    """For Score plugins whose points become 0 to 100 only in comparison with those of other feasible nodes."""

    def span(self, scores: Scores, feasible: Mask) -> tuple[int, ...]:
        """What of the feasible nodes' points `normalized` needs; while it stays the same, so do normalised points."""
        ...

    def normalized(self, scores: Scores, span: tuple[int, ...]) -> Scores: ...


@runtime_checkable
class NodeScorePlugin(Protocol):
    """Per node: gives a feasible node 0 to 100 points."""

    name: str

    def score_node(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int: ...


@runtime_checkable
class NodeScoreNormalizer(Protocol):
    """Per-node plugins may bring their points to 0 to 100 when all feasible nodes have theirs."""

    def normalize_scores(self, pod: Pod, scores: dict[str, int]) -> dict[str, int]: ...


@runtime_checkable
class ChoosePlugin(Protocol):
    """Chooses among the nodes that have the most points; without it, the lot decides."""

    def choose(self, pod: Pod, rows: NDArray[np.intp]) -> int:
        """One of two rows or more, which are in ascending order."""
        ...


@runtime_checkable
class ReservePlugin(Protocol):
    """Claims in memory what the pod will use on its node; `unreserve` gives it back, whatever happened."""

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status: ...

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None: ...


@runtime_checkable
class PermitPlugin(Protocol):
    """Lets the pod go on, refuses it, or makes it wait for so many seconds."""

    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> tuple[Status, float]: ...


@runtime_checkable
class PreBindPlugin(Protocol):
    """Does what must be done before the pod is bound, such as binding its volumes."""

    async def pre_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status: ...


@runtime_checkable
class TellsWrites(ReservePlugin, Protocol):
    """PreBind plugins that can tell what they would write, for simulations, where it is done without a client."""

    def would_write(self, cycle: CycleState, pod: Pod, node_name: str) -> Sequence[Resource]:
        """Objects as they would be then; to be asked after `reserve`, which is taken back when they are there."""
        ...


@runtime_checkable
class BindPlugin(Protocol):
    """Binds the pod; `SKIP` leaves it to the next one."""

    async def bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status: ...


@runtime_checkable
class GroupBindPlugin(Protocol):
    """Bind plugins that bind many pods at once, and never skip one: those after them are not asked."""

    async def bind_all(self, pods: Sequence[tuple[Pod, str]]) -> Sequence[Exception | None]:
        """What went wrong with each pod on its way to the node beside it; None for those that are bound.

        Called again while it is still at work, and with no pods before there are any: the time to make connections.
        """
        ...


@runtime_checkable
class PostBindPlugin(Protocol):
    """Told about every pod that was bound."""

    def post_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> None: ...
