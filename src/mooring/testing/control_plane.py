"""A control plane in a thread of the test process, which the pytest fixture `mooring` returns.

    with RunningControlPlane(nodes=2) as plane:
        plane.create(pod("web"))
        plane.wait_for_pod("web")

Tests call it without `await`; other client calls go through `plane.run(plane.client.…)`. Programs and async tests
connect with `plane.kubeconfig`. Objects are kept in memory. Read next: ``mooring.cli.support.control_plane``.
"""

import asyncio
import json
import tempfile
import threading
import time
from builtins import list as list_of  # the class has a method of that name
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import uvloop
import yaml

from mooring.api import errors
from mooring.api.apiextensions_v1 import CustomResourceDefinition
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import parse_runtime_config
from mooring.apiserver.access.pki import write_private
from mooring.apiserver.options import ServerConfig
from mooring.base import component
from mooring.base.clock import Clock
from mooring.cli.support.control_plane import ControlPlane, in_process
from mooring.cli.support.gc_settings import defer_collection
from mooring.cli.support.manifests import object_of, read_objects
from mooring.cli.support.worker_process import WorkerConfig
from mooring.client import Client, PatchType
from mooring.controllers.options import for_component as controller_options
from mooring.controllers.simulated_nodes import create_nodes, numbered
from mooring.testing.clock import MockClock
from mooring.testing.custom_kind import CustomKind
from mooring.testing.fluent import Builder

T = TypeVar("T")
R = TypeVar("R", bound=Resource)
Creatable: TypeAlias = "Resource | Builder[Any] | Mapping[str, Any] | str | Path | Iterable[Creatable]"
_SECONDS = 20.0
_POLL_SECONDS = 0.02


