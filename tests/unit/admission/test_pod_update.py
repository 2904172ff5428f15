"""What may change in a pod: images, deadlines, more tolerations; gates go; gated pods get narrower."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from admission_pods import (
    NOW,
    REQUIRED,
    Tree,
    created,
    pod_of,
    relabelled,
    request,
    required,
    requirement,
    update_problems,
)
from mooring.admission.pipeline import admit_update
from mooring.admission.pod.binding import bind
from mooring.api import errors
from mooring.api.base import copy_of
from mooring.api.core_v1 import (
    Affinity,
    Binding,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    EphemeralContainer,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodCondition,
    PodSchedulingGate,
    Toleration,
)
from mooring.api.quantity import Quantity

ONLY = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


@dataclass(frozen=True)
class Case:
    name: str
    change: Callable[[Pod], Any]
    problem: str = ""
    spec: Tree | None = None


def put(path: str, value: Any) -> Callable[[Pod], None]:
    """Return a change that sets an attribute below the pod."""

    def change(pod: Pod) -> None:
        *steps, last = path.split(".")
        target: Any = pod
        for step in steps:
            target = target[int(step)] if step.isdigit() else getattr(target, step)
        setattr(target, last, value)

    return change


GATED: Tree = {"schedulingGates": [{"name": "a"}, {"name": "b"}]}
TOLERATION = Toleration(key="k", operator="Exists")
CASES = [
    Case("labels", put("metadata.labels", {"a": "b"})),
    Case("an image", put("spec.containers.0.image", "j")),
    Case("an empty image", put("spec.containers.0.image", ""), "spec.containers[0].image: Required value"),
    Case(
        "one more container",
        lambda pod: pod.spec.containers.append(copy_of(pod.spec.containers[0])),
        "spec.containers: Forbidden: pod updates may not add or remove containers",
    ),
    Case("a deadline", put("spec.active_deadline_seconds", 10)),
    Case("an earlier deadline", put("spec.active_deadline_seconds", 10), spec={"activeDeadlineSeconds": 20}),
    Case(
        "a later deadline",
        put("spec.active_deadline_seconds", 30),
        "spec.activeDeadlineSeconds: Invalid value: 30: must be less than or equal to previous value",
        {"activeDeadlineSeconds": 20},
    ),
    Case(
        "no deadline any more",
        put("spec.active_deadline_seconds", None),
        "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
        {"activeDeadlineSeconds": 20},
    ),
    Case("one more toleration", lambda pod: pod.spec.tolerations.insert(0, TOLERATION)),
    Case("other toleration seconds", put("spec.tolerations.0.toleration_seconds", 1)),
    Case(
        "a changed toleration",
        put("spec.tolerations.0.effect", ""),
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
    ),
    Case(
        "a negative grace period",
        put("spec.termination_grace_period_seconds", 1),
        spec={"terminationGracePeriodSeconds": -5},
    ),
    Case("another grace period", put("spec.termination_grace_period_seconds", 1), ONLY),
    Case("a node", put("spec.node_name", "n"), ONLY),
    Case("a node selector", put("spec.node_selector", {"a": "b"}), ONLY),
    Case("affinity", put("spec.affinity", Affinity(node_affinity=NodeAffinity())), ONLY),
    Case("one gate less", put("spec.scheduling_gates", [PodSchedulingGate(name="b")]), spec=GATED),
    Case("no gates any more", put("spec.scheduling_gates", []), spec=GATED),
    Case(
        "a new gate",
        lambda pod: pod.spec.scheduling_gates.append(PodSchedulingGate(name="c")),
        "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'c'",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pod_changes_only_where_it_may(case: Case) -> None:
    old = created(pod_of(case.spec))
    new = copy_of(old)
    case.change(new)
    problems = update_problems(new, old)
    if case.problem:
        assert any(problem.startswith(case.problem) for problem in problems), problems
    else:
        assert problems == []


def test_a_refused_change_shows_what_differs() -> None:
    old = created(pod_of())
    new = copy_of(old)
    new.spec.containers[0].command = ["sh"]
    new.spec.host_network = True
    [problem] = update_problems(new, old)
    assert problem.partition("\n")[2].splitlines() == ['+ containers[0].command: ["sh"]', "+ hostNetwork: true"]


# -- gated pods may be narrowed


EXISTS = NodeSelectorRequirement(key="more", operator="Exists")
NARROW = {**GATED, "nodeSelector": {"a": "b"}, **required(**requirement("In", "x"), matchCELExpressions=["true"])}


def term(pod: Pod) -> NodeSelectorTerm:
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.node_affinity is not None
    selector = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert selector is not None
    return selector.node_selector_terms[0]


def terms(pod: Pod, *wanted: NodeSelectorTerm) -> None:
    required_terms = NodeSelector(node_selector_terms=list(wanted))
    pod.spec.affinity = Affinity(
        node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required_terms)
    )


ADDITIONS = f"{TERMS}[0]: Invalid value: "
NARROWING = [
    Case("more of the node selector", lambda pod: pod.spec.node_selector.update({"c": "d"}), spec=NARROW),
    Case(
        "another node selector",
        put("spec.node_selector", {"a": "c"}),
        'spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed '
        "(no mutations or deletions)",
        NARROW,
    ),
    Case("one more requirement", lambda pod: term(pod).match_expressions.append(EXISTS), spec=NARROW),
    Case(
        "one more field",
        lambda pod: term(pod).match_fields.append(
            NodeSelectorRequirement(key="metadata.name", operator="In", values=["n"])
        ),
        spec=NARROW,
    ),
    Case("one more expression", lambda pod: term(pod).match_cel_expressions.append("'a' in node.labels"), spec=NARROW),
    Case("one expression before", lambda pod: term(pod).match_cel_expressions.insert(0, "false"), ADDITIONS, NARROW),
    Case("another expression", lambda pod: term(pod).match_cel_expressions.__setitem__(0, "false"), ADDITIONS, NARROW),
    Case("no expression any more", lambda pod: term(pod).match_cel_expressions.clear(), ADDITIONS, NARROW),
    Case("one requirement less", lambda pod: term(pod).match_expressions.clear(), ADDITIONS, NARROW),
    Case(
        "one more term",
        lambda pod: terms(pod, term(pod), NodeSelectorTerm(match_expressions=[EXISTS])),
        f"{TERMS}: Invalid value: ",
        NARROW,
    ),
    Case(
        "terms where there were none",
        lambda pod: terms(pod, NodeSelectorTerm(match_cel_expressions=["true"])),
        spec=GATED,
    ),
    Case(
        "an expression in an empty term, which matched nothing",
        lambda pod: term(pod).match_cel_expressions.append("true"),
        ADDITIONS,
        {**GATED, **required()},
    ),
    Case("no affinity any more", put("spec.affinity", None), f"{TERMS}: Invalid value: ", NARROW),
]


@pytest.mark.parametrize("case", NARROWING, ids=lambda case: case.name)
@pytest.mark.req("5500.11", "5721.6")
def test_a_gated_pod_may_only_get_narrower(case: Case) -> None:
    test_a_pod_changes_only_where_it_may(case)


# -- metadata


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put("metadata.uid", "other"), 'metadata.uid: Invalid value: "other": field is immutable'),
        (
            put("metadata.labels", {"a b": ""}),
            'metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters',
        ),
        (
            put("metadata.finalizers", ["mine"]),
            (
                'metadata.finalizers[0]: Invalid value: "mine": '
                "name is neither a standard finalizer name nor is it fully qualified"
            ),
        ),
    ],
    ids=["uid", "labels", "finalizers"],
)
def test_metadata_has_its_rules(change: Callable[[Pod], None], problem: str) -> None:
    old = created(pod_of())
    new = copy_of(old)
    change(new)
    assert any(found.startswith(problem) for found in update_problems(new, old))


def test_what_an_update_leaves_out_is_kept() -> None:
    old = created(pod_of())
    stored = admit_update(pod_of(), old, request()).object
    assert stored.metadata.uid == old.metadata.uid
    assert stored.metadata.creation_timestamp == old.metadata.creation_timestamp
    assert (stored.status, stored.spec) == (old.status, old.spec)


def test_the_generation_counts_changes_of_the_spec() -> None:
    old = created(pod_of())
    assert admit_update(relabelled(old), old, request()).object.metadata.generation == 1
    new = copy_of(old)
    new.spec.containers[0].image = "j"
    assert admit_update(new, old, request()).object.metadata.generation == 2


# -- subresources


def test_the_status_alone_changes_through_its_subresource() -> None:
    old = created(pod_of())
    new = copy_of(old)
    new.spec.containers[0].image = "j"
    new.status.phase = "Running"
    stored = admit_update(new, old, request(), "status").object
    assert (stored.spec, stored.status.phase) == (old.spec, "Running")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put("status.qos_class", "Guaranteed"), 'status.qosClass: Invalid value: "Guaranteed": field is immutable'),
        (
            put("status.conditions", [PodCondition(type="not a key", status="True")]),
            'metadata.conditions[0].Type: Invalid value: "not a key"',
        ),
        (put("status.nominated_node_name", "Bad_Name"), 'status.nominatedNodeName: Invalid value: "Bad_Name"'),
    ],
    ids=["quality of service", "a condition's type", "a nominated node"],
)
def test_the_status_has_its_rules(change: Callable[[Pod], None], problem: str) -> None:
    old = created(pod_of())
    new = copy_of(old)
    change(new)
    assert update_problems(new, old, subresource="status")[0].startswith(problem)


def test_a_container_that_has_ended_does_not_start_again() -> None:
    old = created(pod_of({"restartPolicy": "Never"}))
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=0))
    old.status.container_statuses = [ContainerStatus(name="c", state=ended)]
    new = copy_of(old)
    new.status.container_statuses[0].state = ContainerState()
    assert update_problems(new, old, subresource="status") == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]


def test_ephemeral_containers_are_added_through_their_subresource_and_stay() -> None:
    old = created(pod_of())
    new = copy_of(old)
    new.spec.ephemeral_containers = [EphemeralContainer(name="debug", image="tools")]
    assert update_problems(new, old)[0].startswith(ONLY)
    stored = admit_update(copy_of(new), old, request(), "ephemeralcontainers").object
    assert [container.image_pull_policy for container in stored.spec.ephemeral_containers] == ["Always"]
    stored.metadata.resource_version = "2"
    gone = copy_of(stored)
    gone.spec.ephemeral_containers = []
    assert update_problems(gone, stored, subresource="ephemeralcontainers") == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be removed\n'
    ]


# -- resize


BURSTABLE: Tree = {
    "containers": [
        {
            "name": "c",
            "image": "i",
            "resources": {"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}},
        }
    ],
    "initContainers": [{"name": "once", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
}


def resized(container: str, **requests: str) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        found = next(item for item in (*pod.spec.containers, *pod.spec.init_containers) if item.name == container)
        found.resources.requests.update({name: Quantity.parse(value) for name, value in requests.items()})

    return change


def limited(pod: Pod) -> None:
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        container.resources.limits = {"cpu": Quantity.parse("1"), "memory": Quantity.parse("1Gi")}
        container.resources.requests = dict(container.resources.limits)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (resized("c", cpu="2", memory="2Gi"), ""),
        (put("spec.containers.0.image", "ignored"), ""),
        (resized("c", **{"ephemeral-storage": "2Gi"}), "spec: Forbidden: only cpu and memory resources are mutable"),
        (resized("once", cpu="2"), "spec: Forbidden: resources for non-sidecar init containers are immutable"),
        (
            lambda pod: pod.spec.containers[0].resources.requests.pop("cpu"),
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
        ),
        (limited, 'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing'),
    ],
    ids=[
        "cpu and memory",
        "nothing else changes",
        "other resources",
        "an init container",
        "removal",
        "another quality",
    ],
)
def test_a_pod_can_be_resized_in_cpu_and_memory(change: Callable[[Pod], Any], problem: str) -> None:
    old = created(pod_of(BURSTABLE))
    new = copy_of(old)
    change(new)
    problems = update_problems(new, old, subresource="resize")
    assert (problem in problems) if problem else problems == []


# -- binding


def binding(node: str = "n1", **target: str) -> Binding:
    made = Binding()
    made.metadata.name = "p"
    made.target.name = node
    made.target.kind = target.get("kind", "Node")
    return made


def test_binding_gives_a_pod_its_node() -> None:
    pod = created(pod_of())
    pod.status.nominated_node_name = "n1"
    bound = bind(pod, binding(), NOW)
    assert (bound.spec.node_name, bound.status.nominated_node_name) == ("n1", "")
    assert [(item.type, item.status) for item in bound.status.conditions] == [("PodScheduled", "True")]
    assert pod.spec.node_name == ""


@pytest.mark.parametrize(
    ("change", "target", "problem"),
    [
        (put("spec.node_name", "n0"), binding(), 'pod p is already assigned to node "n0"'),
        (
            put("metadata.deletion_timestamp", "2026-01-01T00:00:00Z"),
            binding(),
            "pod p is being deleted, cannot be assigned to a host",
        ),
        (put("spec.scheduling_gates", [PodSchedulingGate(name="a")]), binding(), "has non-empty .spec.schedulingGates"),
        (put("metadata.uid", "u"), binding(kind="Pod"), 'target.kind: Unsupported value: "Pod"'),
        (put("metadata.uid", "u"), binding(""), "target.name: Required value"),
    ],
    ids=["assigned already", "being deleted", "gated", "not to a node", "to nowhere"],
)
def test_a_pod_that_cannot_be_bound_is_refused(change: Callable[[Pod], None], target: Binding, problem: str) -> None:
    pod = created(pod_of())
    change(pod)
    with pytest.raises(errors.StatusError) as refusal:
        bind(pod, target, NOW)
    assert problem in refusal.value.status.message
