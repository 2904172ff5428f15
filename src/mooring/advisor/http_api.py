"""Serve advice over HTTP, below `/apis/advisor.mooring.dev/v1`, about the server's own store.

    GET  …/namespaces/NS/schedulingexplanations/NAME[?kind=deployment]    SchedulingExplanation
    GET  …/audits/cluster[?toEmulationVersion=1.36&disableGate=G&…]       Audit
    POST …/simulations                                                    a Scenario in, a Simulation out

Requests are authorised as for any resource. A response may take seconds to compute: it is computed in a thread, one at
a time for each user and a few for the server, within a deadline. ``cli/support/control_plane.py`` adds this to the
server.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mooring.advisor.audit import Question, QuestionError, audit
from mooring.advisor.explain import NotThereError, explain, find_subject
from mooring.advisor.simulate import Add, AddNodes, Progress, Scenario, ScenarioError, Settings, simulate
from mooring.advisor.simulate.scenario_file import ClusterWanted, read_scenario
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.from_store import snapshot_of_values
from mooring.api import codec, errors
from mooring.api.advisor_v1 import GROUP
from mooring.api.meta_v1 import Resource, Table, TableColumnDefinition, TableRow
from mooring.api.scheme import SchemeError, parse_runtime_config
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.messages.routes import ResourceRoute
from mooring.apiserver.output.formats import format_json
from mooring.store.kv import KeyValue, Store

CLUSTER = "cluster"
MOST_PODS, MOST_NODES = 50_000, 10_000
_ROOT = "/registry/"
_PAGE = 5_000
_AUDIT_PARAMETERS = frozenset(
    {"toEmulationVersion", "toMinCompatibilityVersion", "disableGate", "enableGate", "toRuntimeConfig"}
)
_COMMON_PARAMETERS = frozenset({"pretty", "timeout"})

Answer = Callable[[Request, ResourceRoute], Awaitable[Response]]
Work = Callable[[Snapshot, float], Any]
"""A function that computes the response before a deadline (monotonic time); raises `StatusError` or TimeoutError."""


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """Limits on computing advice: concurrency and time."""

    seconds: float = 30.0
    at_once: int = 2
    """The maximum number of responses computed concurrently, for all users together."""


@dataclass(slots=True, kw_only=True)
class AdvisorApi:
    """The HTTP handlers of one server."""

    store: Store
    ask: Callable[..., Question]
    """Build the audit question for the server's current versions and gates, as `mooring.advisor.audit.ask` does."""
    settings: Settings
    costs: AnswerLimits = field(default_factory=AnswerLimits)
    origin: str = "this cluster"
    _busy: set[str] = field(default_factory=set)

    def answers(self) -> Mapping[tuple[str, str], Answer]:
        """Return the handler functions by API group and resource."""
        return {
            (GROUP, "schedulingexplanations"): self._answer_explanation,
            (GROUP, "audits"): self._answer_audit,
            (GROUP, "simulations"): self._answer_simulation,
        }

    # -- the three questions

    async def _answer_explanation(self, request: Request, route: ResourceRoute) -> Response:
        _check_parameters(request, {"kind"})
        kind = request.parameter("kind") or "pod"

        def work(snapshot: Snapshot, _: float) -> Any:
            try:
                subject = find_subject(snapshot, kind, route.namespace, route.name, self.settings.admission)
            except NotThereError as error:
                missing = errors.not_found(route.resource, route.name, group=GROUP)
                missing.status.message = f"{missing.status.message}: {error}"
                raise missing from error
            return explain(snapshot, subject, self.settings)

        return await self.answer(request, route, work)

    async def _answer_audit(self, request: Request, route: ResourceRoute) -> Response:
        if route.name != CLUSTER:
            raise errors.not_found(route.resource, route.name, group=GROUP)
        _check_parameters(request, _AUDIT_PARAMETERS)
        config = request.query.get("toRuntimeConfig")
        try:
            question = self.ask(
                to_emulation=request.parameter("toEmulationVersion") or None,
                to_min_compatibility=request.parameter("toMinCompatibilityVersion") or None,
                disable=_list_parameter(request, "disableGate"),
                enable=_list_parameter(request, "enableGate"),
                to_runtime_config=parse_runtime_config(config[0]) if config else None,
            )
        except (QuestionError, SchemeError) as error:
            raise errors.bad_request(str(error)) from error

        def work(snapshot: Snapshot, _: float) -> Any:
            profiles = self.settings.profiles
            try:
                return audit(snapshot, question, profiles=profiles, has_stored_versions=True).tree()
            except SchemeError as error:
                raise errors.bad_request(str(error)) from error

        return await self.answer(request, route, work)

    async def _answer_simulation(self, request: Request, route: ResourceRoute) -> Response:
        _check_parameters(request, {"fieldManager", "fieldValidation"})
        try:
            scenario, cluster = read_scenario(request.body)
        except ScenarioError as error:
            raise errors.bad_request(str(error)) from error
        _check_size(scenario, cluster)

        def work(snapshot: Snapshot, deadline: float) -> Any:
            def check_deadline(_: Progress) -> None:
                if time.monotonic() > deadline:
                    raise TimeoutError

            try:
                return simulate(snapshot, scenario, self.settings, report=check_deadline)
            except ScenarioError as error:
                raise errors.bad_request(str(error)) from error

        return await self.answer(request, route, work, status=201)

    # -- how

    async def answer(self, request: Request, route: ResourceRoute, work: Work, status: int = 200) -> Response:
        """Run `work` on a snapshot in a thread; respond with its result, or an error beyond the limits."""
        user = request.user.username
        if user in self._busy:
            raise errors.too_many_requests("you have asked the advisor already: wait for that answer")
        if len(self._busy) >= self.costs.at_once:
            raise errors.too_many_requests("the advisor is busy with others' questions")
        self._busy.add(user)
        working = asyncio.create_task(self._compute_in_thread(work), name="the advisor")
        # Its user keeps the place until the thread is done, in time or not.
        working.add_done_callback(lambda _: self._busy.discard(user))
        working.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            async with asyncio.timeout(self.costs.seconds):
                result = await asyncio.shield(working)
        except TimeoutError:
            raise errors.timeout(f"the advisor has found no answer within {self.costs.seconds:g}s") from None
        tree, accepted = _as_api_object(result, route), request.negotiate_format()
        body = codec.encode(_as_table(tree) if accepted.shown_as == "Table" else tree)
        shown, content_type = format_json(body, accepted, request)
        return Response(status, shown, content_type)

    async def _compute_in_thread(self, work: Work) -> Any:
        deadline = time.monotonic() + self.costs.seconds
        values = await self._read_store()
        return await asyncio.to_thread(lambda: work(snapshot_of_values(self.origin, values), deadline))

    async def _read_store(self) -> list[KeyValue]:
        """Return all stored objects at one revision, read in pages, so that other requests are served between them."""
        page = await self.store.range(_ROOT, limit=_PAGE)
        values = list(page.items)
        while page.remaining and page.items:
            await asyncio.sleep(0)
            page = await self.store.range(_ROOT, after_key=page.items[-1].key, limit=_PAGE, revision=page.revision)
            values += page.items
        return values


