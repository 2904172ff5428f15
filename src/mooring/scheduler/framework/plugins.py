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
Read next: ``scheduler/plugins/taint_toleration.py`` for a vectorised plugin, ``profiles.py`` for the order.
"""

from collections.abc import Iterable, Sequence
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
    """The pod parts and cluster inputs on which a vectorised plugin's results depend, and how results may be reused."""

    pod: Part = Part.ALL
    """The parts of a pod that the plugin reads."""
    rows: Input = Input(0)
    """Inputs whose change on one node affects only the plugin's result for that node."""
    cluster: Input = Input(0)
    """Inputs whose change may affect any node: then the framework calls `refresh` or `refresh_score`."""
    only_resources: bool = False
    """Whether a node row's verdict depends only on its node's resources: the plugin then has `filter_resources`."""
    is_normalized: bool = False
    """Whether scores are normalised to 0 to 100 by comparison with the feasible nodes: the plugin then has `span`."""
    depends_on_feasible: bool = False
    """Whether scores depend on which nodes are feasible; then `refresh_score` is called when that changes."""
    has_pre_point: bool = True
    """Whether kube-scheduler's plugin implements PreFilter or PreScore, so that metrics count it."""


class PreFilterResult(msgspec.Struct, Generic[S], frozen=True):
    """The state for `filter`, of a pod or of all with equal declared parts, and the only nodes to evaluate."""

    state: S
    node_names: frozenset[str] | None = None
    """The only nodes that need to be evaluated; None means all."""
    is_pinned: bool = False
    """Whether only the node that the pod was created for is possible, as for DaemonSets (`Part.UNPINNED`)."""


class CycleState(msgspec.Struct):
    """State that plugins keep during one attempt to schedule one pod."""

    pre_filter: dict[str, Any] = msgspec.field(default_factory=dict)
    """By plugin name, the state that `pre_filter` returned; only for plugins that read the pod itself."""
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    """By plugin name, any other state."""


class Plugin(Protocol):
    @property
    def name(self) -> str: ...


@runtime_checkable
class SignPlugin(Protocol):
    """Plugins that add pod fields which they read, such as an annotation, to the pod signature (the cache key)."""

    def sign(self, pod: Pod) -> object:
        """Return the additional pod fields that the plugin reads, such as an annotation, in a form that can be encoded.

        The plugin finds the value in `signature.own`. It must be equal for pods from one template; otherwise none of
        them would share results.
        """
        ...


@runtime_checkable
class EnqueueExtensions(Protocol):
    """Plugins that register the events after which a rejected pod may fit; otherwise every event wakes the pod."""

    def events_to_register(self) -> Sequence[EventWithHint]: ...


@runtime_checkable
class RefersToObjects(Protocol):
    """Plugins that wake only the pods which refer to the object of an event, such as a claim, and no others."""

    name: str

    def refers_to(self, pod: Pod) -> Iterable[str]:
        """Return the keys of the objects that a pod refers to, in the format of `about` of the plugin's events."""
        ...

    def opened_by(self, event: ClusterEvent, old: Any, new: Any) -> bool | str:
        """Return whether `pre_enqueue` may admit pods after an event; an object's key if only pods that refer to it."""
        ...


@runtime_checkable
class QueueSortPlugin(Protocol):
    """The plugin that orders the active queue; a profile has exactly one."""

    def sort_key(self, pod: Pod, queued_at: float) -> tuple[Any, ...]:
        """Return the key by which pods are sorted, smallest first; `queued_at` is a monotonic time."""
        ...


@runtime_checkable
class PreEnqueuePlugin(Protocol):
    """Plugins that decide whether a pod may enter the active queue; a rejected pod waits until it changes."""

    def pre_enqueue(self, pod: Pod) -> Status: ...


class FilterPlugin(Generic[S]):
    """A vectorised Filter plugin: decides for all nodes at once (by node row) whether the pod can run there."""

    name: str
    filters: Declaration

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult[S] | Status:
        """Return the state that `filter` needs, or a status.

        `SKIP` means that the plugin does not apply to the pod, `SUCCESS` that every node passes, a rejection that no
        node does.
        """
        raise NotImplementedError

    def filter(self, state: S, rows: Rows) -> Verdicts | Status:
        """Return the verdicts on the node rows `rows`. A returned `Status` is an error and ends the cycle."""
        raise NotImplementedError

    def applies_to(self, _spec: PodSpec) -> Status | None:
        """Return SKIP or SUCCESS if `pre_filter` returns that for every pod with this spec; None to call `pre_filter`.

        For plugins that read the pod itself: most of them do not apply to most pods.
        """
        return None

    def refresh(self, _state: S) -> Derived | Input:
        """Update the state after declared inputs of the cluster changed; return the log of rows whose verdict changed.

        Return inputs instead to leave the plugin out, as `SKIP` does, until one of these inputs changes.
        """
        raise NotImplementedError

    def may_apply_after(self, _shape: PodSignature) -> bool:
        """Return whether placing another pod, of this signature, may make the plugin apply to a pod that it skips."""
        return True

    def fits_resources(self, state: S, allocatable: NDArray[np.int64], used: NDArray[np.int64]) -> Mask:
        """Return which nodes would pass with the given amounts (a line for each resource, a column for each node)."""
        raise NotImplementedError

    def filter_resources(self, state: S, allocatable: NDArray[np.int64], used: NDArray[np.int64]) -> Verdicts:
        """Return the verdicts on nodes with the given amounts, as `fits_resources` evaluates them."""
        raise NotImplementedError


