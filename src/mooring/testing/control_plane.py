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
from mooring.cli.support.manifests import object_of, read_objects
from mooring.cli.support.process_settings import defer_collection
from mooring.cli.support.worker_process import WorkerConfig
from mooring.client import Client, PatchType
from mooring.client.client import JSON
from mooring.controllers.options import for_component as controller_options
from mooring.controllers.simulated_nodes.templates import build_numbered_nodes, create_nodes
from mooring.testing.clock import MockClock
from mooring.testing.fluent import Builder

T = TypeVar("T")
R = TypeVar("R", bound=Resource)
Tree = dict[str, Any]
Creatable: TypeAlias = "Resource | Builder[Any] | Mapping[str, Any] | str | Path | Iterable[Creatable]"
_SECONDS = 20.0
_POLL_SECONDS = 0.02


class RunningControlPlane:
    """A control plane in a thread of this process, as a context manager; the arguments are those of `mooring up`."""

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

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    async def _start(self) -> None:
        await self._plane.start()
        if not self._own_time and not _keys:
            _keys.update({file.name: file.read_bytes() for file in (self._folder / "pki").iterdir()})
        await create_nodes(self.client, build_numbered_nodes(self._nodes), self._kubelet)
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
    def crd(self, definition: dict[str, Any] | str | Path) -> "Iterator[CustomKind]":
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

        def pod_in_phase() -> Pod | None:
            found = self.get(Pod, name, namespace)
            return found if found.status.phase == phase else None

        try:
            return self.wait_until(pod_in_phase, seconds)
        except TimeoutError:
            pod = self.get(Pod, name, namespace)
            reasons = "; ".join(c.message for c in pod.status.conditions if c.status != "True" and c.message)
            raise TimeoutError(f"pod {name} is {pod.status.phase}, not {phase}: {reasons}") from None

    def wait_until_gone(
        self, cls: type[Resource], name: str, namespace: str = "default", *, seconds: float = _SECONDS
    ) -> None:
        self.wait_until(lambda: _is_gone(lambda: self.get(cls, name, namespace)), seconds)

    def advance(self, seconds: float) -> None:
        """Move the mock clock."""
        if not isinstance(self.clock, MockClock):
            raise RuntimeError("this control plane runs on system time: start it with mock_clock=True")
        self.run(self.clock.run(seconds))


class CustomKind:
    """The objects of a custom kind as plain dicts, in its preferred version. Returned by `RunningControlPlane.crd`.

    with mooring.crd(DEFINITION) as crontabs:
        crontabs.create("nightly", {"cronSpec": "0 3 * * *"})
        crontabs.wait_until("nightly", lambda tab: tab.get("status", {}).get("ready"))
    """

    def __init__(self, plane: RunningControlPlane, definition: Tree) -> None:
        spec = definition["spec"]
        self._plane = plane
        self.group: str = spec["group"]
        self.version: str = next(each["name"] for each in spec["versions"] if each.get("served"))
        self.plural: str = spec["names"]["plural"]
        self.kind: str = spec["names"]["kind"]
        self._namespaced = spec["scope"] == "Namespaced"

    def create(self, name: str, spec: Tree | None = None, namespace: str = "default", **fields: Any) -> Tree:
        """Create an object; `fields` are fields beside the spec, such as `metadata`."""
        metadata = {**fields.pop("metadata", {}), "name": name}
        body = {"apiVersion": f"{self.group}/{self.version}", "kind": self.kind, "metadata": metadata, **fields}
        if spec is not None:
            body["spec"] = spec
        return self._request("POST", self._path(namespace), body)

    def get(self, name: str, namespace: str = "default") -> Tree:
        return self._request("GET", self._path(namespace, name))

    def list(self, namespace: str = "") -> list_of[Tree]:
        items: list_of[Tree] = self._request("GET", self._path(namespace))["items"]
        return items

    def patch(self, name: str, body: Tree, namespace: str = "default", subresource: str = "") -> Tree:
        """Apply a merge patch to an object or one of its subresources."""
        path = self._path(namespace, name) + (f"/{subresource}" if subresource else "")
        return self._request("PATCH", path, body, PatchType.MERGE)

    def delete(self, name: str, namespace: str = "default") -> None:
        self._request("DELETE", self._path(namespace, name))

    def wait_until(self, name: str, condition: Callable[[Tree], Any], namespace: str = "default") -> Tree:
        """Wait until a condition holds for an object, and return it; raise TimeoutError."""

        def holds() -> Tree | None:
            found = self.get(name, namespace)
            return found if condition(found) else None

        return self._plane.wait_until(holds)

    def wait_until_gone(self, name: str, namespace: str = "default") -> None:
        self._plane.wait_until(lambda: _is_gone(lambda: self.get(name, namespace)))

    def _path(self, namespace: str, name: str = "") -> str:
        place = f"namespaces/{namespace}/" if self._namespaced and namespace else ""
        path = f"/apis/{self.group}/{self.version}/{place}{self.plural}"
        return f"{path}/{name}" if name else path

    def _request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> Tree:
        sent = b"" if body is None else json.dumps(body).encode()
        answer = self._plane.run(self._plane.client.raw(method, path, body=sent, content_type=content_type))
        found: Tree = json.loads(answer.body)
        return found


def _is_gone(read: Callable[[], object]) -> bool:
    try:
        read()
    except errors.NotFound:
        return True
    return False


_keys: dict[str, bytes] = {}
"""Keys and certificates of the first control plane by file name, reused by later ones: generating them is slow."""


def _use_keys(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    for name, content in _keys.items():
        write_private(folder / name, content, durable=False)
