"""Drive `mooring demo`: start temporary control planes, apply examples and print the results."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import click

from mooring.api.apps_v1 import Deployment
from mooring.api.core_v1 import Node, NodeSelectorTerm, Pod
from mooring.api.errors import StatusError
from mooring.api.states import is_ready
from mooring.apiserver.options import ServerConfig
from mooring.base import component
from mooring.cli.support.control_plane import ControlPlane, in_process
from mooring.cli.support.manifests import DEFAULT_NAMESPACE, read_objects
from mooring.cli.support.output import print_table
from mooring.cli.support.worker_process import WorkerConfig
from mooring.client import Client, PatchType

ANYWHERE = "*"
NOWHERE = ""
_PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.05
_WIDTH = 100
_NOT_READY = "node.kubernetes.io/not-ready"
_OWN_TOLERATIONS = _NOT_READY, "node.kubernetes.io/unreachable"
_OWN_LABELS = "kubernetes.io/"


class DemoError(Exception):
    """An expected result did not occur; the message says which."""


class Guide:
    """Narrates `mooring demo`: runs one control plane after the other in a folder, and prints what happens there."""

    def __init__(self, examples: Path, folder: Path, pause_seconds: float) -> None:
        self._examples = examples
        self._folder = folder
        self._pause_seconds = pause_seconds
        self._plane: ControlPlane | None = None

    def title(self, text: str) -> None:
        click.echo()
        click.secho(text, bold=True)

    async def say(self, text: str) -> None:
        """Print a paragraph of the demo's narration, and pause for the reader."""
        click.echo(click.wrap_text(text, _WIDTH))
        await asyncio.sleep(self._pause_seconds)

    def _print_command(self, text: str) -> None:
        click.secho(f"  $ {text}", fg="cyan")

    @asynccontextmanager
    async def control_plane(
        self, name: str, *, feature_gates: str = "", emulation_version: str | None = None
    ) -> AsyncIterator[None]:
        """Run a control plane while the context is entered; one with an earlier name continues with its data."""
        flags = f" --feature-gates {feature_gates}" if feature_gates else ""
        flags += f" --emulation-version {emulation_version}" if emulation_version else ""
        self._print_command(f"mooring up{flags}")
        running = component.resolve(gates=feature_gates, emulation=emulation_version)
        config = ServerConfig(data_dir=self._folder / name, component=running, port=0)
        async with ControlPlane(config, in_process(WorkerConfig(running))) as self._plane:
            await self._plane.start()
            await self._plane.wait_until_ready()
            yield
        self._plane = None

    @property
    def _client(self) -> Client:
        if self._plane is None:
            raise RuntimeError("enter a control plane first")
        return self._plane.client

    async def apply(self, folder: str, *names: str) -> None:
        """Create the objects of an example's files, and print the kubectl command for it."""
        for file in (f"{folder}/{name}.yaml" for name in names):
            self._print_command(f"kubectl apply -f examples/{file}")
            for obj in read_objects((self._examples / file).read_bytes(), self._client.scheme):
                await self._client.create(obj)
        async with _fail_after_timeout("nodes did not become ready"):
            while not all(_is_ready(node) for node in (await self._client.list(Node)).items):  # noqa: ASYNC110 - remote
                await asyncio.sleep(_POLL_SECONDS)

    async def is_refused(self, file: str) -> None:
        """Create an example file's objects, which must be rejected, and print why; raise DemoError otherwise."""
        self._print_command(f"kubectl apply -f examples/{file}")
        for obj in read_objects((self._examples / file).read_bytes(), self._client.scheme):
            try:
                await self._client.create(obj, dry_run=True)
            except StatusError as error:
                click.secho(click.wrap_text(str(error), _WIDTH, "  ! ", "    "), fg="red")
                return
        raise DemoError(f"examples/{file} should have been refused, and was not")

    async def taint(self, node: str, key: str, value: str, effect: str) -> None:
        """Replace all taints of a node by one taint."""
        self._print_command(f"kubectl taint node {node} {key}={value}:{effect} --overwrite")
        body = {"spec": {"taints": [{"key": key, "value": value, "effect": effect}]}}
        await self._client.patch(Node, node, body, type=PatchType.MERGE)

    async def set_image(self, deployment: str, container: str, image: str) -> None:
        self._print_command(f"kubectl set image deployment/{deployment} {container}={image}")
        body = {"spec": {"template": {"spec": {"containers": [{"name": container, "image": image}]}}}}
        await self._client.patch(Deployment, deployment, body, DEFAULT_NAMESPACE)

    async def show_nodes(self) -> None:
        rows = []
        for node in (await self._client.list(Node)).items:
            taints = [f"{taint.key}={taint.value}:{taint.effect}" for taint in node.spec.taints]
            labels = [
                f"{key}={value}" for key, value in node.metadata.labels.items() if not key.startswith(_OWN_LABELS)
            ]
            rows.append([node.metadata.name, "  ".join((*taints, *labels)) or "-"])
        self._print_table(["NODE", "TAINTS AND LABELS"], rows)

    async def show_pods(self, expected: Mapping[str, str], count: int = 0) -> list[Pod]:
        """Wait until `count` pods, by name prefix, are on their nodes; then print them. 0 means one each."""
        pods = await self._wait_for(expected, count or len(expected))
        self._print_table(
            ["POD", "NODE", "BECAUSE IT ASKS FOR"],
            [[pod.metadata.name, pod.spec.node_name or "-", _describe_constraints(pod) or "-"] for pod in pods],
        )
        for pod in pods:
            if not pod.spec.node_name:
                text = f"{pod.metadata.name} waits: {_pending_reason(pod)}"
                click.secho(click.wrap_text(text, _WIDTH, "  ! ", "    "), fg="yellow")
        await asyncio.sleep(self._pause_seconds)
        return pods

    async def show_failed_creates(self, deployment: str) -> None:
        """Wait until a Deployment reports that its pods are rejected, and print why."""
        message = ""
        async with _fail_after_timeout(f"deployment {deployment} did not say that its pods are refused"):
            while not message:
                await asyncio.sleep(_POLL_SECONDS)
                found = await self._client.get(Deployment, deployment, DEFAULT_NAMESPACE)
                messages = [each.message for each in found.status.conditions if each.type == "ReplicaFailure"]
                message = messages[0] if messages else ""
        text = f"deployment {deployment}: {message}"
        click.secho(click.wrap_text(text, _WIDTH, "  ! ", "    "), fg="red")
        await asyncio.sleep(self._pause_seconds)

    async def _wait_for(self, expected: Mapping[str, str], count: int) -> list[Pod]:
        pods: list[Pod] = []
        async with _fail_after_timeout(f"pods are not in the states that the demo expects: {dict(expected)}"):
            while True:
                pods = [pod for pod in (await self._client.list(Pod)).items if not pod.metadata.deletion_timestamp]
                if len(pods) == count and all(_is_as_expected(pod, expected) for pod in pods):
                    return pods
                await asyncio.sleep(_POLL_SECONDS)

    def _print_table(self, header: list[str], rows: list[list[str]]) -> None:
        print_table([f"  {header[0]}", *header[1:]], [[f"  {row[0]}", *row[1:]] for row in rows])


