"""What the server would answer, by version and gates, with the line of the field."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.advisor.lint import Finding, Linter, Settings, server
from mooring.api import codec
from mooring.base import component

pytestmark = pytest.mark.req("S.5")

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: web, image: web}]
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web}]
"""
VOLUME = """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: /data}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - {key: kernel, operator: SemverGt, values: ["5.4"]}
"""
DEVICE_CLASS = "apiVersion: resource.k8s.io/{}\nkind: DeviceClass\nmetadata: {{name: gpu}}\n"
GT = '  tolerations:\n  - {key: sla, operator: Gt, value: "950"}\n'


def lint(text: str, gates: str = "", config: dict[str, bool] | None = None, **versions: str) -> list[Finding]:
    resolved = component.resolve(gates=gates, **versions)  # type: ignore[arg-type] # texts by keyword
    return Linter(Settings(resolved, config or {})).lint("f.yaml", text).findings


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    findings: tuple[str, ...]
    """The rule, line and field of each."""
    versions: dict[str, Any] = field(default_factory=dict)


CASES = (
    Case("a good pod", POD, ()),
    Case("a good deployment", DEPLOYMENT, ()),
    Case("nothing", "", ()),
    Case("no mapping", "- 1", ("M003 1 ",)),
    Case("no apiVersion", "kind: Pod", ("M003 1 apiVersion",)),
    Case("no kind", "a: 1\napiVersion: v1", ("M003 1 kind",)),
    Case("a kind that is no text", "apiVersion: v1\nkind: [Pod]", ("M003 2 kind",)),
    Case("neither apiVersion nor kind", "replicas: 3", ("M006 1 ",)),
    Case("a custom resource", "apiVersion: example.com/v1\nkind: Widget", ("M004 1 ",)),
    Case(
        "a kind of Kubernetes that Mooring lacks",
        "apiVersion: internal.apiserver.k8s.io/v1alpha1\nkind: StorageVersion",
        ("M004 1 ",),
    ),
    Case("an API that was removed long ago", "apiVersion: batch/v1beta1\nkind: CronJob", ("M005 1 apiVersion",)),
    Case("a version that never was", "apiVersion: apps/v7\nkind: Deployment", ("M005 1 apiVersion",)),
    Case("an API that is not there yet", DEVICE_CLASS.format("v1"), ("M005 1 apiVersion",), {"emulation": "1.33"}),
    Case("an API that is there", DEVICE_CLASS.format("v1"), (), {"emulation": "1.34"}),
    Case("a beta API that is off", DEVICE_CLASS.format("v1beta1"), ("M005 1 apiVersion",), {"emulation": "1.33"}),
    Case(
        "a beta API that is switched on",
        DEVICE_CLASS.format("v1beta1"),
        (),
        {"emulation": "1.33", "config": {"resource.k8s.io/v1beta1": True}},
    ),
    Case(
        "a deprecated API",
        DEVICE_CLASS.format("v1beta1"),
        ("M014 1 apiVersion",),
        {"emulation": "1.36", "config": {"resource.k8s.io/v1beta1": True}},
    ),
    Case(
        "an API that the next minor removes",
        DEVICE_CLASS.format("v1beta1"),
        ("M020 1 apiVersion",),
        {"config": {"resource.k8s.io/v1beta1": True}},
    ),
    Case(
        "an API of a kind that Mooring lacks, which the next minor removes",
        "apiVersion: coordination.k8s.io/v1alpha2\nkind: LeaseCandidate",
        ("M004 1 ", "M020 1 apiVersion"),
    ),
    Case("an unknown field", POD + "  tolerance: []\n", ("M010 6 spec.tolerance",)),
    Case("a field twice", POD + "  hostNetwork: true\n  hostNetwork: false\n", ("M010 7 spec.hostNetwork",)),
    Case("a wrong type", POD + "  priority: high\n", ("M010 6 spec.priority",)),
    Case(
        "an unknown field and an invalid one",
        POD + "  tolerance: []\n  restartPolicy: Sometimes\n",
        ("M010 6 spec.tolerance", "M011 7 spec.restartPolicy"),
    ),
    Case("a field that is missing", POD.replace("image: web", "tty: true"), ("M011 5 spec.containers[0].image",)),
    Case("a refusal as a whole", POD + "  priority: 7\n", ("M012 1 ",)),
    Case("a priority class that lint cannot know", POD + "  priorityClassName: gold\n  priority: 7\n", ()),
    Case(
        "a warning",
        POD.replace("image: web", "image: web, env: [{name: A}, {name: A}]"),
        ("M013 5 spec.containers[0].env[1]",),
    ),
    Case("a comparison in a toleration", POD + GT, ()),
    Case(
        "a gate that is off",
        POD + GT,
        ("M011 7 spec.tolerations[0].operator", "M021 7 spec.tolerations[0].operator"),
        {"emulation": "1.36"},
    ),
    Case(
        "a gate that is switched off, in a template",
        DEPLOYMENT + "      tolerations: [{expression: \"taint.key == 'a'\"}]\n",
        (
            "M011 10 spec.template.spec.tolerations[0].expression",
            "M021 10 spec.template.spec.tolerations[0].expression",
        ),
        {"gates": "TaintTolerationNodeAffinityCEL=false"},
    ),
    Case(
        "a gate that is off, in a volume",
        VOLUME,
        (
            "M011 12 spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator",
            "M021 12 spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator",
        ),
        {"emulation": "1.35"},
    ),
    Case(
        "a mistake beside a gate that is off: only the gate's field may stay",
        POD + GT + "  restartPolicy: Sometimes\n",
        (
            "M011 7 spec.tolerations[0].operator",
            "M011 8 spec.restartPolicy",
            "M021 7 spec.tolerations[0].operator",
        ),
        {"emulation": "1.36"},
    ),
    Case(
        "a forced gate brings all of its feature, also below its minimum compatibility version",
        POD + "  tolerations: [{expression: \"taint.value == '' || semver.compare(taint.value, '>1')\"}]\n",
        (),
        {"min_compatibility": "1.34", "gates": "TaintTolerationNodeAffinityCEL=true"},
    ),
    Case(
        "an item of a list",
        "apiVersion: v1\nkind: List\nitems:\n"
        "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: x}\n  data: {a: 1}\n",
        ("M010 7 data.a",),
    ),
    Case("JSON", '{"apiVersion": "v1",\n"kind": "Namespace",\n"metadata": {\n"name": "A"}}', ("M011 4 metadata.name",)),
    Case("a mistake in one document", f"{POD}---\na: [\n---\n{POD}", ("M002 7 ",)),
    Case("a template", "{{ if }}\n", ("M002 1 ",)),
    Case(
        "advice only about what the server does not refuse",
        POD + "  tolerations:\n  - {expression: \"taint.effect == 'x'\"}\n",
        ("M011 7 spec.tolerations[0].expression", "M021 7 spec.tolerations[0].expression"),
        {"emulation": "1.36"},
    ),
    Case(
        "advice",
        POD + "  tolerations:\n  - {expression: \"taint.effect == 'x'\"}\n",
        ("M022 7 spec.tolerations[0].expression",),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_findings(case: Case) -> None:
    found = lint(case.text, **case.versions)
    assert tuple(sorted(f"{each.rule.id} {each.line} {each.field}" for each in found)) == case.findings


CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: c}
spec:
  schedule: "@daily"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: c}]
          tolerations: [{expression: "false"}]
