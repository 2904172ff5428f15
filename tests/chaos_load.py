"""What goes on in a cluster while its parts die, and what must be true of it afterwards.

- `Counter`s increase numbers in ConfigMaps by compare-and-swap, so that every object has the history 0, 1, 2, 3, …
- `Pods` are created, for schedulers to bind.
- A `Journal` watches one kind through one address and writes down what it receives, for ever resuming where a watch
  ended. A number that is missing is a gap, one that comes twice a duplicate, and a pod with two nodes was bound twice.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from msgspec import structs

from mooring.api import errors
from mooring.api.core_v1 import ConfigMap, Pod
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.client import Client, ClientError
from scheduler_objects import pod

NAMESPACE = "default"
_ANSWER_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_PAUSE_SECONDS = 0.1
T = TypeVar("T", bound=Resource)
R = TypeVar("R")


async def insist(request: Callable[[], Awaitable[R]]) -> R:
    """Repeat a request until there is an answer; raise the server's error about the request."""
    while True:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await request()
        except (ClientError, TimeoutError):
            pass
        except StatusError as error:
            if error.status.code < 500 and error.status.code != 429:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)


@dataclass
class Counter:
    """A number that one client increases, and looks at through every server."""

    client: Client
    name: str
    servers: Sequence[Client]
    acknowledged: int = 0
    """The server has said that this was written."""
    attempted: int = 0
    """This was asked for; whether it was written need not be known."""
    looked: int = 0
    lost: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Increase it until cancelled."""
        made = ConfigMap(metadata=ObjectMeta(name=self.name, namespace=NAMESPACE), data={"n": "0"})
        try:
            found = await insist(lambda: self.client.create(made))
        except errors.AlreadyExists:  # by an attempt that was not answered
            found = await self.read()
        while True:
            found = await self._increase(found)
            await asyncio.sleep(0.02)

    async def look(self) -> None:
        """Look at it through one server after the other until cancelled."""
        for server in itertools.cycle(self.servers):
            if self.acknowledged:
                with suppress(StatusError, ClientError, TimeoutError):  # that server may be dead or stopped
                    await self._look(server)
            await asyncio.sleep(0.02)

    async def read(self) -> ConfigMap:
        """Return the object, through whichever server answers."""
        return await insist(lambda: self._look(self.client))

    async def _look(self, server: Client) -> ConfigMap:
        """Return the object. It must show what any server has acknowledged."""
        least = self.acknowledged
        async with asyncio.timeout(_LOOK_SECONDS):
            found = await server.get(ConfigMap, self.name, NAMESPACE)
        self.looked += 1
        if int(found.data["n"]) < least:
            self.lost.append(f"{self.name} was read as {found.data['n']} after {least} was written")
        return found

    async def _increase(self, found: ConfigMap) -> ConfigMap:
        number = int(found.data["n"]) + 1
        self.attempted = max(self.attempted, number)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                written = await self.client.update(structs.replace(found, data={"n": str(number)}))
        except (StatusError, ClientError, TimeoutError):
            return await self.read()  # it may have been written or not, now or later; then the next one is a conflict
        self.acknowledged = number
        return written


@dataclass
class Pods:
    """Create pods for schedulers to bind."""

    client: Client
    acknowledged: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Create them until cancelled."""
        while True:
            wanted = pod(f"p{len(self.acknowledged)}", cpu="10m")
            wanted.metadata.uid = ""
            await self._create(wanted)
            self.acknowledged.append(wanted.metadata.name)
            await asyncio.sleep(0.1)

    async def _create(self, wanted: Pod) -> None:
        try:
            await insist(lambda: self.client.create(wanted))
        except errors.AlreadyExists:  # by an attempt that was not answered
            await insist(lambda: self.client.get(Pod, wanted.metadata.name, NAMESPACE))


class Entry(NamedTuple):
    """An event as a journal has it."""

    version: int
    type: str
    name: str
    uid: str
    shown: str
    """The number of a counter, the node of a pod."""


class Journal(Generic[T]):
    """Record all events of a watch on a kind through one address, from a version on."""

    def __init__(self, client: Client, cls: type[T], shown: Callable[[T], str], version: str, where: str) -> None:
        self.where = where
        self.entries: list[Entry] = []
        self.wrong: list[str] = []
        self.resumed = 0
        self._client = client
        self._cls = cls
        self._shown = shown
        self._version = int(version)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                async with self._client.watch(self._cls, NAMESPACE, resource_version=str(self._version)) as watch:
                    async for events in watch:
                        for event in events:
                            self._take(event.type, event.object)
            except errors.Gone as error:
                self.wrong.append(f"{self.where}: version {self._version} is gone: {error}")
                return
            except (StatusError, ClientError):
                pass
            self.resumed += 1
            await asyncio.sleep(_PAUSE_SECONDS)

    def _take(self, kind: str, obj: T) -> None:
        meta = obj.metadata
        version = int(meta.resource_version)
        if version < self._version or (version == self._version and kind != "BOOKMARK"):
            self.wrong.append(f"{self.where}: {kind} {meta.name} of version {version} came after {self._version}")
        self._version = version
        if kind != "BOOKMARK":
            self.entries.append(Entry(version, kind, meta.name, meta.uid, self._shown(obj)))

    def up_to(self, name: str) -> list[Entry]:
        """Return the entries before the first one of an object; none before it was seen."""
        ends = (index for index, entry in enumerate(self.entries) if entry.name == name)
        return self.entries[: next(ends, 0)]

    def histories(self) -> dict[str, list[str]]:
        """By name and UID of an object, what was shown of it, each time it was something else."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for entry in self.entries:
            history = found[f"{entry.name}/{entry.uid}"]
            if entry.shown and entry.shown not in history[-1:]:
                history.append(entry.shown)
        return found


def number_of(config: ConfigMap) -> str:
    return config.data.get("n", "")


def node_of(found: Pod) -> str:
    return found.spec.node_name
