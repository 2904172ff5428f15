"""Pod Security by labels of the namespace; what kube-apiserver says to every check is in the conformance tests."""

from collections.abc import Callable, Iterator, Mapping

import msgspec
import pytest
from msgspec.structs import replace

from admission_pods import ON, Tree, causes, pod_of, request
from mooring.admission.pipeline import admit_create, admit_update
from mooring.admission.pod_security.enforcement import MAX_CHECKED_PODS
from mooring.admission.pod_security.policy import PREFIX, parse_policy
from mooring.admission.strategy import NoCluster, Request
from mooring.api import codec, errors
from mooring.api.apps_v1 import Deployment
from mooring.api.base import copy_of
from mooring.api.core_v1 import EphemeralContainer, Namespace, Pod

pytestmark = pytest.mark.req("X.10")
ENFORCE = f"{PREFIX}enforce"
HOST = {"hostPID": True}
REFUSED = 'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)'


class Secured(NoCluster):
    def __init__(self, labels: Mapping[str, str], pods: int = 0) -> None:
        self.labels, self.count = labels, pods

    def security_labels(self, namespace: str) -> Mapping[str, str]:
        return self.labels if namespace == "default" else {}

    def pods(self, namespace: str) -> tuple[int, Iterator[Pod]]:
        return self.count, (pod_of(HOST, {"name": f"p{index}"}) for index in range(self.count))


def secured(minor: int = 37, **labels: str) -> Request:
    names = {PREFIX + name.replace("_", "-"): value for name, value in labels.items()}
    return request(replace(ON, pod_security_minor=minor), Secured(names))


def problems(change: Callable[[], object]) -> list[str]:
    try:
        change()
    except errors.StatusError as refusal:
        return causes(refusal)
    return []


@pytest.mark.parametrize(
    ("labels", "enforce", "warn"),
    [
        pytest.param({}, "privileged:latest", "privileged:latest", id="without labels everything is allowed"),
        pytest.param(
            {"enforce": "baseline", "enforce-version": "v1.30"},
            "baseline:v1.30",
            "baseline:v1.30",
            id="warn as enforced",
        ),
        pytest.param(
            {"enforce": "baseline", "warn": "restricted"}, "baseline:latest", "restricted:latest", id="warn of more"
        ),
        pytest.param(
            {"enforce": "baseline", "enforce-version": "v1.30", "warn-version": "v1.31"},
            "baseline:v1.30",
            "baseline:v1.31",
            id="warn of the same level in another version",
        ),
        pytest.param({"enforce": "x"}, "restricted:latest", "privileged:latest", id="a wrong level is the strictest"),
        pytest.param({"warn": "x"}, "privileged:latest", "privileged:latest", id="a wrong warning is none"),
        pytest.param(
            {"enforce": "baseline", "enforce-version": "v1.99999999999999999999"},
            "baseline:latest",
            "baseline:latest",
            id="a version beyond all numbers is wrong",
        ),
    ],
)
def test_labels_are_read(labels: Tree, enforce: str, warn: str) -> None:
    policy = parse_policy({PREFIX + name: value for name, value in labels.items()})
    assert (str(policy.enforce), str(policy.warn)) == (enforce, warn)


def test_a_pod_is_refused_by_the_level_of_its_namespace() -> None:
    assert problems(lambda: admit_create(pod_of(HOST), secured(enforce="baseline"))) == [REFUSED]
    assert problems(lambda: admit_create(pod_of(HOST), secured(enforce="privileged"))) == []


def test_a_pod_that_is_refused_is_not_warned_of_too() -> None:
    asked = secured(enforce="baseline", warn="restricted")
    assert problems(lambda: admit_create(pod_of(HOST), asked))
    assert asked.warnings == []