"""
STATEFUL = "apiVersion: apps/v1\nkind: StatefulSet\n" + DEPLOYMENT.split("\n", 2)[2].replace(
    "selector:", "serviceName: web\n  selector:"
)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (CRON_JOB, "spec.jobTemplate.spec.template.spec"),
        (DEPLOYMENT + '      tolerations: [{expression: "false"}]\n', "spec.template.spec"),
        (STATEFUL + '      tolerations: [{expression: "false"}]\n', "spec.template.spec"),
        (POD + '  tolerations: [{expression: "false"}]\n', "spec"),
    ],
    ids=["CronJob", "Deployment", "StatefulSet", "Pod"],
)
def test_templates_get_advice_where_they_stand(text: str, path: str) -> None:
    assert [(each.rule.id, each.field) for each in lint(text)] == [("M022", f"{path}.tolerations[0].expression")]


def test_a_finding_names_the_object() -> None:
    assert [each.object for each in lint(DEPLOYMENT + "      priority: high\n")] == ["Deployment shop/web"]


def test_rules_can_be_switched_off_and_warnings_made_errors() -> None:
    text = POD + "  tolerations: [{expression: \"'a' == taint.effect\"}]\n"
    asked = component.resolve()
    assert Linter(Settings(asked, disabled=frozenset({"M022"}))).lint("f", text).findings == []
    assert str(Linter(Settings(asked, strict=True)).lint("f", text).findings[0].severity) == "error"


def test_equal_documents_have_equal_findings_at_their_own_lines() -> None:
    text = POD + "  tolerance: []\n"
    assert [each.line for each in lint(f"{text}---\n{text}---\n{text}")] == [6, 13, 20]


def test_a_failure_of_mooring_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(server, "check_create", fail)
    found = lint(POD)
    assert [each.rule.id for each in found] == ["M009"]
    assert "KeyError" in found[0].message


def test_a_list_may_be_larger_than_a_request_but_an_object_may_not() -> None:
    def config_map(size: int) -> dict[str, object]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "x" * size}}

    large = {"apiVersion": "v1", "kind": "List", "items": [config_map(900_000)] * 4 + [config_map(4_000_000)]}
    found = lint(codec.encode(large).decode())
    assert [(each.rule.id, each.message[:24]) for each in found] == [("M012", "Request entity too large")]


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["v1", "Pod", "List", "Gt", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["apiVersion", "kind", "metadata", "spec", "items", "containers", "tolerations", "affinity"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(TREES, st.sampled_from(["Pod", "Deployment", "CronJob", "PersistentVolume", "List"]))
def test_no_tree_makes_lint_fail(tree: object, kind: str) -> None:
    version = {"Deployment": "apps/v1", "CronJob": "batch/v1"}.get(kind, "v1")
    for document in (tree, {"apiVersion": version, "kind": kind, "spec": tree, "metadata": tree, "items": tree}):
        found = lint(codec.encode(document).decode())
        assert "M009" not in {each.rule.id for each in found}, found


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40) | st.text(alphabet="{}[]:-,&*!|>'\"%@`#?~ \n\tab01", max_size=40))
def test_no_text_makes_lint_fail(text: str) -> None:
    assert "M009" not in {each.rule.id for each in lint(text)}
