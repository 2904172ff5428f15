"""What becomes of objects between two releases of Kubernetes, and how it is reported."""

import json
import shlex
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner

from mooring.advisor import releases
from mooring.advisor.releases import Crossing, CrossingError, Effect, clients
from mooring.advisor.releases.results import RULES
from mooring.advisor.snapshot import Snapshot
from mooring.cli.main import mooring
from mooring.cli.support.cluster_source import ClusterSource
from release_objects import POD_SPEC, Tree, deployment, found, obj, snapshot, with_rule

ROLE = "rbac.authorization.k8s.io/v1"
RESIZE = [{"apiGroups": [""], "resources": ["pods/resize", "pods"], "verbs": ["patch"]}]
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
WEBHOOK: Tree = {
    "name": "w",
    "clientConfig": {"service": {"name": "s", "namespace": "n"}},
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
}
WEBHOOKS = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
Case = tuple[str, str, Tree, Effect | None, str]


def rolling(most: int) -> Tree:
    """Return a StatefulSet that kubectl created, which then owns what the server has filled in, too."""
    owned: Tree = {
        "f:spec": {"f:updateStrategy": {"f:rollingUpdate": {".": {}, "f:maxUnavailable": {}, "f:partition": {}}}}
    }
    return obj(
        "apps/v1",
        "StatefulSet",
        spec={"updateStrategy": {"rollingUpdate": {"maxUnavailable": most, "partition": 0}}},
        metadata={"managedFields": [{"manager": "kubectl-create", "operation": "Update", "fieldsV1": owned}]},
    )