def _as_api_object(result: Any, route: ResourceRoute) -> dict[str, Any]:
    """Return a result as an API object of the route's kind, with the requested name."""
    tree: dict[str, Any] = msgspec.to_builtins(result)
    metadata = {"name": route.name, "namespace": route.namespace}
    kind = {"apiVersion": route.kind.api_version, "kind": route.kind.kind}
    return {**kind, "metadata": {name: text for name, text in metadata.items() if text}, **tree, **kind}


_COLUMNS: Mapping[str, Mapping[str, Callable[[dict[str, Any]], Any]]] = {
    "SchedulingExplanation": {
        "State": lambda tree: tree["state"],
        "Node": lambda tree: tree["node"],
        "Summary": lambda tree: tree["summary"],
    },
    "Audit": {
        "Objects": lambda tree: tree.get("objects", 0),
        "Uses": lambda tree: len(tree.get("findings", ())),
        "Breaks": lambda tree: sum(bool(each.get("breaks")) for each in tree.get("findings", ())),
    },
}


def _as_table(tree: dict[str, Any]) -> Table | dict[str, Any]:
    """Return a result as a Table for `kubectl get`."""
    columns = _COLUMNS.get(tree["kind"])
    if columns is None:
        return tree
    name = TableColumnDefinition(name="Name", type="string", format="name")
    return Table(
        kind="Table",
        api_version="meta.k8s.io/v1",
        column_definitions=[name, *(TableColumnDefinition(name=each, type="string") for each in columns)],
        rows=[
            TableRow(
                cells=[tree["metadata"]["name"], *(cell(tree) for cell in columns.values())],
                object={
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": tree["metadata"],
                },
            )
        ],
    )


def _list_parameter(request: Request, name: str) -> list[str]:
    """Return the values of a query parameter, repeated or comma-separated."""
    return [word.strip() for value in request.query.get(name, ()) for word in value.split(",") if word.strip()]


def _check_parameters(request: Request, known: frozenset[str] | set[str]) -> None:
    unknown = sorted(set(request.query) - known - _COMMON_PARAMETERS)
    if unknown:
        there_are = ", ".join(sorted(known))
        raise errors.bad_request(f"there is no query parameter {', '.join(unknown)}: there are {there_are}")


def _check_size(scenario: Scenario, cluster: ClusterWanted) -> None:
    if cluster != ClusterWanted():
        raise errors.bad_request("cluster: the simulation is of this cluster; leave it out")
    pods = nodes = 0
    for step in scenario.steps:
        for change in step.changes:
            if isinstance(change, AddNodes):
                nodes += change.number
            elif isinstance(change, Add):
                pods += sum(_count_pods(obj) if change.replicas is None else change.replicas for obj in change.objects)
    for what, number, most in (("pods", pods, MOST_PODS), ("nodes", nodes, MOST_NODES)):
        if number > most:
            raise errors.bad_request(f"a scenario may add {most} {what} here, and this one adds {number}")


def _count_pods(obj: Resource) -> int:
    spec = getattr(obj, "spec", None)
    numbers = (getattr(spec, name, None) for name in ("replicas", "parallelism"))
    return max((number for number in numbers if isinstance(number, int)), default=1)
