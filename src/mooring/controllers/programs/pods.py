"""Run pods whose containers are programs: address, volumes, environment, containers, termination.

``simulated_nodes/pods.py`` passes pods to `ProgramPods` when they are bound. One task runs a pod from start to end;
`publish` has its status written. A deleted pod is stopped within its grace period and removed.
"""

import asyncio
import re
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs

from mooring.api import errors, times
from mooring.api.core_v1 import (
    Container,
    ContainerStatus,
    EnvFromSource,
    EnvVarSource,
    HostIP,
    Node,
    Pod,
    PodIP,
)
from mooring.api.environment import expand_references, field_of, resource_of
from mooring.api.errors import StatusError
from mooring.api.program_folders import pod_folder
from mooring.api.states import has_ended
from mooring.api.volume_files import MissingError, Source
from mooring.base import logs
from mooring.client import Client, ClientError, EventRecorder, key_of
from mooring.client.events import EventKind
from mooring.client.kubeconfig import load
from mooring.controllers.programs.container import ProgramContainer
from mooring.controllers.programs.file import Programs
from mooring.controllers.programs.network import NetworkError, PodNetworks
from mooring.controllers.programs.sandbox import Mount
from mooring.controllers.programs.volumes import ReferencedObjectReader, Volumes
from mooring.controllers.simulated_nodes import pod_status
from mooring.controllers.simulated_nodes.pod_status import FAILED, PENDING, RUNNING, SUCCEEDED

_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


async def build_variables(source: Source, pod: Pod, container: Container, node: Node) -> dict[str, str]:
    """Return a container's environment variables as a kubelet would. Raise MissingError if a source does not exist."""
    found: dict[str, str] = {}
    for each in container.env_from:
        found |= await _read_env_from(source, pod, each)
    for variable in container.env:
        value: str | None
        reference = variable.value_from
        if reference is None:
            value = expand_references(variable.value, found)
        elif reference.field_ref is not None:
            value = field_of(pod, reference.field_ref)
        elif reference.resource_field_ref is not None:
            value = resource_of(pod, container.name, reference.resource_field_ref, node.status.allocatable)
        else:
            value = await _read_referenced_key(source, pod.metadata.namespace, reference)
        if value is not None:
            found[variable.name] = value
    return found


