"""The plugin API: one class or Protocol for each extension point, in the order in which a pod meets them.

    queue_sort, pre_enqueue      which pod is next, and which may be tried at all
    pre_filter, filter           which nodes can take it
    post_filter                  what could be done when none can (preemption)
    pre_score, score, normalize  which of them is best
    choose                       which of several that are equally good
    reserve, permit              claim what it needs there, ask whether to go on
    pre_bind, bind, post_bind    make it so

A plugin has a `name` and any of these methods. Filter and Score come in two forms:

* **Vectorised** (`FilterPlugin`, `ScorePlugin`): evaluates all rows of the node table at once and returns arrays. It
  declares what it reads of the pod and which inputs of the cluster it depends on (`Declaration`). Its results are
  cached by that part of the pod and shared by all pods that have it; it is called again only for rows whose inputs have
  changed. With `Part.POD` it is called for every pod and may read the pod itself.
* **Per node** (`NodeFilterPlugin`, `NodeScorePlugin`): plain Python for one node at a time, called only for nodes that
  every filter before it accepted. This is the form for users' own plugins.

What `pre_filter` and `pre_score` return as state is passed to the later calls; plugins keep nothing about a pod in
themselves, so one instance serves all pods. Plugins whose state is needed after filtering find it in `CycleState`.
Everything up to `reserve` is synchronous and does no I/O; `pre_bind` and `bind` may.
Read next: ``scheduler/plugins/taint_toleration.py`` for a vectorised plugin, ``scheduler/deciding/profiles.py`` for the
order.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import Pod, PodSpec
from mooring.api.meta_v1 import Resource
from mooring.constraints.columns.revisions import Derived
from mooring.scheduler.columns.cluster import Cluster, NodeInfo
from mooring.scheduler.columns.inputs import Input
from mooring.scheduler.columns.signatures import Part, PodInfo, PodSignature
from mooring.scheduler.framework.events import ClusterEvent, EventWithHint
from mooring.scheduler.framework.status import Status
from mooring.scheduler.framework.verdicts import Mask, Rows, Scores, Verdicts

if TYPE_CHECKING:  # they are made from what the framework's plugins have said
    from mooring.scheduler.deciding.diagnosis import Rejection

S = TypeVar("S")


class Declaration(msgspec.Struct, frozen=True):
    """What the verdicts or scores of a vectorised plugin depend on, and how they may be used."""

    pod: Part = Part.ALL
    """What it reads of the pod."""
    rows: Input = Input(0)
    """Inputs that change the result for the row on which they change."""
    cluster: Input = Input(0)
    """Inputs that may change the result for other rows: the framework then calls `refresh` (or `refresh_score`)."""
    only_resources: bool = False
    """Whether the verdict on a row depends on nothing but its resources: the plugin has `filter_resources`."""
    compares_rows: bool = False
    """Whether the plugin has `row_state`, which is equal for rows that have the same verdict."""
    is_normalized: bool = False
    """Whether scores become 0 to 100 only in comparison with the feasible nodes: the plugin has `span`."""
    depends_on_feasible: bool = False
    """Whether scores depend on which nodes are feasible; `refresh_score` is called when these change."""
    is_grouped: bool = False
    """Whether rows of a group have the same score: the plugin has `score_groups`."""
    has_pre_point: bool = True
    """Whether kube-scheduler's plugin has a PreFilter or PreScore of its own, which metrics count."""


class PreFilterResult(msgspec.Struct, Generic[S], frozen=True):
    """What a plugin prepared for a pod, or for all pods with the parts that it reads."""

    state: S
    node_names: frozenset[str] | None = None
    """The only nodes that need to be looked at; None means all."""
    is_pinned: bool = False
    """Whether the node that a pod of a pinned signature is made for is the only one (`Part.UNPINNED`)."""


class CycleState(msgspec.Struct):
    """State that plugins carry through one attempt to schedule one pod."""

    pre_filter: dict[str, Any] = msgspec.field(default_factory=dict)
    """By plugin, the state that its `pre_filter` returned (only plugins that read the pod itself)."""
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    """Anything else, by plugin."""


class Plugin(Protocol):
    @property
    def name(self) -> str: ...


@runtime_checkable
class SignPlugin(Protocol):
    """Vectorised plugins that read more of a pod than its signature has."""

    def sign(self, pod: Pod) -> object:
        """Return what it reads, such as an annotation, in a form that can be encoded; it finds it in `signature.own`.

        It must not differ for pods of one template, or no two of them would share results.
        """
        ...


@runtime_checkable
class EnqueueExtensions(Protocol):
    """Plugins that can reject a pod register the events that may change that; without it, every event does."""

    def events_to_register(self) -> Sequence[EventWithHint]: ...


@runtime_checkable
class RefersToObjects(Protocol):
    """Plugins whose events are mostly about an object that few pods name: only these pods are then looked at."""

    name: str

    def refers_to(self, pod: Pod) -> Iterable[str]:
        """Return the keys of the objects that a pod names, as `about` of the plugin's events has them."""
        ...


@runtime_checkable
class GateKeeper(Protocol):
    """PreEnqueue plugins that know which events open their gate, besides a change of the pod itself."""

    name: str

    def opened_by(self, event: ClusterEvent, old: Any, new: Any) -> bool | str:
        """Whether an event may let pods in, or the key of the object whose pods it may let in."""
        ...