CASES: dict[str, Case] = {
    "a template's field that the other side does not know is lost, and pods stay": (
        "1.34", "1.31", deployment(hostnameOverride="x"), Effect.FIELD_LOST, "new pods are made without it",
    ),
    "a pod with such a field runs on": (
        "1.34", "1.31", obj("v1", "Pod", spec={**POD_SPEC, "hostnameOverride": "x"}), Effect.FIELD_LOST, "runs on",
    ),
    "a manifest with such a field is refused by kubectl": (
        "1.34", "1.31", obj("v1", "Pod", stored=False, spec={**POD_SPEC, "hostnameOverride": "x"}),
        Effect.FIELD_LOST, "kubectl apply refuses it",
    ),
    "a gate that goes off leaves the object, but not what is made from it": (
        "1.35", "1.34", deployment(hostnameOverride="x"), Effect.FIELD_OFF, "new pods are made without it",
    ),
    "what is behind a gate that is off on both sides needs it on both": (
        "1.37", "1.36", deployment(containers=[{"name": "a", "image": "a", "lifecycle": {"stopSignal": "SIGINT"}}]),
        Effect.NEEDS_GATE, "ContainerStopSignals is off by default in 1.37 and 1.36",
    ),
    "a value that the other side does not know stops new pods": (
        "1.35", "1.34", deployment(tolerations=[{"key": "a", "operator": "Gt", "value": "1"}]),
        Effect.VALUE_REFUSED, "new pods are refused and the controller tries again",
    ),
    "of a DaemonSet it is not said that pods are refused again and again": (
        "1.35", "1.34",
        obj("apps/v1", "DaemonSet", spec={"template": {"spec": {"tolerations": [{"operator": "Gt"}]}}}),
        Effect.VALUE_REFUSED, "no pods are made any more",
    ),
    "what only Mooring has is said to need it": (
        "1.36", "1.37", deployment(tolerations=[{"key": "a", "operator": "SemverGt", "value": "1"}]),
        Effect.NEEDS_MOORING, "or the bridge",
    ),
    "what the server filled in is lost without harm": (
        "1.28", "1.27",
        obj("batch/v1", "Job", spec={"podReplacementPolicy": "Failed", "template": {}}, metadata={
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:template": {}}}}],
        }),
        Effect.HARMLESS, "set it by default",
    ),
    "what somebody owns is lost with harm": (
        "1.29", "1.27",
        obj("batch/v1", "Job", spec={"podReplacementPolicy": "Failed", "template": {}}, metadata={
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:podReplacementPolicy": {}}}}],
        }),
        Effect.FIELD_LOST, "loses it for good",
    ),
    "what the server would have filled in is lost without harm, whoever it says wrote it": (
        "1.37", "1.36", rolling(1), Effect.HARMLESS, "what the server fills in",
    ),
    "anything else in its place is lost with harm": (
        "1.37", "1.36", rolling(2), Effect.FIELD_OFF, "nothing acts on it",
    ),
    "what the server fills in beside another field is lost without harm": (
        "1.29", "1.28",
        obj("batch/v1", "Job", spec={"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "Failed"}),
        Effect.HARMLESS, "what the server fills in",
    ),
    "what it fills in without that other field was asked for": (
        "1.29", "1.28",
        obj("batch/v1", "Job", spec={"podReplacementPolicy": "Failed"}),
        Effect.FIELD_OFF, "nothing acts on it",
    ),
    "a field that says no, as it would without it, is lost without harm": (
        "1.37", "1.34",
        obj("storage.k8s.io/v1", "CSIDriver", spec={"preventPodSchedulingIfMissing": False}),
        Effect.HARMLESS, "fills in",
    ),
    "a manifest is refused by kubectl whatever an unknown field says": (
        "1.37", "1.34",
        obj("storage.k8s.io/v1", "CSIDriver", stored=False, spec={"preventPodSchedulingIfMissing": False}),
        Effect.FIELD_LOST, "kubectl apply refuses it",
    ),
    "from a Job that has ended nothing is made": (
        "1.34", "1.33",
        obj("batch/v1", "Job", spec={"template": {"spec": {"resources": {"limits": {"cpu": "1"}}}}},
            status={"conditions": [{"type": "Complete", "status": "True"}]}),
        Effect.HARMLESS, "nothing is made from the object any more",
    ),
    "a status is not spoken of": ("1.34", "1.32", obj("v1", "Pod", status={"observedGeneration": 1}), None, ""),
    "a manifest in a version that is gone names the one to use": (
        "1.31", "1.32", obj("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", stored=False),
        Effect.NOT_SERVED, "was removed in 1.32; use flowcontrol.apiserver.k8s.io/v1",
    ),
    "a version that went before all that the table knows is gone as well": (
        "1.28", "1.29", obj("policy/v1beta1", "PodDisruptionBudget", stored=False),
        Effect.NOT_SERVED, "removed in 1.25",
    ),
    "of a manifest in a version that the release before lacks, fields are not told one by one": (
        "1.29", "1.37",
        obj("resource.k8s.io/v1", "DeviceClass", stored=False, spec={"extendedResourceName": "example.com/gpu"}),
        None, "",
    ),
    "a version that only the release aimed at can be told to serve is told so": (
        "1.37", "1.36", obj("scheduling.k8s.io/v1alpha2", "Workload", stored=False), Effect.NEEDS_GATE,
        "=true in 1.36",
    ),
    "a version that begins to be deprecated is told": (
        "1.28", "1.29", obj("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", stored=False),
        Effect.DEPRECATED, "is deprecated; use flowcontrol.apiserver.k8s.io/v1",
    ),
    "an object of a kind that is not served there cannot be reached": (
        "1.37", "1.36", obj("certificates.k8s.io/v1", "ClusterTrustBundle"), Effect.UNREACHABLE, "stays in etcd",
    ),
    "what the server keeps for itself nobody has to delete": (
        "1.33", "1.32",
        obj("networking.k8s.io/v1", "IPAddress", metadata={
            "name": "10.0.0.1", "labels": {"ipaddress.kubernetes.io/managed-by": "ipallocator"}}),
        Effect.HARMLESS, "the server made it for itself",
    ),
    "a network that somebody added is not the server's own": (
        "1.33", "1.32", obj("networking.k8s.io/v1", "ServiceCIDR"), Effect.UNREACHABLE, "delete it before",
    ),
    "what is stored in a version that the older release lacks cannot be read": (
        "1.30", "1.28", obj("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"),
        Effect.UNREADABLE, "lists of flowschemas fail",
    ),
    "the version of an applied manifest will be applied again": (
        "1.31", "1.32",
        obj("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", metadata={
            "annotations": {APPLIED: '{"apiVersion":"flowcontrol.apiserver.k8s.io/v1beta3"}'}}),
        Effect.CLIENT, "kubectl apply writes it as flowcontrol.apiserver.k8s.io/v1beta3",
    ),
    "a manager that writes a version which goes away is named": (
        "1.31", "1.32",
        obj("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", metadata={
            "managedFields": [{"manager": "argocd", "apiVersion": "flowcontrol.apiserver.k8s.io/v1beta3"}]}),
        Effect.CLIENT, "argocd writes it",
    ),
    "a rule that names a subresource which is not there gives no right": (
        "1.32", "1.31", obj(ROLE, "ClusterRole", rules=RESIZE), Effect.RIGHTS_TO_NOTHING, "1.31 has no pods/resize",
    ),
    "a role that the server keeps itself is passed over": (
        "1.32", "1.31",
        obj(ROLE, "ClusterRole", rules=RESIZE, metadata={"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}),
        None, "",
    ),
    "a rule about a custom kind is nobody's business": (
        "1.32", "1.31",
        obj(ROLE, "Role", rules=[{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}]), None, "",
    ),
    "a definition's rule with a library that is not there stops writes": (
        "1.31", "1.29", with_rule("isIP(self)"), Effect.RULE_REFUSED, "every write of its objects is refused",
    ),
    "a definition's rule that both understand is fine": ("1.37", "1.30", with_rule("isIP(self)"), None, ""),
    "versions in which objects may still be stored are told": (
        "1.36", "1.37",
        obj("apiextensions.k8s.io/v1", "CustomResourceDefinition",
            spec={"versions": [{"name": "v1", "storage": True}]}, status={"storedVersions": ["v1beta1", "v1"]}),
        Effect.MIGRATE_FIRST, "it has no version v1beta1 any more",
    ),
    "a webhook that must answer for every pod can stop the change": (
        "1.36", "1.37", obj(*WEBHOOKS, webhooks=[WEBHOOK]), Effect.IN_THE_WAY, "nothing starts",
    ),
    "one that spares namespaces cannot": (
        "1.36", "1.37",
        obj(*WEBHOOKS, webhooks=[{**WEBHOOK, "namespaceSelector": {"matchLabels": {"a": "b"}}}]), None, "",
    ),
    "an APIService that is not available is in the way": (
        "1.36", "1.37",
        obj("apiregistration.k8s.io/v1", "APIService",
            status={"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]}),
        Effect.IN_THE_WAY, "not available (MissingEndpoints)",
    ),
    "a kubelet newer than the API server is too new": (
        "1.36", "1.35", obj("v1", "Node", status={"nodeInfo": {"kubeletVersion": "v1.36.2-eks"}}),
        Effect.SKEW, "must not be newer",
    ),
    "a kubelet four releases behind is too old": (
        "1.36", "1.37", obj("v1", "Node", status={"nodeInfo": {"kubeletVersion": "v1.33.0"}}),
        Effect.SKEW, "from 1.34 on",
    ),
    "three releases behind will do": (
        "1.36", "1.37", obj("v1", "Node", status={"nodeInfo": {"kubeletVersion": "v1.34.9+k3s1"}}), None, "",
    ),
    "an object of somebody else's kind is passed over": ("1.36", "1.37", obj("example.com/v1", "Widget"), None, ""),
    "an object with nonsense in it is passed over": (
        "1.36", "1.34", obj("v1", "Pod", spec={"volumes": 7, "containers": [None, "x", {"env": "y"}]}), None, "",
    ),
}  # fmt: skip


@pytest.mark.req("U.2")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_findings(case: Case) -> None:
    start, end, tree, effect, words = case
    all_of_it = [each for each in found(start, end, tree) if effect is None or each.effect is effect]
    assert [each.effect for each in all_of_it] == ([] if effect is None else [effect])
    assert all(words in each.message for each in all_of_it)


@pytest.mark.req("U.2")
@pytest.mark.parametrize(
    ("start", "end", "why"),
    [("1.26", "1.30", "knows 1.27 to 1.37"), ("1.30", "1.38", "knows 1.27"), ("x", "1.30", "is not a version")],
)
def test_releases_that_the_history_does_not_know_are_refused(start: str, end: str, why: str) -> None:
    with pytest.raises(CrossingError, match=why):
        Crossing.between(start, end)


@pytest.mark.req("U.2")
def test_a_gate_that_is_set_by_hand_counts_on_both_sides() -> None:
    kept = Crossing.between("1.35", "1.34", {"HostnameOverride": True})
    tree = deployment(hostnameOverride="x")
    assert releases.audit(snapshot(tree), kept, plays=False).findings == []
    with pytest.raises(CrossingError, match="has a feature gate Nonsense"):
        Crossing.between("1.35", "1.34", {"Nonsense": True})


# -- clients


@pytest.mark.req("U.2")
def test_clients_in_an_audit_log_are_reported_once_each() -> None:
    uri = "/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas?limit=500"
    event = json.dumps({"userAgent": "operator/v0.1 (linux)", "requestURI": uri}).encode()
    old = json.dumps({"userAgent": "kubectl/v1.27.3 (linux/amd64) kubernetes/x", "requestURI": "/api/v1/pods"}).encode()
    new = json.dumps({"userAgent": "kubelet/v1.33.0", "requestURI": "/api/v1/nodes"}).encode()
    log = [event, event, old, new, b"nonsense", b'{"userAgent": 7}', b"{" * 2000]
    reported = [each.message for each in clients.findings_of_log(log, "audit.log", Crossing.between("1.31", "1.32"))]
    asks = "operator/v0.1 asks for flowschemas of flowcontrol.apiserver.k8s.io/v1beta3, which 1.32 does not serve"
    assert reported == [
        f"{asks}; it is served as flowcontrol.apiserver.k8s.io/v1",
        "kubectl 1.27 is more than one release away from 1.32",
        "a kubelet must not be newer than the API server (1.32): move it to 1.32 or older first",
    ]


@pytest.mark.req("U.2")
def test_requests_for_deprecated_versions_that_a_server_counts_are_reported() -> None:
    labels = 'group="flowcontrol.apiserver.k8s.io",removed_release="1.32",resource="flowschemas",version="v1beta3"'
    page = f"apiserver_requested_deprecated_apis{{{labels}}} 1\n"
    assert len(list(clients.findings_of_metrics(page, Crossing.between("1.31", "1.32")))) == 1
    assert list(clients.findings_of_metrics(page, Crossing.between("1.30", "1.31"))) == []


# -- steps


def titles(start: str, end: str, *trees: Tree) -> list[str]:
    audit = releases.audit(snapshot(*trees), Crossing.between(start, end), plays=False)
    return [step.title for step in audit.steps]


@pytest.mark.req("U.3")
def test_down_the_behaviour_goes_first_and_the_binary_last() -> None:
    steps = titles("1.36", "1.34", deployment(hostnameOverride="x"))
    assert [next(i for i, title in enumerate(steps) if words in title) for words in (
        "copy of etcd", "Take fields out", "behave as 1.34", "Nodes, schedulers", "POINT OF NO RETURN",
    )] == list(range(5))  # fmt: skip


@pytest.mark.req("U.3")
def test_up_every_release_is_a_step_and_has_its_point_of_no_return() -> None:
    steps = titles("1.34", "1.36")
    assert [title for title in steps if "Control plane" in title] == [
        "Control plane: 1.34 to 1.35, API servers first, then controllers and schedulers",
        "Control plane: 1.35 to 1.36, API servers first, then controllers and schedulers",
    ]
    assert len([title for title in steps if "POINT OF NO RETURN" in title]) == 2


@pytest.mark.req("U.3")
@pytest.mark.parametrize(
    ("start", "end", "arguments"),
    [
        ("1.36", "1.34", "{name: emulated-version, value: '1.34'}, {name: min-compatibility-version, value: '1.34'}"),
        ("1.34", "1.35", "{name: emulated-version, value: '1.34'}, {name: min-compatibility-version, value: '1.34'}"),
        ("1.34", "1.33", "{name: emulated-version, value: '1.33'}"),
    ],
)
def test_findings_for_kubeadm_name_the_flags_that_the_binary_has(start: str, end: str, arguments: str) -> None:
    audit = releases.audit(snapshot(), Crossing.between(start, end), plays=False)
    (run,) = [c.run for s in audit.steps for c in s.commands if "kubeadm.yaml" in c.run and "echo" in c.run]
    (_, said, *_) = shlex.split(run)
    assert said == f"apiServer: {{extraArgs: [{arguments}]}}"


@pytest.mark.req("U.3")
def test_releases_that_cannot_be_emulated_have_no_such_step() -> None:
    assert not [title for title in titles("1.30", "1.29") if "behave as" in title]
    audit = releases.audit(snapshot(), Crossing.between("1.37", "1.32"), plays=False)
    commands = [command.run for step in audit.steps for command in step.commands]
    assert not [run for run in commands if "emulated-version" in run]
    assert len([run for run in commands if run.startswith("sed")]) == 5


@pytest.mark.req("U.3")
def test_a_field_is_taken_out_with_a_patch_that_kubectl_takes() -> None:
    audit = releases.audit(snapshot(deployment(hostnameOverride="x")), Crossing.between("1.35", "1.34"), plays=False)
    (run,) = [c.run for s in audit.steps for c in s.commands if "patch" in c.run]
    assert run == (
        'kubectl patch -n default deployment.apps x --type=json -p \'[{"op": "remove", "path":'
        ' "/spec/template/spec/hostnameOverride"}]\''
    )


# -- the command


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(mooring, ["audit", *words])
    return result.exit_code, result.output


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    path = tmp_path / "pods.yaml"
    trees = [obj("v1", "Pod", stored=False, spec={**POD_SPEC, "hostnameOverride": "x|<b>"})]
    trees.append(obj(ROLE, "Role", stored=False, rules=RESIZE))
    path.write_text(yaml.safe_dump_all(trees))
    return path


@pytest.mark.req("U.5")
@pytest.mark.parametrize(
    ("fail_if", "end", "code"),
    [("error", "1.31", 1), ("never", "1.31", 0), ("error", "1.36", 0), ("info", "1.36", 4), ("warning", "1.31", 1)],
)
def test_exit_codes_go_by_severity(manifests: Path, fail_if: str, end: str, code: int) -> None:
    start = "1.32" if end == "1.36" else "1.35"
    words = ["--from", str(manifests), "--from-version", start, "--to-version", end, "--fail-if", fail_if]
    assert run(*words)[0] == code


@pytest.mark.req("U.5")
def test_a_warning_alone_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "role.yaml"
    path.write_text(yaml.safe_dump(obj(ROLE, "Role", stored=False, rules=RESIZE)))
    words = ["--from", str(path), "--from-version", "1.32", "--to-version", "1.31", "--fail-if"]
    assert (run(*words, "warning")[0], run(*words, "error")[0]) == (3, 0)


@pytest.mark.req("U.5")
def test_every_format_says_the_same(manifests: Path) -> None:
    words = ["--from", str(manifests), "--from-version", "1.35", "--to-version", "1.31", "-o"]
    data = json.loads(run(*words, "json")[1])
    assert [each["rule"] for each in data["findings"]] == ["R004", "R020"]
    assert yaml.safe_load(run(*words, "yaml")[1]) == data
    sarif = json.loads(run(*words, "sarif")[1])["runs"][0]
    assert [each["ruleId"] for each in sarif["results"]] == ["R004", "R020"]
    junit = ET.fromstring(run(*words, "junit")[1])
    assert (junit.get("name"), junit.get("failures")) == ("mooring audit", "1")
    github = run(*words, "github")[1].splitlines()
    assert github[0].startswith(
        f"::error file={manifests},line=1,col=1,title=R004 field-lost::Pod default/x: spec.host"
    )
    assert github[1].startswith("::warning file=")
    rows = run(*words, "markdown")[1].splitlines()
    assert rows[0] == "### 1.35 to 1.31: 1 error, 1 warning; 0 without consequence"
    assert [row.split(" | ")[1] for row in rows[4:]] == ["R004 field-lost", "R020 rights-to-nothing"]


@pytest.mark.req("U.5")
@pytest.mark.parametrize("output", ["table", "wide", "github", "markdown", "junit", "sarif", "json"])
def test_no_name_or_value_begins_a_line_of_its_own(output: str, tmp_path: Path) -> None:
    order = "\n::error file=a::told by nobody\x1b[31m"
    trees = [
        obj("v1", "Pod", stored=stored, metadata={"name": f"x{order}"}, spec={**POD_SPEC, "hostnameOverride": order})
        for stored in (True, False)
    ]
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": trees}))
    text = run("--from", str(path), "--from-version", "1.36", "--to-version", "1.34", "-o", output)[1]
    assert "\x1b" not in text
    orders = [line for line in text.splitlines() if line.lstrip().startswith("::")]
    assert all(line.startswith(f"::error file={path},line=1") for line in orders), orders


@pytest.mark.req("U.5")
def test_a_baseline_leaves_out_what_was_there_before(manifests: Path, tmp_path: Path) -> None:
    words = ["--from", str(manifests), "--from-version", "1.35", "--to-version", "1.31"]
    baseline = tmp_path / "baseline.json"
    assert run(*words, "--write-baseline", str(baseline))[0] == 0
    code, text = run(*words, "--write-baseline", str(tmp_path / "none" / "baseline.json"))
    assert (code, "Error: [Errno 2] No such file or directory" in text) == (2, True)
    code, text = run(*words, "--baseline", str(baseline))
    assert (code, "2 known from before are left out" in text) == (0, True)
    more = yaml.safe_dump(obj("v1", "Pod", stored=False, metadata={"name": "new"}, spec={"hostnameOverride": "y"}))
    manifests.write_text(manifests.read_text() + "---\n" + more)
    data = json.loads(run(*words, "--baseline", str(baseline), "-o", "json")[1])
    assert [each["object"]["name"] for each in data["findings"]] == ["new"]
    baseline.write_text("[]")
    code, text = run(*words, "--baseline", str(baseline))
    assert (code, "is no baseline" in text) == (2, True)


@pytest.mark.req("U.2")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--to-version", "1.39", "--from-version", "1.36"], "--to-version=1.39 is out of range"),
        (["--to-version", "1.36"], "--from-version is missing"),
        (["--from-version", "1.36"], "need --to-version"),
        (["--from-version", "1.36", "--to-version", "1.26", "--rehearse"], "the history knows 1.27 to 1.37"),
        (["--from-version", "1.36", "--to-version", "1.35", "--disable-gate", "X"], "the other --to flags"),
    ],
)
def test_wrong_calls_are_reported(manifests: Path, words: list[str], why: str) -> None:
    code, text = run("--from", str(manifests), *words)
    assert code == 2
    assert why in text


@pytest.mark.req("U.2")
def test_what_cannot_be_read_is_reported_and_not_skipped(manifests: Path) -> None:
    manifests.write_text(
        manifests.read_text() + "---\nmetadata: {name: [b\n---\nmetadata: {name: b}\n---\nreplicas: 3\n"
    )
    words = ["--from", str(manifests), "--from-version", "1.36", "--to-version", "1.35"]
    result = CliRunner().invoke(mooring, ["audit", *words])
    assert result.stdout.splitlines()[-1] == "nothing is lost or refused; 2 could not be read or checked"
    assert "not read: did not find expected" in result.stderr
    notes = json.loads(CliRunner().invoke(mooring, ["audit", *words, "-o", "json"]).stdout)["notes"]
    assert [note.partition(": ")[2][:8] for note in notes] == ["not read", "not read"]


@pytest.mark.req("U.2")
def test_a_user_who_may_read_nothing_does_not_read_that_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Snapshot("the cluster", missing={"pods": "not allowed: pods is forbidden"})
    monkeypatch.setattr(ClusterSource, "read", lambda *_, **__: nothing)
    code, text = run("--from-version", "1.36", "--to-version", "1.35")
    assert (code, text) == (1, "Error: nothing of the cluster can be read: not allowed: pods is forbidden\n")


@pytest.mark.req("U.2")
def test_a_dump_with_nodes_says_itself_which_release_it_is_of(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(yaml.safe_dump(obj("v1", "Node", status={"nodeInfo": {"kubeletVersion": "v1.35.3"}})))
    assert "1.35 to 1.34" in run("--from", str(path), "--to-version", "1.34")[1]


@pytest.mark.req("U.3")
def test_a_rehearsal_plays_both_releases(tmp_path: Path) -> None:
    path = tmp_path / "autoscaler.yaml"
    metrics = [{"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}}}]
    spec = {
        "minReplicas": 0,
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
        "metrics": metrics,
    }
    path.write_text(yaml.safe_dump(obj("autoscaling/v2", "HorizontalPodAutoscaler", stored=False, spec=spec)))
    words = ["--from", str(path), "--from-version", "1.37", "--to-version", "1.36", "--rehearse", "-o", "json"]
    data = json.loads(run(*words)[1])
    assert [each["rule"] for each in data["findings"]] == ["R007"]
    assert data["rehearsal"]["objects"] == 1


def test_a_rehearsal_differs_by_nothing_that_a_finding_says(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    policy = {"resourceName": "cpu", "restartPolicy": "NotRequired"}
    container = {"name": "c", "image": "i", "resizePolicy": [policy]}
    path.write_text(yaml.safe_dump(obj("v1", "Pod", stored=False, spec={"containers": [container]})))
    words = ["--from", str(path), "--from-version", "1.33", "--to-version", "1.32", "--rehearse", "-o", "json"]
    data = json.loads(run(*words)[1])
    assert [each["rule"] for each in data["findings"]] == ["R005"]
    assert [each["observed"] for each in data["rehearsal"]["broken"]] == ["changed"]
    assert "differences" not in data["rehearsal"]


FILLED_IN = """
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: example.com}, spec: {attachRequired: false}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: work, image: work}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: strict}
spec:
  podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}
  template: {spec: {restartPolicy: Never, containers: [{name: work, image: work}]}}
"""


def test_a_rehearsal_does_not_miss_what_the_server_has_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(FILLED_IN)
    words = ["--from", str(path), "--from-version", "1.29", "--to-version", "1.27", "--rehearse", "-o", "json"]
    code, text = run(*words)
    rehearsal = json.loads(text)["rehearsal"]
    assert (code, rehearsal["objects"]) == (0, 3)
    assert not {"broken", "differences"} & rehearsal.keys()
    path.write_text(FILLED_IN.replace("spec: {template", "spec: {podReplacementPolicy: Failed, template"))
    broken = json.loads(run(*words)[1])["rehearsal"]["broken"]
    assert [(each["object"]["name"], each["observed"]) for each in broken] == [("once", "changed")]


def test_the_page_lists_every_rule() -> None:
    page = (Path(__file__).parents[3] / "docs" / "upgrade.md").read_text()
    for rule in RULES.values():
        assert f"| {rule.id} | {rule.severity} | {rule.about} |" in page, rule.id
