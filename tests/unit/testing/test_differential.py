"""The comparison with a real Kubernetes, as far as it works without one."""

import os
import signal
from typing import Any

import pytest

from differential.__main__ import main
from differential.accepted import Report, explanation
from differential.api import Step, Target, _json_patch, _merge_patch, _Run
from differential.clusters import scenario
from differential.connection import Response
from differential.mutation import REMOVED, Mutation
from differential.responses import differences, shape
from differential.scheduling import Attempts, key_of

OBJECT = {"kind": "Pod", "metadata": {"name": "a", "uid": "1", "resourceVersion": "7"}, "spec": {"x": [1, 2]}}


def status(*causes: tuple[str, str, str]) -> dict[str, Any]:
    found = [{"reason": reason, "field": field, "message": message} for reason, field, message in causes]
    return {"kind": "Status", "reason": "Invalid", "details": {"causes": found}}


def changed(**fields: Any) -> dict[str, Any]:
    return {**OBJECT, **fields}


def owned(*elements: str) -> dict[str, Any]:
    entry = {"manager": "me", "fieldsV1": {"f:spec": {element: {} for element in elements}}}
    return changed(metadata={"name": "a", "managedFields": [entry]})


@pytest.mark.parametrize(
    ("real", "ours", "found"),
    [
        (Response(201, OBJECT), Response(201, changed(metadata={"name": "a", "uid": "2", "resourceVersion": "9"})), []),
        (Response(201, OBJECT), Response(422, status()), ["code 201 (), ours 422 ()"]),
        (Response(201, OBJECT), Response(201, changed(spec={"x": [1, 3]})), ["at spec.x.1: 2, ours 3"]),
        (Response(200, OBJECT, ("old",)), Response(200, OBJECT), ["warnings ['old'], ours []"]),
        (
            Response(422, status(("Invalid", "spec.x", "Invalid value: 1: no"))),
            Response(422, status()),
            ["missing cause Invalid spec.x Invalid value: 1: no (ours instead: [])"],
        ),
        (
            Response(422, status(("Invalid", "spec.x", "this"))),
            Response(422, status(("Invalid", "spec.x", "that"))),
            ["worded cause Invalid spec.x this (ours instead: [('Invalid', 'spec.x', 'that')])"],
        ),
        (
            Response(200, owned("f:x", "f:sent-empty")),
            Response(200, owned("f:x")),
            [],
        ),
        (
            Response(200, owned("f:x")),
            Response(200, owned()),
            ["at metadata.managedFields.0.fieldsV1.f:spec.f:x: {}, ours null"],
        ),
        (
            Response(400, {"kind": "Status", "message": "Pod in version v1 cannot be handled as a Pod: json: x"}),
            Response(400, {"kind": "Status", "message": "Pod in version v1 cannot be handled as a Pod: spec: y"}),
            [],
        ),
    ],
    ids=["generated values", "code", "value", "warning", "cause", "wording", "empty", "owner", "decoding error"],
)
def test_responses_are_compared_except_for_generated_values(real: Response, ours: Response, found: list[str]) -> None:
    assert list(differences(real, ours)) == found


def test_differences_of_one_origin_have_one_shape() -> None:
    one = shape('missing cause Invalid spec.template.spec.containers[0].name Invalid value: "a" (ours instead: [])')
    assert one == shape('missing cause Invalid spec.containers[12].name Invalid value: "b" (ours instead: [1])')


CHANGES = (
    Mutation(("spec", "x", 0), 5),
    Mutation(("metadata", "labels"), {"a/b": "c"}),
    Mutation(("spec", "y"), REMOVED),
)


def test_changes_become_a_json_patch() -> None:
    assert _json_patch(Step("json-patch", CHANGES), OBJECT) == [
        {"op": "add", "path": "/spec/x/0", "value": 5},
        {"op": "add", "path": "/metadata/labels", "value": {"a/b": "c"}},
        {"op": "remove", "path": "/spec/y"},
    ]


def test_changes_become_a_merge_patch_with_whole_lists() -> None:
    patch = _merge_patch(Step("merge-patch", CHANGES), OBJECT)
    assert patch == {"spec": {"x": [5, 2], "y": None}, "metadata": {"labels": {"a/b": "c"}}}


class Scripted:
    """A server that answers what it is given, in order."""

    def __init__(self, *answers: Response) -> None:
        self._answers = list(answers)

    def request(self, *_: Any) -> Response:
        return self._answers.pop(0) if self._answers else Response(404, {})


def test_the_life_of_an_object_ends_at_the_first_difference() -> None:
    target = Target("/api/v1/pods", {"apiVersion": "v1", "kind": "Pod"}, {}, has_status=True)
    real: Any = Scripted(Response(201, OBJECT), Response(200, OBJECT))
    ours: Any = Scripted(Response(201, OBJECT), Response(404, {"message": "gone"}))
    run = _Run(real, ours, target, "a")
    assert run.step(Step("create")) is None
    assert run.has_object()
    found = run.step(Step("get"))
    assert found is not None
    assert found.key == ("Pod get", "code N (), ours N (gone)")


def test_a_seed_gives_the_same_cluster_again() -> None:
    assert scenario(7) == scenario(7)
    assert scenario(7) != scenario(8)


def test_attempts_are_read_from_the_log_in_the_order_in_which_they_began() -> None:
    one, two = {"namespace": "n", "name": "a"}, {"namespace": "n", "name": "b"}
    attempts = Attempts()
    for line in (
        {"msg": "Attempting to schedule pod", "pod": one},
        {"msg": "Plugin scored node for pod", "pod": one, "node": "x", "plugin": "P", "score": 3},
        {"msg": "Attempting to schedule pod", "pod": two},
        {"msg": "Unable to schedule pod; no fit; waiting", "pod": two, "err": "0/1 nodes are available"},
        {
            "msg": "Pod moved to an internal scheduling queue",
            "pod": two,
            "event": "ScheduleAttemptFailure",
            "unschedulable plugins": {"P": {}},
        },
        {"msg": "Successfully bound pod to node", "pod": one, "node": "x", "feasibleNodes": 2},
    ):
        assert attempts.read(line)
    assert attempts.is_idle
    first, second = attempts.all
    assert (first.pod, first.node, first.feasible, first.scores) == ("n/a", "x", 2, {"x": {"P": 3}})
    assert (second.pod, second.message, second.plugins) == ("n/b", "0/1 nodes are available", frozenset({"P"}))


def test_a_run_fails_for_a_difference_that_is_not_explained(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("requests")
    explained = ("CSINode create", "at spec.drivers: null, ours []")
    assert explanation(explained) is not None
    report.add(1, explained, "…")
    assert report.print() == 0
    report.add(2, key_of("operation 1, pod ns1/p1: on n1, ours infeasible there: no"), "…")
    assert report.print() == 1
    assert "unexplained 1 times: scheduling: on X, ours infeasible there: no" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["api"], "name a folder with binaries of Kubernetes"),
        (["api", "--real", "/none", "--seeds", "0"], "argument --seeds: must be at least 1"),
        (["api", "--real", "/none"], "cannot start etcd: "),
        (["api", "--kubeconfig-real", "/none"], "/none: not a kubeconfig: "),
        (["scheduling", "--kubeconfig-real", os.devnull, "--real", "/none"], "not a kubeconfig: "),
    ],
)
def test_an_unusable_real_control_plane_is_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MOORING_REAL", raising=False)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the command ends with an exception on SIGTERM
    assert _exit_code(arguments) == 2
    assert message in capsys.readouterr().err


def _exit_code(arguments: list[str]) -> Any:
    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code
