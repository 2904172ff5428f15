"""Pending: every pod that waits, by reason, with the smallest change that helps and where in the queue it is.

Pods that look alike and have one owner are judged once, by the scheduler's engine as things are now; what would help is
searched for when somebody looks at it, and is what `mooring explain` prints.
"""

from collections.abc import Iterable

from mooring.advisor.explain.waking import wakers
from mooring.advisor.simulate.html.elements import table
from mooring.advisor.simulate.html.markup import Markup, tag, together
from mooring.api.apps_v1 import ReplicaSet
from mooring.api.core_v1 import Pod, PodCondition
from mooring.api.states import controller_of, priority
from mooring.constraints.annotations import without_bridge
from mooring.dashboard.asking import Asked, Fragment, Model, Page
from mooring.dashboard.elements import badge, link, pod_link, soft, unread
from mooring.dashboard.standing import Standing
from mooring.dashboard.views import explained
from mooring.scheduler.facade import UnknownSchedulerError

_JUDGED = 300
"""So many different pods are judged for the page; of the others it says what the scheduler said last."""
_SHOWN = 40
"""Workloads of one reason."""
_FREE = "nothing is in their way: the scheduler has not got to them, or does not run"


class Waiting(Model, frozen=True, kw_only=True):
    """Pods of one owner that look alike."""

    owner: str
    """Empty for pods of their own."""
    pods: int
    example: str
    """`namespace/name`."""
    since: str
    """When the first of them was created."""
    priority: int
    queue: str
    """The pool of the scheduling queue, as far as the pod tells."""
    queued_since: str
    position: int
    """In the order in which pods are tried: by priority, then by age. 1 is next; 0 for those that are kept out."""


class Reason(Model, frozen=True, kw_only=True):
    """Pods that wait for the same reason."""

    message: str
    pods: int
    wakes: list[str]
    waiting: list[Waiting]


class Pending(Model, frozen=True, kw_only=True):
    """What the page shows."""

    pods: int
    reasons: list[Reason]
    unread: dict[str, str]
    """Of nodes and pods: why the user may not read any."""


def pending(standing: Standing) -> Pending:
    """All that wait, the most frequent reason first."""
    alike: dict[tuple[str, object], list[Pod]] = {}
    for pod in standing.waiting.values():
        alike.setdefault((_owner(standing, pod), standing.engine.cluster.shapes.likeness(pod)), []).append(pod)
    positions = _positions(standing.waiting.values())
    unread = {plural: why for plural in ("nodes", "pods") if (why := standing.snapshot.unread(plural))}
    judged = 0 if "nodes" in unread else _JUDGED  # without nodes only the scheduler can tell
    reasons: dict[str, list[Waiting]] = {}
    wakes: dict[str, list[str]] = {}
    by_size = sorted(alike.items(), key=lambda entry: (-len(entry[1]), entry[0][0]))
    for number, ((owner, _), pods) in enumerate(by_size):
        message, woken = _judged(standing, pods[0]) if number < judged else (_said(pods[0]), [])
        wakes.setdefault(message, woken)
        reasons.setdefault(message, []).append(_waiting(owner, pods, positions))
    made = [
        Reason(message=message, pods=sum(each.pods for each in found), wakes=wakes[message], waiting=found)
        for message, found in reasons.items()
    ]
    made.sort(key=lambda each: (-each.pods, each.message))
    return Pending(pods=len(standing.waiting), reasons=made, unread=unread)


def _owner(standing: Standing, pod: Pod) -> str:
    """Whose a pod is; of the pods of a Deployment that one, and not its ReplicaSet."""
    owner = controller_of(pod.metadata)
    if owner is None:
        return ""
    namespace, kind, name = pod.metadata.namespace, owner.kind, owner.name
    made_by = standing.snapshot.find(ReplicaSet, namespace, name) if kind == "ReplicaSet" else None
    above = controller_of(made_by.metadata) if made_by is not None else None
    return f"{above.kind} {namespace}/{above.name}" if above is not None else f"{kind} {namespace}/{name}"


def _judged(standing: Standing, given: Pod) -> tuple[str, list[str]]:
    """Why a pod has no node as things are now, and what would wake it."""
    engine, pod = standing.engine, without_bridge(given)
    if pod is not given:  # its constraints count whatever the server knows: that is another engine
        found = standing.explain("pod", given.metadata.namespace, given.metadata.name, 0)
        return found.message or found.summary, []
    try:
        profile = engine.profile_of(pod)
    except UnknownSchedulerError:
        return f"they wait for the scheduler {pod.spec.scheduler_name}, which is not this one", []
    early = engine.before_queue(pod)
    if not early.is_success:
        return early.message, wakers(profile, [early.plugin])
    outcome = engine.schedule(pod)
    if outcome.node is not None:
        return _FREE, []
    refusal = outcome.judgement.refusal
    plugins = [name for name, _, for_now, for_good in outcome.judgement.asked if for_now + for_good]
    plugins += [refusal.plugin] if refusal is not None else []
    return outcome.message or "there are no nodes", wakers(profile, plugins)