@runtime_checkable
class NodeFilterPlugin(Protocol):
    """A per-node Filter plugin: decides whether the pod can run on one node.

    An optional method `pre_filter_pod(cycle, pod, cluster)`, which returns a Status, is called once before; it keeps
    its results in `cycle.data`.
    """

    name: str

    def filter_node(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status: ...


class PostFilterResult(msgspec.Struct, frozen=True):
    """The nomination found by a PostFilter plugin, or the reason why there is none."""

    status: Status
    nominated: str | None = None
    """The node that will have room once the victims are deleted."""
    victims: tuple[Pod, ...] = ()
    """The pods to delete, most important first."""
    keeps_nomination: bool = False
    """Whether the pod keeps its earlier nominated node if none is nominated now."""
    in_background: bool = True
    """Whether other pods may be scheduled while the victims are being deleted."""


@runtime_checkable
class PostFilterPlugin(Protocol):
    """Plugins called when no node can take the pod; `statuses` has the reason by node."""

    def post_filter(self, pod: PodInfo, statuses: "Rejection") -> PostFilterResult: ...


class ScorePlugin(Generic[S]):
    """A vectorised Score plugin: gives all nodes a score at once (by node row)."""

    name: str
    scores: Declaration

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> S | Status:
        """Return the state that `score` needs, or a status.

        `SKIP` means that the plugin does not score the pod, `SUCCESS` that every score is 0.
        """
        raise NotImplementedError

    def score(self, state: S, rows: Rows) -> Scores:
        raise NotImplementedError

    def refresh_score(self, _state: S, _feasible: Mask) -> Derived | Input:
        """Update the state after declared inputs of the cluster changed; return the log of rows whose score changed.

        `feasible` is the mask of rows that passed every filter; it is never modified.
        """
        raise NotImplementedError

    def span(self, _scores: Scores, _feasible: Mask) -> tuple[int, ...]:
        """Return the summary of the feasible nodes' scores, such as their maximum, on which normalising depends.

        As long as it is equal, so are the normalised scores.
        """
        return ()

    def normalized(self, scores: Scores, _span: tuple[int, ...]) -> Scores:
        return scores


@runtime_checkable
class NodeScorePlugin(Protocol):
    """A per-node Score plugin: gives a feasible node a score from 0 to 100.

    With an optional method `normalize_scores(pod, scores)`, which takes and returns scores by node, scores may have any
    range before.
    """

    name: str

    def score_node(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int: ...


@runtime_checkable
class ChoosePlugin(Protocol):
    """Plugins that choose among the nodes with the highest score; without one, the choice is random."""

    def choose(self, pod: Pod, rows: NDArray[np.intp]) -> int:
        """Return one of the given node rows (at least two, in ascending order)."""
        ...


@runtime_checkable
class ReservePlugin(Protocol):
    """Plugins that reserve in memory what the pod will use on its node; `unreserve` releases it after any failure."""

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status: ...

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None: ...


@runtime_checkable
class PermitPlugin(Protocol):
    """Plugins that allow a reserved pod, reject it, or make it wait for a number of seconds."""

    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> tuple[Status, float]: ...


@runtime_checkable
class PreBindPlugin(Protocol):
    """Plugins that do the work required before the pod is bound, such as binding its volumes."""

    async def pre_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status: ...


@runtime_checkable
class PreviewsWrites(ReservePlugin, Protocol):
    """PreBind plugins that can return the objects they would write, so that simulations apply them without a client."""

    def would_write(self, cycle: CycleState, pod: Pod, node_name: str) -> Sequence[Resource]:
        """Return the objects that `pre_bind` would write; called after `reserve`."""
        ...


@runtime_checkable
class BindPlugin(Protocol):
    """Plugins that bind the pod to its node; `SKIP` leaves that to the next one."""

    async def bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status: ...


@runtime_checkable
class GroupBindPlugin(Protocol):
    """Bind plugins that bind many pods at once and never skip one, so that later Bind plugins are not called."""

    async def bind_all(self, pods: Sequence[tuple[Pod, str]]) -> Sequence[Exception | None]:
        """Bind each pod to the node beside it; return for each None or the exception.

        May be called again before it returns. It is called once without pods at the start, in order to open
        connections.
        """
        ...


@runtime_checkable
class PostBindPlugin(Protocol):
    """Plugins called after a pod was bound."""

    def post_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> None: ...