@runtime_checkable
class QueueSortPlugin(Protocol):
    """Exactly one orders the queue."""

    def sort_key(self, pod: Pod, queued_at: float) -> tuple[Any, ...]:
        """Return the key by which pods are sorted, smallest first; `queued_at` is a monotonic time."""
        ...


@runtime_checkable
class PreEnqueuePlugin(Protocol):
    """Called before a pod enters the active queue; a rejected pod waits until it changes."""

    def pre_enqueue(self, pod: Pod) -> Status: ...


class FilterPlugin(Generic[S]):
    """Vectorised: decides for each row whether the pod can run there."""

    name: str
    filters: Declaration

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult[S] | Status:
        """Return what `filter` needs to know, or a status instead.

        `SKIP` when the plugin does not apply to the pod, `SUCCESS` when it does and every node passes, a rejection when
        no node does.
        """
        raise NotImplementedError

    def filter(self, state: S, rows: Rows) -> Verdicts | Status:
        """Return the verdicts on `rows`. A `Status` in their place is an error and ends the cycle."""
        raise NotImplementedError

    def applies_to(self, _spec: PodSpec) -> Status | None:
        """Return SKIP or SUCCESS if `pre_filter` would for every pod with this specification; None if it depends.

        For plugins that read the pod itself: most of them ignore most pods.
        """
        return None

    def refresh(self, _state: S) -> Derived | Input:
        """Update the state after a change of the declared inputs of the cluster; return when verdicts last changed.

        Inputs instead leave the plugin out, as `SKIP` does, until one of them changes.
        """
        raise NotImplementedError

    def may_apply_after(self, _shape: PodSignature) -> bool:
        """Whether a plugin that is left out now may apply once a pod with a signature is placed."""
        return True

    def row_state(self, _state: S, _row: int) -> Hashable:
        """Return what is equal for rows with the same verdict, also after the same pods are moved there."""
        return None

    def fits_resources(self, state: S, allocatable: NDArray[np.int64], used: NDArray[np.int64]) -> Mask:
        """Return which nodes with such amounts would pass: lines as in the resource columns, a column for each."""
        raise NotImplementedError

    def filter_resources(self, state: S, allocatable: NDArray[np.int64], used: NDArray[np.int64]) -> Verdicts:
        """Return the same as verdicts."""
        raise NotImplementedError


@runtime_checkable
class NodeFilterPlugin(Protocol):
    """Per node: decides whether the pod can run there.

    With a method `pre_filter_pod(cycle, pod, cluster)`, which returns a Status, that is called once before; what it
    finds out it leaves in `cycle.data`.
    """

    name: str

    def filter_node(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status: ...


class PostFilterResult(msgspec.Struct, frozen=True):
    """The nomination that a PostFilter plugin found, or why there is none."""

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
    """Called when no node can take the pod; `statuses` has the reason by node."""

    def post_filter(self, pod: PodInfo, statuses: "Rejection") -> PostFilterResult: ...


class ScorePlugin(Generic[S]):
    """Vectorised: gives each row a score."""

    name: str
    scores: Declaration

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> S | Status:
        """Return what `score` needs to know, or a status instead.

        `SKIP` when the plugin does not score the pod, `SUCCESS` when it does and every score is 0.
        """
        raise NotImplementedError

    def score(self, state: S, rows: Rows) -> Scores:
        raise NotImplementedError

    def refresh_score(self, _state: S, _feasible: Mask) -> Derived | Input:
        """As `refresh`, for scores. `feasible` are the rows that passed every filter; the array is never changed."""
        raise NotImplementedError

    def span(self, _scores: Scores, _feasible: Mask) -> tuple[int, ...]:
        """Return what of the feasible nodes' scores `normalized` needs; while it is equal, so are normalised scores."""
        return ()

    def normalized(self, scores: Scores, _span: tuple[int, ...]) -> Scores:
        return scores

    def score_groups(self, state: S) -> tuple[Scores, NDArray[np.intp]]:
        """Return scores by group, and the group of each row: an array in which rows change only with their pods.

        Called after `refresh_score`.
        """
        raise NotImplementedError


@runtime_checkable
class NodeScorePlugin(Protocol):
    """Per node: gives a feasible node a score from 0 to 100.

    With a method `normalize_scores(pod, scores)`, which takes and returns scores by node, they may have any size first.
    """

    name: str

    def score_node(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int: ...


@runtime_checkable
class ChoosePlugin(Protocol):
    """Chooses among the nodes with the highest score; without it, the choice is random."""

    def choose(self, pod: Pod, rows: NDArray[np.intp]) -> int:
        """Return one of two or more rows, which are in ascending order."""
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
class PreviewsWrites(ReservePlugin, Protocol):
    """PreBind plugins that can return what they would write: simulations apply it without a client."""

    def would_write(self, cycle: CycleState, pod: Pod, node_name: str) -> Sequence[Resource]:
        """Return the objects as `pre_bind` would write them; called after `reserve`."""
        ...


@runtime_checkable
class BindPlugin(Protocol):
    """Binds the pod; `SKIP` leaves it to the next one."""

    async def bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status: ...


@runtime_checkable
class GroupBindPlugin(Protocol):
    """Bind plugins that bind many pods at once, and never skip one: those after them are not asked."""

    async def bind_all(self, pods: Sequence[tuple[Pod, str]]) -> Sequence[Exception | None]:
        """Bind each pod to the node beside it; return an exception for each that failed, else None.

        May be called again before it returns. It is called once without pods at the start, to open connections.
        """
        ...


@runtime_checkable
class PostBindPlugin(Protocol):
    """Called after every bound pod."""

    def post_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> None: ...
