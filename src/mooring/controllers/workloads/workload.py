"""The base of workload controllers: a queue fed by workloads and their pods. Read next: ``replicas.py``."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar, cast

from msgspec import Struct, structs

from mooring.api import label_selector
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import LabelSelector, Resource
from mooring.client import key_of
from mooring.controllers.controller import Context, Controller, index_by_namespace
from mooring.controllers.workloads.ownership import Children, Expectations, OwnerEnqueuer
from mooring.controllers.workloads.pod_control import PodControl

W = TypeVar("W", bound=Resource)

LOOK_AGAIN_SECONDS = 1.0
"""The interval after which a workload is reconciled again, in case a stale cache does not report when it catches up."""
_MANY_PODS = 200
_PAUSE_SECONDS = 0.02 / 1000
"""The pause in seconds, for each pod, between two passes over a workload, because each pass reads all of its pods."""
_MANY_CHANGING = 32
_PROGRESS_SECONDS = 2.0
"""The interval between status writes of a workload that lacks available pods, while many workloads change."""


class WorkloadController(Controller, Generic[W]):
    """The base of controllers of one kind of workload: reconciles a workload when it or its pods change."""

    component: ClassVar[str]
    workers = 256
    """The number of workers: a pass waits for several batch writes, and fewer workers would leave the server idle."""

    def __init__(self, context: Context, cls: type[W]) -> None:
        super().__init__(context)
        self.owners = context.informers.of(cls)
        self._by_namespace = index_by_namespace(self.owners)
        self.follow(self.owners)
        self.owners.add_handler(deleted=self._handle_deleted_owner)
        self.pods = Children(context.informers, Pod)
        self.owner_kind = context.client.kind(cls).kind
        self.recorder = context.recorder(self.component)
        self.expectations = Expectations(self.clock)
        self.unfinished: set[str] = set()
        """Workloads with more work than one pass does, which are reconciled again without a pause."""
        self._pause_ends: dict[str, float] = {}
        self._progress_due: dict[str, float] = {}
        """When the status of each workload with postponed progress is written."""
        self.pod_control = PodControl(context, self.name, self.recorder, self.pods.informer, self.expectations)

    def follow_children(self, children: Children[Any]) -> None:
        """Enqueue workloads when objects that they control, or would adopt, change."""
        feed: OwnerEnqueuer[Any] = OwnerEnqueuer(self.owner_kind, self.queue.add, self.find_possible_owners)
        children.informer.add_batch_handler(feed)

    async def reconcile(self, key: str) -> float | None:
        owner = self.owners.by_key(key)
        if owner is None:
            self.expectations.forget(key)
            self._pause_ends.pop(key, None)
            self._progress_due.pop(key, None)
            self.unfinished.discard(key)
            return None
        if not self.expectations.is_settled(key):
            return LOOK_AGAIN_SECONDS
        rest = self._pause_ends.get(key, 0.0) - self.clock.monotonic()
        if rest > 0:
            return rest
        self.unfinished.discard(key)
        again = await self.sync(key, owner)
        pods = self.pods.count_owned(owner)
        if pods > _MANY_PODS and key not in self.unfinished:
            self._pause_ends[key] = self.clock.monotonic() + pods * _PAUSE_SECONDS
        return again

    @abstractmethod
    async def sync(self, key: str, owner: W) -> float | None:
        """Reconcile a workload, when caches show its earlier writes; return the seconds to the next pass, or None."""

    def selector_of(self, owner: W) -> LabelSelector | None:
        """Return the selector of the workload's pods; None if the kind has no selector or it is unset."""
        selector: LabelSelector | None = cast("Any", owner).spec.selector
        return selector

    def postpone_progress(self, key: str) -> float:
        """Return the seconds until a workload's progress is due in its status; 0 unless many workloads change."""
        if len(self.queue) + self.queue.in_progress <= _MANY_CHANGING:
            return 0.0
        now = self.clock.monotonic()
        return self._progress_due.setdefault(key, now + _PROGRESS_SECONDS) - now

    async def write_status(self, key: str, owner: W, status: Struct) -> None:
        """Write a workload's status if it has changed."""
        self._progress_due.pop(key, None)
        if status != cast("Any", owner).status:
            written = await self.client.update_status(structs.replace(owner, status=status))
            self.expectations.record_write(key, self.owners, written)

    def find_possible_owners(self, obj: Resource) -> Iterator[str]:
        """Yield the keys of the workloads in an object's namespace whose selector matches its labels."""
        for owner in self._by_namespace.get(obj.metadata.namespace):
            selector = self.selector_of(owner)
            if selector is not None and label_selector.from_label_selector(selector).matches(obj.metadata.labels):
                yield key_of(owner)

    def _handle_deleted_owner(self, owner: W) -> None:
        self.pod_control.template_rejections.forget(owner)
        self.enqueue(owner)


def find_shortest_wait(*waits: float | None) -> float | None:
    """Return the shortest of several waits; None if there is none."""
    return min((wait for wait in waits if wait is not None), default=None)