def _said(pod: Pod) -> str:
    condition = _condition(pod)
    return condition.message if condition is not None and condition.message else "not tried yet"


def _condition(pod: Pod) -> PodCondition | None:
    return next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)


def _positions(pods: Iterable[Pod]) -> dict[int, int]:
    tried = [pod for pod in pods if not pod.spec.scheduling_gates]
    tried.sort(key=lambda pod: (-priority(pod), pod.metadata.creation_timestamp or "", pod.metadata.name))
    return {id(pod): number for number, pod in enumerate(tried, 1)}


def _waiting(owner: str, pods: list[Pod], positions: dict[int, int]) -> Waiting:
    first = min(pods, key=lambda pod: positions.get(id(pod), len(positions) + 1))
    condition = _condition(first)
    queue, since = "active", ""
    if first.spec.scheduling_gates:
        queue, since = "gated", first.metadata.creation_timestamp or ""
    elif condition is not None and condition.status == "False":
        queue, since = "unschedulable", condition.last_transition_time or ""
    if first.status.nominated_node_name:
        queue = f"promised room on {first.status.nominated_node_name}"
    return Waiting(
        owner=owner,
        pods=len(pods),
        example=f"{first.metadata.namespace}/{first.metadata.name}",
        since=min((pod.metadata.creation_timestamp or "" for pod in pods), default=""),
        priority=priority(first),
        queue=queue,
        queued_since=since,
        position=positions.get(id(first), 0),
    )


# -- the page


async def page(asked: Asked) -> Page:
    model = await asked.cluster.ask(pending)
    if "pods" in model.unread:
        shown = unread("pods", model.unread["pods"])
    elif not model.pods:
        shown = tag("p", "No pod is pending.", class_="summary")
    else:
        blind = "nodes" in model.unread
        judged = "in the scheduler's own words, for you may not read nodes" if blind else "judged as things are now"
        pods = "1 pod waits" if model.pods == 1 else f"{model.pods:,} pods wait"
        reasons = "one reason" if len(model.reasons) == 1 else f"{len(model.reasons):,} reasons"
        told = f"{pods} for a node, for {reasons}, {judged}."
        shown = together(soft(told), *(_reason(each, asked, is_blind=blind) for each in model.reasons))
    body = tag("div", shown, id="reasons", data_live="")
    return Page("Why are pods pending?", body, model, "pending")


async def helps(asked: Asked) -> Fragment:
    """`/pending/help/NAMESPACE/NAME`: what would help a pod, for a card of the page."""
    namespace, name = asked.path
    found = await asked.cluster.ask(lambda standing: standing.explain("pod", namespace, name))
    if not found.total_nodes:
        return Fragment(explained.summary(found), found)
    body = together(
        explained.refusals(found, asked.links),
        explained.preemption(found, asked.links),
        tag("h3", "What would help") if found.suggestions else "",
        explained.suggestions(found, asked.links),
    )
    return Fragment(body, found)


def _reason(reason: Reason, asked: Asked, *, is_blind: bool) -> Markup:
    links, shown = asked.links, reason.waiting[:_SHOWN]
    rows = [
        (
            f"{each.pods:,}",
            pod_link(links, each.example) if not each.owner else _of_owner(each, asked),
            tag("time", each.since, datetime=each.since) if each.since else "-",
            _queue(each),
            f"{each.position:,}" if each.position else "-",
        )
        for each in shown
    ]
    rest = soft(f"and {len(reason.waiting) - _SHOWN:,} more") if len(reason.waiting) > _SHOWN else ""
    head = ("Pods", "Of", "Waiting since", "In the queue", "Turn")
    wakes = soft("They are tried again when ", "; or ".join(reason.wakes), ".") if reason.wakes else ""
    told = f"{reason.pods:,} pod{'s' if reason.pods != 1 else ''}"
    helped = [] if is_blind or reason.message == _FREE else shown
    return tag(
        "section",
        tag("h2", badge(told, "bad"), " ", reason.message),
        table(head, rows, "Who waits"),
        rest,
        wakes,
        *(_help(each, asked, is_first=each is shown[0]) for each in helped),
        class_="card reason",
    )


def _help(each: Waiting, asked: Asked, *, is_first: bool) -> Markup:
    """What would help, looked for as soon as somebody sees it."""
    namespace, _, name = each.example.partition("/")
    source = asked.links.to("pending", "help", namespace, name)
    told = tag("div", soft("Looking for what would help …"), data_src=source)
    return tag("details", tag("summary", f"Why not, and what would help {each.owner or each.example}"), told,
               open="" if is_first else None)  # fmt: skip


def _of_owner(each: Waiting, asked: Asked) -> Markup:
    return together(each.owner, tag("br"), link(asked.links.pod(each.example), f"as {each.example}"))


def _queue(each: Waiting) -> Markup:
    since = together(" since ", tag("time", each.queued_since, datetime=each.queued_since)) if each.queued_since else ""
    rank = f", priority {each.priority}" if each.priority else ""
    return together(each.queue, since, rank)