@asynccontextmanager
async def _fail_after_timeout(complaint: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            yield
    except TimeoutError:
        raise DemoError(f"{complaint}, within {_PATIENCE_SECONDS:g} s") from None


def _is_ready(node: Node) -> bool:
    ready = is_ready(node)
    return ready and not any(taint.key == _NOT_READY for taint in node.spec.taints)


def _is_as_expected(pod: Pod, expected: Mapping[str, str]) -> bool:
    wanted = next((node for start, node in expected.items() if pod.metadata.name.startswith(start)), None)
    if wanted == NOWHERE:
        return not pod.spec.node_name and bool(_pending_reason(pod))
    return pod.status.phase == "Running" and wanted in (ANYWHERE, pod.spec.node_name)


def _pending_reason(pod: Pod) -> str:
    return next((each.message for each in pod.status.conditions if each.type == "PodScheduled"), "")


def _describe_constraints(pod: Pod) -> str:
    spec = pod.spec
    words = [
        each.expression or f"{each.key} {each.operator} {each.value}".strip()
        for each in spec.tolerations
        if each.key not in _OWN_TOLERATIONS
    ]
    words += [f"{key}={value}" for key, value in spec.node_selector.items()]
    affinity = spec.affinity
    nodes = affinity.node_affinity if affinity else None
    if nodes and nodes.required_during_scheduling_ignored_during_execution:
        terms = nodes.required_during_scheduling_ignored_during_execution.node_selector_terms
        words.append(" or ".join(" and ".join(_describe_term(term)) for term in terms))
    if affinity and affinity.pod_affinity:
        for each in affinity.pod_affinity.required_during_scheduling_ignored_during_execution:
            keys = f" of the same {', '.join(each.match_label_keys)}" if each.match_label_keys else ""
            words.append(f"the {each.topology_key} of its like{keys}")
    return "; ".join(words)


def _describe_term(term: NodeSelectorTerm) -> list[str]:
    words = [f"{each.key} {each.operator} {', '.join(each.values)}" for each in term.match_expressions]
    return words + term.match_cel_expressions
