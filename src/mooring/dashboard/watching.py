"""Follow a cluster for the dashboard, and run all functions that read its live snapshot in one thread.

    async with Watching(access) as cluster:
        page = await cluster.ask(lambda live: overview(live))

Changes of a live cluster are gathered and taken in once a second, so that a busy cluster costs little;
`changed` then returns. All that touches the `LiveSnapshot` runs in one thread, so that nothing needs
a lock, and the event loop goes on meanwhile. What takes seconds and needs only the snapshot (`simulate`, `audit`) has
another thread.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any, Self, TypeVar

from mooring.advisor import explain, simulate
from mooring.advisor.audit import QuestionError
from mooring.advisor.simulate import Simulation
from mooring.advisor.snapshot import Snapshot, SnapshotError, live
from mooring.advisor.snapshot.events import field_selector_of
from mooring.advisor.snapshot.following import find_readable_kinds
from mooring.advisor.snapshot.objects import Note
from mooring.advisor.snapshot.server_info import read_server
from mooring.api.errors import StatusError
from mooring.base import logs
from mooring.base.clock import Clock, SystemClock
from mooring.client import Change, Client, ClientError, Informer, Informers
from mooring.dashboard import options
from mooring.dashboard.access import Access
from mooring.dashboard.changing import Proposals
from mooring.dashboard.live_snapshot import LiveSnapshot

T = TypeVar("T")
PAUSE = 1.0
"""The seconds within which changes are combined."""
log = logs.get(__name__)


class Watching:
    """A cluster whose live snapshot is kept current while this context manager is entered."""

    def __init__(self, access: Access, clock: Clock | None = None) -> None:
        self.access = access
        self.problem = ""
        """Why there is nothing to see, in a sentence."""
        self.client: Client | None = None
        self._clock = clock or SystemClock()
        self._live: LiveSnapshot | None = None
        self._waiting: list[Change[Any]] = []
        self._news = asyncio.Condition()
        self._informers: list[Informer[Any]] = []
        self._asking = ThreadPoolExecutor(1, "dashboard")
        self._computing = ThreadPoolExecutor(1, "dashboard-long")
        self._stack = AsyncExitStack()
        self._task: asyncio.Task[None] | None = None
        self.simulations: OrderedDict[str, Simulation] = OrderedDict()
        """The last ones by name, for their reports."""
        self.proposals = Proposals()
        self.settings = access.settings
        """How the scheduler and the API server of the cluster decide."""
        self._running = access.running

    async def __aenter__(self) -> Self:
        """Connect to the cluster and start to follow it. Raise ClientError if it does not answer."""
        if self.access.connect is not None:
            self.client = await self._stack.enter_async_context(self.access.connect())
        self._task = asyncio.create_task(self._keep(), name="dashboard: follow the cluster")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._stack.aclose()
        self._asking.shutdown(wait=False, cancel_futures=True)
        self._computing.shutdown(wait=False, cancel_futures=True)

    # -- for pages

    @property
    def is_ready(self) -> bool:
        return self._live is not None

    @property
    def revision(self) -> int:
        return 0 if self._live is None else self._live.revision

    @property
    def is_behind(self) -> bool:
        """Whether a live cluster no longer answers, so that pages show an old state."""
        return any(informer.is_failing for informer in self._informers)

    @property
    def forbidden(self) -> Mapping[str, str]:
        """The kinds that the user may not read, each with the reason."""
        return self._live.snapshot.forbidden if self._live is not None else {}

    @property
    def notes(self) -> Sequence[Note]:
        """Notes about objects that could not be read for other reasons than rights."""
        return self._live.snapshot.notes if self._live is not None else ()

    @property
    def pending(self) -> int:
        return 0 if self._live is None else len(self._live.waiting)

    def now(self) -> datetime:
        return self._clock.now()

    def number_of_objects_read(self) -> int:
        """Return how many objects the first, unfinished read has received."""
        return sum(map(len, self._informers))

    async def ready(self) -> bool:
        """Wait until the cluster has been read, or cannot be (see `problem`); return whether it has."""
        async with self._news:
            await self._news.wait_for(lambda: self._live is not None or self.problem)
        return self._live is not None

    async def wait_for_change(self, after: int) -> int:
        """Wait until the revision differs from `after`; return the new one."""
        async with self._news:
            await self._news.wait_for(lambda: self.revision != after)
        return self.revision

    async def ask(self, question: Callable[[LiveSnapshot], T]) -> T:
        """Call a function with the live snapshot in its thread, and return the result. Wait for `ready` first."""
        live = self._live
        if live is None:
            raise RuntimeError("nothing is known yet: wait for `ready`")
        return await asyncio.get_running_loop().run_in_executor(self._asking, question, live)

    async def compute(self, work: Callable[[], T]) -> T:
        """Call a slow function in a second thread, and return the result. It must not read the live snapshot."""
        return await asyncio.get_running_loop().run_in_executor(self._computing, work)

    async def record(self, text: str, kind: str, name: str) -> None:
        """Add a line to the recent changes, and notify open pages."""
        now = self._clock.now()
        await self.ask(lambda live: live.record(text, kind, name, now))
        async with self._news:
            self._news.notify_all()

    def running(self) -> options.Running:
        """Return the versions and gates of the cluster. Raise `QuestionError` if they are not known."""
        if self._running is None:
            raise QuestionError("neither flags nor the cluster say which release it runs: give --emulation-version")
        return self._running

    async def read_snapshot(self) -> Snapshot:
        """Read all objects of the cluster again, in their original form, for an audit. Raise `SnapshotError`."""
        if self.client is not None:
            return await live(self.client, self.access.origin, namespace=self.access.namespace)
        return await self.ask(lambda live: live.snapshot)

    # -- following

    async def _keep(self) -> None:
        try:
            if self.client is not None:
                await self._follow(self.client)
            elif self.access.read is not None:
                await self._begin(await self.compute(self.access.read))
        except (SnapshotError, ClientError, StatusError, QuestionError) as error:
            await self._fail(str(error))
        except Exception as error:
            log.exception("the dashboard cannot follow the cluster")
            await self._fail(f"the cluster cannot be followed any more: {type(error).__name__}: {error}")

    async def _fail(self, why: str) -> None:
        self.problem = why
        async with self._news:
            self._news.notify_all()

    async def _begin(self, snapshot: Snapshot) -> None:
        if self.access.follows_server and (found := options.running_of(snapshot)) is not None:
            self._running = found
            self.settings = self.access.settings_for(found) if self.access.settings_for else self.settings
        now, settings = self._clock.now(), self.settings
        loop = asyncio.get_running_loop()
        made = await loop.run_in_executor(self._asking, LiveSnapshot, snapshot, settings, now)
        async with self._news:
            self._live = made
            self._news.notify_all()

    async def _follow(self, client: Client) -> None:
        wanted = {*explain.KINDS, *simulate.kinds_to_read()}
        kinds, missing = await find_readable_kinds(client, wanted, self.access.namespace)
        informers = Informers(client)
        self._informers = [
            informers.of(cls, where, field_selector=field_selector_of(cls)) for cls, where in kinds.items()
        ]
        for informer in self._informers:
            informer.add_batch_handler(self._waiting.extend)
        async with informers:
            await informers.wait_for_sync()
            self._waiting.clear()
            found = [obj for informer in self._informers for obj in informer.objects()]
            server = await read_server(client)
            await self._begin(Snapshot(self.access.origin, found, missing=missing, server=server))
            while True:
                await self._clock.sleep(PAUSE)
                changes = self._waiting[:]
                self._waiting.clear()
                if changes:
                    await self.apply_changes(changes)

    async def apply_changes(self, changes: Sequence[Change[Any]]) -> None:
        """Apply changes to the live snapshot, and notify open pages."""
        now = self._clock.now()
        await self.ask(lambda live: live.apply(changes, now))
        async with self._news:
            self._news.notify_all()