class RunningControlPlane:
    """An API server, scheduler, controllers and simulated nodes. Takes the arguments of `mooring up`."""

    def __init__(
        self,
        *,
        nodes: int = 0,
        feature_gates: str = "",
        emulation_version: str | None = None,
        min_compatibility_version: str | None = None,
        runtime_config: str = "",
        without: Collection[str] = (),
        clock: Clock | None = None,
        mock_clock: bool = False,
    ) -> None:
        running = component.resolve(
            gates=feature_gates, emulation=emulation_version, min_compatibility=min_compatibility_version
        )
        workers = WorkerConfig(
            running,
            scheduler="scheduler" not in without,
            controllers="controllers" not in without,
            nodes="nodes" not in without,
        )
        self.clock = MockClock(datetime.now(UTC)) if mock_clock else clock
        """None for system time. A mock clock starts now, because certificates are checked against system time."""
        self._nodes, self._kubelet = nodes, controller_options(running).kubelet
        self._own_time = clock is not None
        self._stack = ExitStack()
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-")))
        config = ServerConfig(
            data_dir=self._folder,
            component=running,
            ephemeral=True,
            port=0,
            runtime_config=parse_runtime_config(runtime_config),
        )
        crew = None if workers.is_empty else in_process(workers)
        self._plane = ControlPlane(config, crew, clock=self.clock)
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mooring", daemon=True)

    def __enter__(self) -> Self:
        self._stack.callback(self._loop.close)
        self._thread.start()
        self._stack.callback(self._thread.join)
        self._stack.callback(lambda: self._loop.call_soon_threadsafe(self._loop.stop))
        if not self._own_time:
            _use_keys(self._folder / "pki")
        try:
            with defer_collection():
                self.run(self._plane.__aenter__())
                self._stack.callback(lambda: self.run(self._plane.__aexit__(None, None, None)))
                self.run(self._start())
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    async def _start(self) -> None:
        await self._plane.start()
        if not self._own_time:
            _keep_keys(self._folder / "pki")
        await create_nodes(self.client, numbered(self._nodes), self._kubelet)
        await self._plane.wait_until_ready()

    # -- access

    @property
    def url(self) -> str:
        return self._plane.server.url

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self._plane.server.kubeconfig()

    @property
    def client(self) -> Client:
        """Return the administrator's client, for `run`: it belongs to the control plane's event loop."""
        return self._plane.client

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the control plane's event loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # -- shortcuts

    def create(self, *wanted: Creatable) -> list_of[Resource]:
        """Create objects from structs, builders, dicts, YAML, files, or lists of these; return the stored ones."""
        return [self.run(self.client.create(obj)) for each in wanted for obj in self._objects(each)]

    def _objects(self, wanted: Creatable) -> Iterator[Resource]:
        match wanted:
            case str():
                yield from read_objects(wanted, self.client.scheme)
            case Path():
                yield from read_objects(wanted.read_bytes(), self.client.scheme)
            case Builder():
                yield wanted.build()
            case Resource():
                yield wanted
            case Mapping():
                yield object_of(dict(wanted), self.client.scheme)
            case _:
                for each in wanted:
                    yield from self._objects(each)

    @contextmanager
    def crd(self, definition: dict[str, Any] | str | Path) -> Iterator[CustomKind]:
        """Create a CustomResourceDefinition from a dict, YAML or a file; delete it with its objects at the end."""
        if isinstance(definition, Path):
            definition = definition.read_text()
        tree: dict[str, Any] = yaml.safe_load(definition) if isinstance(definition, str) else definition
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.run(self.client.raw("POST", path, body=json.dumps(tree).encode()))
        try:
            yield CustomKind(self, tree)
        finally:
            name = tree["metadata"]["name"]
            with suppress(errors.NotFound):
                self.run(self.client.raw("DELETE", f"{path}/{name}"))
            self.wait_until_gone(CustomResourceDefinition, name, "")

    def get(self, cls: type[R], name: str, namespace: str = "default") -> R:
        return self.run(self.client.get(cls, name, namespace))

    def list(self, cls: type[R], namespace: str = "") -> list_of[R]:
        return self.run(self.client.list(cls, namespace)).items

    def patch(self, cls: type[R], name: str, body: Any, namespace: str = "default") -> R:
        """Apply a merge patch."""
        return self.run(self.client.patch(cls, name, body, namespace, type=PatchType.MERGE))

    def delete(self, cls: type[Resource], name: str, namespace: str = "default") -> None:
        self.run(self.client.delete(cls, name, namespace))

    def wait_until(self, condition: Callable[[], T | None], seconds: float = _SECONDS) -> T:
        """Poll until a condition returns a true value, and return it; raise TimeoutError."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the condition did not hold within {seconds:g} s")
            time.sleep(_POLL_SECONDS)
        return found

    def wait_for_pod(
        self, name: str, namespace: str = "default", phase: str = "Running", *, seconds: float = _SECONDS
    ) -> Pod:
        """Wait until a pod is in a phase; raise TimeoutError with the messages of its conditions."""

        def reached() -> Pod | None:
            found = self.get(Pod, name, namespace)
            return found if found.status.phase == phase else None

        try:
            return self.wait_until(reached, seconds)
        except TimeoutError:
            pod = self.get(Pod, name, namespace)
            reasons = "; ".join(c.message for c in pod.status.conditions if c.status != "True" and c.message)
            raise TimeoutError(f"pod {name} is {pod.status.phase}, not {phase}: {reasons}") from None

    def wait_until_gone(
        self, cls: type[Resource], name: str, namespace: str = "default", *, seconds: float = _SECONDS
    ) -> None:
        def gone() -> bool:
            try:
                self.get(cls, name, namespace)
            except errors.NotFound:
                return True
            return False

        self.wait_until(gone, seconds)

    def advance(self, seconds: float) -> None:
        """Move the mock clock."""
        if not isinstance(self.clock, MockClock):
            raise RuntimeError("this control plane runs on system time: start it with mock_clock=True")
        self.run(self.clock.run(seconds))


_keys: dict[str, bytes] = {}
"""Keys and certificates of the first control plane by file name, reused by later ones: generating them is slow."""


def _keep_keys(folder: Path) -> None:
    if not _keys:
        _keys.update({file.name: file.read_bytes() for file in folder.iterdir()})


def _use_keys(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    for name, content in _keys.items():
        write_private(folder / name, content, durable=False)