def build_server_variables(url: str) -> dict[str, str]:
    """Return the variables by which clients in a cluster find the API server."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", str(parts.port or 443)
    shown = f"[{host}]" if ":" in host else host
    return {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
        "KUBERNETES_PORT": f"tcp://{shown}:{port}",
    }


async def _read_data(source: Source, namespace: str, kind: str, name: str) -> dict[str, str] | None:
    """Return the entries of a ConfigMap or Secret as text, by key; None if it does not exist."""
    if kind == "ConfigMap":
        config_map = await source.config_map(namespace, name)
        return config_map.data if config_map is not None else None
    secret = await source.secret(namespace, name)
    if secret is None:
        return None
    return {key: value.decode(errors="replace") for key, value in secret.data.items()}


async def _read_env_from(source: Source, pod: Pod, each: EnvFromSource) -> dict[str, str]:
    of, kind = each.config_map_ref or each.secret_ref, "ConfigMap" if each.config_map_ref is not None else "Secret"
    if of is None:
        return {}
    data = await _read_data(source, pod.metadata.namespace, kind, of.name)
    if data is None and not of.optional:
        raise MissingError(f'{kind.lower()} "{of.name}" not found')
    named = {each.prefix + key: value for key, value in (data or {}).items()}
    return {name: value for name, value in named.items() if _NAME.fullmatch(name)}


async def _read_referenced_key(source: Source, namespace: str, of: EnvVarSource) -> str | None:
    wanted = of.config_map_key_ref or of.secret_key_ref
    if wanted is None:
        return None
    kind = "ConfigMap" if of.config_map_key_ref is not None else "Secret"
    value = (await _read_data(source, namespace, kind, wanted.name) or {}).get(wanted.key)
    if value is None and not wanted.optional:
        raise MissingError(f"couldn't find key {wanted.key} in {kind} {namespace}/{wanted.name}")
    return value


_RETRY_SECONDS, _REFRESH_SECONDS = 1.0, 10.0
_GRACE_SECONDS = 30.0
log = logs.get(__name__)


class ProgramPod:
    """A pod, its containers and the task that runs them."""

    def __init__(self, shared: "ProgramPods", pod: Pod, node: Node, address: str) -> None:
        self._shared = shared
        self.pod, self._node, self._address = pod, node, address
        self.clock, self.folder = shared.client.clock, shared.programs.folder
        self.stopping = False
        self._changed = asyncio.Event()
        self.network: list[str] = []
        self._volumes = Volumes(self.folder, shared.source)
        self._inits = self._build_containers(pod.spec.init_containers, pod.status.init_container_statuses)
        self._containers = self._build_containers(pod.spec.containers, pod.status.container_statuses)
        self._phase, self._reason = PENDING, ""
        self._started_at = pod.status.start_time or times.to_seconds(self.clock.now())
        self._run_task = asyncio.create_task(self._run_within_deadline(), name=f"programs of {key_of(pod)}")
        self._status_task = asyncio.create_task(self._write_status_when_requested(), name=f"status of {key_of(pod)}")
        self._stop_task: asyncio.Task[None] | None = None

    def _build_containers(self, specs: list[Container], before: list[ContainerStatus]) -> list[ProgramContainer]:
        known = {status.name: status for status in before}
        made = [ProgramContainer(self, spec, self._shared.programs.find_program(spec.image)) for spec in specs]
        for each in made:
            if each.spec.name in known:
                each.resume(known[each.spec.name])
        return made

    # -- events

    def handle_update(self, pod: Pod) -> None:
        """Apply an update of the pod: termination, resized resources, ephemeral containers."""
        self.pod = pod
        if pod.metadata.deletion_timestamp is not None and self._stop_task is None:
            self._stop_task = asyncio.create_task(self._stop_and_delete(), name=f"end of {key_of(pod)}")
        elif pod.status.observed_generation != pod.metadata.generation:
            self.request_status_write()

    async def kill(self) -> None:
        """Stop all containers and tasks at once, without grace period."""
        tasks = [task for task in (self._run_task, self._status_task, self._stop_task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- called by containers

    async def build_container_variables(self, container: Container) -> dict[str, str]:
        own = await build_variables(self._shared.source, self.pod, container, self._node)
        name = self.pod.spec.hostname or self.pod.metadata.name
        return {**build_server_variables(self._shared.server_url()), "HOSTNAME": name, **own}

    def build_container_mounts(self, container: Container, variables: dict[str, str]) -> list[Mount]:
        return [*self._volumes.build_mounts(self.pod, container, variables), *self._write_network_files()]

    def _write_network_files(self) -> list[Mount]:
        place = self._shared.pod_folder(self.pod)
        name = self.pod.spec.hostname or self.pod.metadata.name
        server = build_server_variables(self._shared.server_url())["KUBERNETES_SERVICE_HOST"]
        names = "kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local"
        hosts = f"127.0.0.1 localhost\n::1 localhost\n{self._address} {name}\n{server} {names}\n"
        texts = {"hosts": hosts, "hostname": f"{name}\n"}
        place.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (place / file).write_text(text)
        return [Mount(f"/etc/{file}", place / file) for file in texts]

    def request_status_write(self) -> None:
        """Request that the pod's status is written to the server soon."""
        self._changed.set()

    def record_event(self, kind: EventKind, reason: str, note: str) -> None:
        self._shared.recorder.event(self.pod, kind, reason, note)

    # -- running

    async def _run_within_deadline(self) -> None:
        deadline = self.pod.spec.active_deadline_seconds
        try:
            async with asyncio.timeout(deadline):
                await self._run_containers()
        except TimeoutError:
            self._phase, self._reason = FAILED, "DeadlineExceeded"
            self.request_status_write()
        except Exception:
            log.exception("programs of %s: cannot go on", key_of(self.pod))
            raise

    async def _run_containers(self) -> None:
        for each in (*self._inits, *self._containers):
            if each.exit_code is None:
                each.set_waiting("PodInitializing" if self._inits else "ContainerCreating")
        self.request_status_write()
        await self._create_network_with_retries()
        await self._write_volumes_with_retries()
        async with asyncio.TaskGroup() as tasks:
            refreshing = tasks.create_task(self._refresh_volumes_periodically())
            sidecars = [
                tasks.create_task(each.run_until_done("Always"))
                for each in self._inits
                if each.spec.restart_policy == "Always"
            ]
            codes = await self._run_init_containers_until_failure()
            if not any(codes):
                self._phase = RUNNING
                policy = self.pod.spec.restart_policy
                codes = await asyncio.gather(*(each.run_until_done(policy) for each in self._containers))
            for task in (refreshing, *sidecars):
                task.cancel()
        self._phase = FAILED if any(codes) else SUCCEEDED
        self.request_status_write()

    async def _run_init_containers_until_failure(self) -> list[int]:
        """Run the init containers in order; return the exit code of the one that failed for good, if any."""
        policy = "Never" if self.pod.spec.restart_policy == "Never" else "OnFailure"
        for each in self._inits:
            if each.spec.restart_policy == "Always" or each.program is None:
                continue
            code = await each.run_until_done(policy)
            if code:
                return [code]
        return []

    async def _create_network_with_retries(self) -> None:
        while True:
            try:
                self.network = await self._shared.networks.create(self.pod, self._address)
                return
            except NetworkError as error:
                self.record_event("Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
            await self.clock.sleep(_RETRY_SECONDS)

    async def _write_volumes_with_retries(self) -> None:
        while True:
            try:
                await self._volumes.write(self.pod)
                return
            except (MissingError, StatusError, ClientError, OSError) as error:
                for volume in self.pod.spec.volumes[:1]:
                    note = f'MountVolume.SetUp failed for volume "{volume.name}" : {error}'
                    self.record_event("Warning", "FailedMount", note)
            await self.clock.sleep(_RETRY_SECONDS)

    async def _refresh_volumes_periodically(self) -> None:
        while True:
            await self.clock.sleep(_REFRESH_SECONDS)
            with suppress(MissingError, StatusError, ClientError, OSError):
                await self._volumes.write(self.pod)

    # -- stopping

    async def _stop_and_delete(self) -> None:
        self.stopping = True
        grace = self.pod.metadata.deletion_grace_period_seconds
        seconds = float(_GRACE_SECONDS if grace is None else grace)
        for each in self._containers:
            self.record_event("Normal", "Killing", f"Stopping container {each.spec.name}")
        await asyncio.gather(*(each.stop(seconds) for each in (*self._containers, *self._inits)))
        self._run_task.cancel()
        await asyncio.gather(self._run_task, return_exceptions=True)
        codes = [each.exit_code for each in self._containers]
        self._phase = FAILED if any(codes) else SUCCEEDED
        self._status_task.cancel()
        await asyncio.gather(self._status_task, return_exceptions=True)
        while not await self._write_status():
            await self.clock.sleep(_RETRY_SECONDS)
        meta = self.pod.metadata
        with suppress(errors.NotFound):
            await self._shared.client.delete(Pod, meta.name, meta.namespace, grace_period_seconds=0, uid=meta.uid)

    # -- status

    async def _write_status_when_requested(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not await self._write_status():
                await self.clock.sleep(_RETRY_SECONDS)
                self._changed.set()

    async def _write_status(self) -> bool:
        meta = self.pod.metadata
        try:
            pod = await self._shared.client.get(Pod, meta.name, meta.namespace)
            if pod.metadata.uid == meta.uid:
                status = structs.replace(pod.status, **self._build_status(pod))
                if status != pod.status:
                    self.pod = await self._shared.client.update_status(structs.replace(pod, status=status))
        except errors.NotFound:
            return True
        except (StatusError, ClientError) as error:
            log.debug("status of %s: trying again: %s", key_of(self.pod), error)
            return False
        return True

    def _build_status(self, pod: Pod) -> dict[str, Any]:
        now = times.to_seconds(self.clock.now())
        ready = all(each.ready for each in self._containers) and self._phase == RUNNING
        done = [each.spec.name for each in self._inits if each.program is None or each.exit_code == 0]
        conditions = pod_status.build_conditions(
            pod, now, sandbox=self._phase != PENDING, containers_ready=ready, phase=self._phase, done=done
        )
        host = next((each.address for each in self._node.status.addresses if each.type == "InternalIP"), "")
        return {
            "phase": self._phase,
            "reason": self._reason,
            "start_time": self._started_at,
            "observed_generation": pod.metadata.generation,
            "conditions": pod_status.merge_conditions(pod.status.conditions, conditions),
            "init_container_statuses": [each.build_status() for each in self._inits],
            "container_statuses": [each.build_status() for each in self._containers],
            "host_ip": host,
            "host_ips": [HostIP(ip=host)] if host else [],
            "pod_ip": self._address,
            "pod_ips": [PodIP(ip=self._address)],
        }


class ProgramPods:
    """The pods whose containers run programs: starts, stops and cleans up after them."""

    def __init__(self, programs: Programs, client: Client, recorder: EventRecorder) -> None:
        self.programs, self.client, self.recorder = programs, client, recorder
        self.networks = PodNetworks(programs.address, programs.folder, own=programs.own_networks)
        self.source = ReferencedObjectReader(client)
        self._pods: dict[str, ProgramPod] = {}
        self._cleanups: set[asyncio.Task[None]] = set()

    def pod_folder(self, pod: Pod) -> Path:
        return pod_folder(self.programs.folder, pod.metadata.uid)

    def server_url(self) -> str:
        """Return the URL by which containers reach the API server; in own networks it has this machine's address."""
        url = load(self.programs.kubeconfig).server
        return url.replace("//127.0.0.1:", f"//{self.programs.address}:") if self.programs.own_networks else url

    def is_handled(self, pod: Pod) -> bool:
        """Return whether programs run for a pod, or are still to be stopped."""
        if pod.metadata.uid in self._pods:
            return True
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        return not has_ended(pod) and any(self.programs.find_program(each.image) for each in containers)

    def handle_changed(self, pod: Pod, node: Node, allocate: Callable[[], str | None]) -> bool:
        """Handle a new or updated pod; return False if its node has no address left."""
        uid = pod.metadata.uid
        if uid not in self._pods:
            address: str | None = self.networks.address
            if self.networks.is_own(pod):
                address = pod.status.pod_ip or allocate()
            if address is None:
                return False
            self._pods[uid] = ProgramPod(self, pod, node, address)
        self._pods[uid].handle_update(pod)
        return True

    def handle_deleted(self, pod: Pod) -> None:
        """Kill the programs of a deleted pod and remove its files and network, in the background."""
        program_pod = self._pods.pop(pod.metadata.uid, None)
        if program_pod is None:
            return
        task = asyncio.create_task(self._clean_up(program_pod))
        self._cleanups.add(task)
        task.add_done_callback(self._cleanups.discard)

    async def _clean_up(self, program_pod: ProgramPod) -> None:
        await program_pod.kill()
        self.source.forget(program_pod.pod)
        with suppress(NetworkError):
            await self.networks.remove(program_pod.pod)
        await asyncio.to_thread(shutil.rmtree, self.pod_folder(program_pod.pod), ignore_errors=True)

    async def remove_leftovers(self, uids: Iterable[str]) -> None:
        """Remove leftovers of pods that were deleted while the controller was down."""
        await self.networks.remove_leftovers()
        known = set(uids)
        pods = self.programs.folder / "pods"
        for place in pods.iterdir() if pods.exists() else ():
            if place.name not in known:
                shutil.rmtree(place, ignore_errors=True)

    async def close(self) -> None:
        """Stop all programs."""
        await asyncio.gather(*(program_pod.kill() for program_pod in self._pods.values()), *self._cleanups)
        await self.networks.remove_leftovers()
