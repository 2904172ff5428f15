"""Filter and score all nodes for a pod, from vectors that are cached by the parts of pods that plugins read.

    signature of the pod ──► a vector for each plugin, keyed by the part that the plugin reads
    filter vectors that reject a node ──► FilterPipeline ──► feasible nodes
    score vectors that differ by node ──► ScoreSum       ──► the best feasible nodes

Ten thousand different pods share a few dozen vectors and often whole combinations of them; a pod with a new signature
combines existing vectors. Plugins that do not apply to a pod are left out. Plugins that read the pod itself are called
for every pod.

Called by ``engine.py``; the result for one pod is a `PodEvaluation`. Read next: ``vectors.py``, ``filter_vectors.py``,
``score_vectors.py``.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from weakref import WeakValueDictionary

import numpy as np

from mooring.api.core_v1 import PodSpec
from mooring.constraints.columns import UnfinishedError
from mooring.scheduler.columns.cluster import Cluster, PlacedPod
from mooring.scheduler.columns.signatures import PodInfo, PodSignature, pinned_node
from mooring.scheduler.deciding.filter_vectors import FilterPipeline, FilterVector, NodeFilterVector
from mooring.scheduler.deciding.pod_evaluation import PodEvaluation, leave_room, status_on, status_with
from mooring.scheduler.deciding.score_vectors import NodeScoreVector, ScoreSum, ScoreVector, best_once
from mooring.scheduler.deciding.vectors import Meter, PartReaders, Plan, PlannedPlugin, Vector
from mooring.scheduler.framework import SKIP, SUCCESS, Status, unresolvable
from mooring.scheduler.framework.nominations import NominatedPods
from mooring.scheduler.framework.status import is_skip

_MAX_VECTOR_BYTES = 256 * 1024 * 1024
_MIN_CACHED = 8
_MAX_ENTRIES = 20_000


class _VectorGroup:
    """The vectors of all plugins that read one part of the pod signature, for one value of that part."""

    __slots__ = ("filters", "key", "scores", "users")

    def __init__(self, key: Hashable, readers: PartReaders, pod: PodInfo, cluster: Cluster, meter: Meter) -> None:
        shown = readers.parts.select(pod)
        self.key = key
        self.filters: tuple[FilterVector, ...] = ()
        self.scores: tuple[ScoreVector, ...] = ()
        self.users = 0
        """The number of cached pod signatures that use these vectors."""
        for use in readers.filters:
            found = use.plugin.pre_filter(shown, cluster)
            if not is_skip(found):
                vector = FilterVector(use, None, cluster, found)
                vector.meter = meter
                self.filters += (vector,)
        for use in readers.scores:
            state = use.plugin.pre_score(shown, cluster)
            if not is_skip(state):
                scores = ScoreVector(use, state, cluster)
                scores.meter = meter
                self.scores += (scores,)


class _SignatureEntry:
    """The cache entry of a pod signature: the vectors of all plugins, and their combinations."""

    pipeline: FilterPipeline | None = None
    total: ScoreSum | None = None
    filters_to_call: Sequence[PlannedPlugin] = ()
    """The plugins that are called for every pod."""
    scores_to_call: Sequence[PlannedPlugin] = ()
    _spec: PodSpec | None = None

    def __init__(self, groups: list[_VectorGroup]) -> None:
        self.groups = groups
        self.filters: list[FilterVector]
        """The vectors of filters that apply to pods with the last pod spec, except those of `filters_to_call`."""
        self.scores: list[ScoreVector]
        self.is_settled = all(vector.is_settled for group in groups for vector in group.filters)

    def find_plugins(
        self,
        pod: PodInfo,
        cluster: Cluster,
        filters: Sequence[tuple[PlannedPlugin, FilterVector]],
        scores: Sequence[tuple[PlannedPlugin, ScoreVector]],
    ) -> None:
        """Set `self.filters`, `self.scores` and the plugins to call for pods with the spec of `pod`.

        The arguments are plugins that read the pod itself, with a vector that treats all nodes the same.
        """
        spec = pod.pod.spec
        if spec is self._spec or spec == self._spec:
            return
        self.filters = [vector for group in self.groups for vector in group.filters]
        self.filters_to_call, self.scores_to_call = (), ()
        for use, passing in filters:
            status = use.applies_to(spec)
            if status is SUCCESS:
                self.filters.append(passing)
            elif status is not SKIP:
                self.filters_to_call = (*self.filters_to_call, use)
        self.scores = [vector for group in self.groups for vector in group.scores]
        for scoring, zeros in scores:
            state = None if scoring.applies_to(spec) is None else scoring.plugin.pre_score(pod, cluster)
            if state is SUCCESS:
                self.scores.append(zeros)
            elif not is_skip(state):
                self.scores_to_call = (*self.scores_to_call, scoring)
        self.filters.sort(key=_index_of)
        self.scores.sort(key=_index_of)
        self._spec = spec


class Evaluator:
    """Filters and scores nodes for pods with the plugins of one profile, and caches their results."""

    def __init__(self, plan: Plan, cluster: Cluster) -> None:
        self._readers = plan.readers
        self._cluster = cluster
        self._layout = cluster.layout
        self._entries: OrderedDict[PodSignature, _SignatureEntry] = OrderedDict()
        self._groups: dict[Hashable, _VectorGroup] = {}
        self._meter = Meter()
        self._pipelines: WeakValueDictionary[Hashable, FilterPipeline] = WeakValueDictionary()
        """The combinations of filter vectors that entries use, by the serial numbers of the vectors."""
        self._sums: WeakValueDictionary[Hashable, ScoreSum] = WeakValueDictionary()
        self._pod_filters = [(use, FilterVector(use, None, cluster, SUCCESS)) for use in plan.filters if use.reads_pod]
        self._pod_scores = [(use, ScoreVector(use, SUCCESS, cluster)) for use in plan.scores if use.reads_pod]

    def __len__(self) -> int:
        """Return the number of cached pod signatures."""
        return len(self._entries)

    # -- the cache

    def clear(self) -> None:
        """Evict all cached results."""
        self._entries.clear()
        self._groups.clear()
        self._meter = Meter()
        self._layout = self._cluster.layout

    def forget(self, signature: PodSignature) -> None:
        """Evict the cache entry of a pod signature, and every vector that no other signature uses."""
        entry = self._entries.pop(signature, None)
        if entry is not None:
            for group in entry.groups:
                group.users -= 1
            self._drop_unused(entry.groups)

    def _drop_unused(self, groups: Sequence[_VectorGroup]) -> None:
        for group in groups:
            if not group.users and self._groups.pop(group.key, None) is not None:
                for vector in (*group.filters, *group.scores):
                    self._meter.bytes -= vector.charged

    def _find_entry(self, pod: PodInfo) -> _SignatureEntry:
        if self._layout != self._cluster.layout:
            self.clear()
        found = self._entries.get(pod.signature)
        if found is None:
            found = self._make_entry(pod)
            if not any(vector.node_names for group in found.groups for vector in group.filters):
                self._entries[pod.signature] = found  # for pods limited to named nodes, a second one is unlikely
                for group in found.groups:
                    group.users += 1
                self._evict()
        else:
            self._entries.move_to_end(pod.signature)
        found.find_plugins(pod, self._cluster, self._pod_filters, self._pod_scores)
        return found

    def _evict(self) -> None:
        entries, meter = self._entries, self._meter
        while len(entries) > _MIN_CACHED and (meter.bytes > _MAX_VECTOR_BYTES or len(entries) > _MAX_ENTRIES):
            self.forget(next(iter(entries)))

    def _make_entry(self, pod: PodInfo) -> _SignatureEntry:
        found: list[_VectorGroup] = []
        try:
            for number, readers in enumerate(self._readers):
                key = number, readers.parts.key(pod.signature)
                group = self._groups.get(key)
                if group is None:
                    group = self._groups[key] = _VectorGroup(key, readers, pod, self._cluster, self._meter)
                found.append(group)
        except BaseException:
            self._drop_unused(found)
            raise
        return _SignatureEntry(found)

    # -- evaluating

    def evaluate(self, pod: PodInfo, expected: NominatedPods | None, *, needs_points: bool) -> PodEvaluation:
        """Filter and score all nodes for a pod. Room is reserved for `expected`, the nominated pods.

        A single feasible node is chosen without scoring, unless the caller needs scores.
        """
        entry = self._find_entry(pod)
        evaluation = PodEvaluation(pod)
        try:
            self._pre_filter(entry, evaluation)
            if evaluation.refusal is None:
                self._filter(entry, evaluation)
            if evaluation.refusal is None and expected is not None:
                leave_room(evaluation, self._cluster, expected)
            if evaluation.refusal is None and evaluation.number_feasible > (0 if needs_points else 1):
                self._score(entry, evaluation, needs_points=needs_points)
        except UnfinishedError:
            raise
        except BaseException:
            self.forget(pod.signature)  # a plugin's state may be half updated
            raise
        return evaluation

    def evaluate_on(self, pod: PodInfo, row: int, expected: Sequence[PlacedPod]) -> PodEvaluation:
        """Filter only the pod's nominated node, with the pods `expected` there; return the evaluation."""
        entry = self._find_entry(pod)
        evaluation = PodEvaluation(pod)
        evaluation.is_shared_by_template = False
        self._pre_filter(entry, evaluation)
        if evaluation.refusal is not None or not evaluation.considered[row]:
            return evaluation
        by_node = [each for each in evaluation.filters if each.reads_only_node]
        for each in by_node:
            each.refresh()
        status = status_on(evaluation, row, only_pods_moved=all(each.passes(row) for each in by_node))
        if status.is_success and status_with(evaluation, self._cluster, row, expected).is_success:
            evaluation.number_considered = evaluation.number_feasible = 1
            evaluation.feasible = np.zeros_like(evaluation.considered)
            evaluation.feasible[row] = True
        return evaluation

    # -- filtering

    def _pre_filter(self, entry: _SignatureEntry, evaluation: PodEvaluation) -> None:
        evaluation.considered = self._cluster.labels.nodes
        if entry.is_settled and not entry.filters_to_call:
            evaluation.filters = entry.filters
            return
        called = [vector for use in entry.filters_to_call if (vector := self._make_pod_filter_vector(use, evaluation))]
        naming: list[FilterVector] = []
        for vector in sorted([*entry.filters, *called], key=_index_of):
            if vector.is_pinned:
                vector.node_names = frozenset({pinned_node(evaluation.pod.pod.spec)})
            if vector.node_names is not None:
                naming.append(vector)
            if not (vector.status.is_success or vector.status.is_skip):
                evaluation.refusal = vector.status
                return
            evaluation.filters.append(vector)
        if naming:
            self._limit_to_named(evaluation, naming)

    def _make_pod_filter_vector(self, use: PlannedPlugin, evaluation: PodEvaluation) -> FilterVector | None:
        pod, cluster = evaluation.pod, self._cluster
        if use.is_per_node:
            made: FilterVector = NodeFilterVector(use, pod, cluster, evaluation.cycle)
            if made.status.is_skip:
                return None
        else:
            found = use.plugin.pre_filter(pod, cluster)
            if is_skip(found):
                return None
            made = FilterVector(use, pod, cluster, found)
            if found is SUCCESS:
                return made
            if made.state is not None:
                evaluation.cycle.pre_filter[use.name] = made.state
        evaluation.is_shared_by_template = False
        return made

    def _limit_to_named(self, evaluation: PodEvaluation, naming: list[FilterVector]) -> None:
        evaluation.naming = tuple(sorted(each.name for each in naming))
        names = frozenset.intersection(*(each.node_names for each in naming if each.node_names is not None))
        if not names:
            both = f"plugin(s) [{' '.join(evaluation.naming)}] simultaneously"
            one = f"plugin {evaluation.naming[0]}"
            evaluation.refusal = unresolvable(f"node(s) didn't satisfy {one if len(naming) == 1 else both}")
        rows = [row for name in names if (row := self._cluster.row_of.get(name)) is not None]
        evaluation.considered = np.zeros_like(evaluation.considered)
        evaluation.considered[rows] = True

    def _filter(self, entry: _SignatureEntry, evaluation: PodEvaluation) -> None:
        evaluation.reached = "Filter"
        filters = evaluation.filters
        refusing: list[FilterVector] = []
        for vector in filters:
            vector.refresh()
            if vector.refuses or vector.use.is_per_node:
                refusing.append(vector)
            if vector.status is not SUCCESS and self._has_failed(evaluation, vector.status):
                return
        pipeline = entry.pipeline
        if not evaluation.is_shared_by_template or evaluation.naming:
            feasible = FilterPipeline(refusing, self._cluster).combine(evaluation.considered)
            if any(self._has_failed(evaluation, vector.status) for vector in refusing):
                return
        else:
            if pipeline is None or pipeline.vectors != refusing:
                key = tuple([vector.serial for vector in refusing])
                pipeline = self._pipelines.get(key)
                if pipeline is None:
                    pipeline = self._pipelines[key] = FilterPipeline(refusing, self._cluster)
                entry.pipeline = pipeline
            feasible = pipeline.refresh()
        evaluation.feasible, evaluation.number_feasible, evaluation.number_considered, evaluation.rejected = feasible

    def _has_failed(self, evaluation: PodEvaluation, status: Status) -> bool:
        if status.is_success or status.is_skip:
            return False
        evaluation.refusal = status
        self.forget(evaluation.pod.signature)
        return True

    # -- scoring

    def _score(self, entry: _SignatureEntry, evaluation: PodEvaluation, *, needs_points: bool) -> None:
        evaluation.reached = "Score"
        feasible, scores = evaluation.feasible, entry.scores
        if entry.scores_to_call:
            called = [
                vector for use in entry.scores_to_call if (vector := self._make_pod_score_vector(use, evaluation))
            ]
            scores = sorted([*scores, *called], key=_index_of)
        for each in scores:
            each.refresh(feasible)
            if each.is_active:
                evaluation.scores.append(each)
        counted = [each for each in evaluation.scores if not each.is_zero]
        if needs_points:
            evaluation.points = {each.name: each.weigh(feasible) for each in evaluation.scores}
        is_for_one_pod = not evaluation.is_shared or evaluation.naming
        if is_for_one_pod or not all(vector.was_summed for vector in counted):  # most new parts have no second pod
            evaluation.best = best_once(counted, feasible)
        else:
            evaluation.best = self._find_sum(entry, counted).best(feasible)
        for vector in counted:
            vector.was_summed = True

    def _make_pod_score_vector(self, use: PlannedPlugin, evaluation: PodEvaluation) -> ScoreVector | None:
        pod, cluster, feasible = evaluation.pod, self._cluster, evaluation.feasible
        if use.is_per_node:
            return NodeScoreVector(use, pod.pod, cluster=cluster, cycle=evaluation.cycle, feasible=feasible)
        state = use.plugin.pre_score(pod, cluster)
        return None if is_skip(state) else ScoreVector(use, state, cluster)

    def _find_sum(self, entry: _SignatureEntry, vectors: list[ScoreVector]) -> ScoreSum:
        total = entry.total
        if total is None or total.vectors != vectors:
            declared = [each.use.declared for each in vectors]
            depends = any(each.depends_on_feasible or each.is_normalized for each in declared)
            key = (id(entry.pipeline) if depends else 0, *[vector.serial for vector in vectors])
            total = self._sums.get(key)
            if total is None:
                total = self._sums[key] = ScoreSum(vectors, self._cluster)
            entry.total = total
        return total


_index_of: Callable[[Vector], int] = attrgetter("use.index")