@pytest.mark.parametrize(
    ("annotations", "version", "detail"),
    [
        pytest.param(
            {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"},
            "latest",
            "forbidden AppArmor profile (annotation must not set AppArmor profile type to "
            '"container.apparmor.security.beta.kubernetes.io/c="unconfined"")',
            id="AppArmor",
        ),
        pytest.param(
            {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"},
            "v1.18",
            'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")',
            id="seccomp before 1.19",
        ),
    ],
)
def test_templates_are_checked_by_annotations(annotations: Tree, version: str, detail: str) -> None:
    asked = secured(warn="baseline", warn_version=version)
    spec = {"containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"a": "b"}, "annotations": annotations}, "spec": spec}
    tree = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    admit_create(codec.decode(msgspec.json.encode(tree), Deployment).object, asked)
    assert f'would violate PodSecurity "baseline:{version}": {detail}' in asked.warnings


@pytest.mark.parametrize(
    ("minor", "refused"),
    [
        pytest.param(30, True, id="latest is the version that is emulated"),
        pytest.param(37, False, id="and that of the server otherwise"),
    ],
)
def test_what_latest_means(minor: int, refused: bool) -> None:
    context = {"seLinuxOptions": {"type": "container_engine_t"}}  # allowed since 1.31
    pod = pod_of({"securityContext": context})
    assert bool(problems(lambda: admit_create(pod, secured(minor, enforce="baseline")))) is refused


def relabelled(pod: Pod) -> None:
    pod.metadata.labels["new"] = "yes"


def with_new_image(pod: Pod) -> None:
    pod.spec.containers[0].image = "other"


def with_a_look_inside(pod: Pod) -> None:
    added = EphemeralContainer(name="e", image="i", termination_message_policy="File", image_pull_policy="Always")
    pod.spec.ephemeral_containers.append(added)


@pytest.mark.parametrize(
    ("change", "subresource", "refused"),
    [
        pytest.param(relabelled, "", False, id="a pod that is there may get other labels"),
        pytest.param(with_new_image, "", True, id="but no other image"),
        pytest.param(with_a_look_inside, "ephemeralcontainers", True, id="and no other container"),
        pytest.param(with_new_image, "status", False, id="a write of the status is let pass"),
    ],
)
def test_changes_of_a_pod_that_was_there_before_the_level(
    change: Callable[[Pod], None], subresource: str, refused: bool
) -> None:
    old = admit_create(pod_of(HOST), request()).object
    old.metadata.resource_version = "1"
    new = copy_of(old)
    change(new)
    found = problems(lambda: admit_update(new, old, secured(enforce="baseline"), subresource))
    assert found == ([REFUSED] if refused else [])


# -- namespaces


def namespace(**labels: str) -> Namespace:
    made = Namespace()
    made.metadata.name, made.metadata.resource_version = "n", "1"
    made.metadata.labels = {PREFIX + name: value for name, value in labels.items()}
    return made


def changed(old: Namespace, new: Namespace, pods: int = 0) -> Request:
    asked = request(lookups=Secured({}, pods))
    asked.namespace = ""
    admit_update(new, old, asked)
    return asked


def test_a_namespace_with_a_wrong_label_may_keep_it_and_get_no_other() -> None:
    old, new = namespace(enforce="x"), namespace(enforce="x")
    new.metadata.labels["other"] = "label"
    assert changed(old, new).warnings == []
    [problem] = problems(lambda: changed(old, namespace(enforce="y")))
    assert "must be one of privileged, baseline, restricted" in problem


def test_only_the_first_of_very_many_pods_are_looked_at() -> None:
    first, second, third = changed(namespace(), namespace(enforce="baseline"), MAX_CHECKED_PODS + 7).warnings
    total = MAX_CHECKED_PODS + 7
    assert (
        first
        == f"new PodSecurity enforce level only checked against the first {MAX_CHECKED_PODS} of {total} existing pods"
    )
    assert second == 'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"'
    assert third == f"p0 (and {MAX_CHECKED_PODS - 1} other pods): host namespaces"


@pytest.mark.parametrize("level", ["privileged", "baseline"])
def test_there_is_no_warning_when_a_level_gets_no_stricter(level: str) -> None:
    assert changed(namespace(enforce="restricted"), namespace(enforce=level), 3).warnings == []
