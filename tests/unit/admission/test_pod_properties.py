"""Whatever is sent: validation answers and never raises, and it accepts what it has itself filled in."""

import random
import types
import typing
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission_pods import OFF, ON, Tree, create_problems, created, pod_of, request, update_problems
from mooring.admission.options import AdmissionOptions
from mooring.admission.pipeline import admit_create
from mooring.api import codec, errors
from mooring.api.base import copy_of
from mooring.api.core_v1 import Pod, PodSpec
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.quantity import Quantity

WORDS = [
    "a",
    "A",
    "a/b",
    "a/b/c",
    "..",
    "../x",
    "/x",
    "0",
    "-1",
    "950",
    "0950",
    "1.2.3",
    "v1.2.x",
    "In",
    "NotIn",
    "Exists",
    "DoesNotExist",
    "Gt",
    "Lt",
    "Equal",
    "SemverGt",
    "SemverEq",
    "NoExecute",
    "NoSchedule",
    "Always",
    "Never",
    "OnFailure",
    "None",
    "Localhost",
    "metadata.name",
    "metadata.labels['a']",
    "cpu",
    "hugepages-2Mi",
    "example.com/gpu",
    "taint.key=='a'",
    "'a'in(node.labels)",
    "taint.",
    "true",
    "10.0.0.1",
    "é",
    "latest",
    "linux",
    "windows",
    "DoNotSchedule",
    "Honor",
    "limits.cpu",
    "Bidirectional",
    "iqn.2001-04.com.example:s",
]
TEXTS = [*WORDS, "", "a b", "\x00", "x" * 70, "\ud7ff", "taint.key == 'a'"]
INTEGERS = [-1, 0, 1, 2, 80, 300, 65536, 2**31 - 1]
QUANTITIES = [Quantity.parse(text) for text in ("0", "1", "-1", "100m", "1u", "2Mi", "1e3", "9E")]
SEEDS = st.integers(0, 2**64)
SOME = settings(max_examples=100, deadline=None)


@cache
def fields_of(cls: type[msgspec.Struct]) -> list[tuple[str, Any]]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return [(name, hints[name]) for name in cls.__struct_fields__]


class Chance:
    """Make structs with a few fields set, to plausible or senseless values; equal for equal seeds."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pod(self) -> Pod:
        metadata = self._struct(ObjectMeta, 2)
        metadata.namespace, metadata.name = "default", "p"
        return Pod(metadata=metadata, spec=self._struct(PodSpec, 7))

    def _struct(self, cls: type[msgspec.Struct], depth: int) -> Any:
        known = fields_of(cls)
        chosen = self._random.sample(known, min(len(known), self._random.randrange(5))) if depth else []
        return cls(**{name: self._value(annotation, depth - 1) for name, annotation in chosen})

    def _value(self, annotation: Any, depth: int) -> Any:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            return self._value(arguments[0], depth)
        if origin in (typing.Union, types.UnionType):
            return self._value(self._random.choice(arguments), depth)
        if origin is list:
            return [self._value(arguments[0], depth) for _ in range(self._random.randrange(3))]
        if origin is dict:
            keys = self._random.sample(TEXTS, self._random.randrange(3))
            return {key: self._value(arguments[1], depth) for key in keys}
        if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
            return self._struct(annotation, depth)
        choices: dict[Any, list[Any]] = {str: TEXTS, int: INTEGERS, bool: [False, True], Quantity: QUANTITIES}
        return self._random.choice(choices.get(annotation, [None]))


@given(seed=SEEDS)
@SOME
@pytest.mark.parametrize("options", [ON, OFF], ids=["gates on", "gates off"])
def test_no_pod_makes_validation_raise_anything_but_an_answer(seed: int, options: AdmissionOptions) -> None:
    create_problems(Chance(seed).pod(), options)


@given(seed=SEEDS)
@SOME
@pytest.mark.parametrize("subresource", ["", "status", "ephemeralcontainers", "resize"])
def test_no_change_makes_validation_raise_anything_but_an_answer(seed: int, subresource: str) -> None:
    chance = Chance(seed)
    new, old = chance.pod(), chance.pod()
    update_problems(new, old, ON, subresource)
    update_problems(new, old, OFF, subresource)
    update_problems(old, old, OFF, subresource)


@given(seed=SEEDS)
@SOME
def test_what_was_admitted_can_be_written_again_as_it_is(seed: int) -> None:
    pod = Chance(seed).pod()
    pod.spec.containers = pod_of().spec.containers
    try:
        stored = admit_create(pod, request()).object
    except errors.StatusError:
        return
    stored.metadata.resource_version = "1"
    assert update_problems(stored, copy_of(stored), OFF) == []


VOLUMES: list[Tree] = [
    {},
    {"emptyDir": {}},
    {"secret": {"secretName": "s"}},
    {"configMap": {"name": "c"}},
    {"hostPath": {"path": "/x"}},
    {"downwardAPI": {"items": [{"path": "f", "fieldRef": {"fieldPath": "metadata.uid"}}]}},
    {"persistentVolumeClaim": {"claimName": "c"}},
]
CONTAINERS = st.fixed_dictionaries(
    {"name": st.just("c"), "image": st.sampled_from(["i", "i:1", "r.example/i@sha256:" + "0" * 64])},
    optional={
        "ports": st.sampled_from([[{"containerPort": 80}], [{"containerPort": 80, "name": "http"}]]),
        "livenessProbe": st.sampled_from(
            [{"httpGet": {"port": 80}}, {"grpc": {"port": 1}}, {"exec": {"command": ["x"]}}]
        ),
        "resources": st.sampled_from(
            [{"limits": {"cpu": "1"}}, {"requests": {"cpu": "1u"}}, {"limits": {"example.com/gpu": "1"}}]
        ),
        "env": st.just([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
    },
)
SPECS = st.fixed_dictionaries(
    {"containers": CONTAINERS.map(lambda container: [container])},
    optional={
        "restartPolicy": st.sampled_from(["Always", "OnFailure", "Never"]),
        "hostNetwork": st.booleans(),
        "priorityClassName": st.sampled_from(["system-node-critical", "system-cluster-critical"]),
        "volumes": st.lists(st.sampled_from(VOLUMES), max_size=3).map(
            lambda sources: [{"name": f"v{index}", **source} for index, source in enumerate(sources)]
        ),
    },
)


@given(spec=SPECS)
@SOME
def test_validation_accepts_what_defaulting_completes_and_defaults_are_stable(spec: Tree) -> None:
    stored = created(pod_of(spec))
    again = created(Pod(metadata=ObjectMeta(name="p"), spec=copy_of(stored.spec)))
    assert codec.encode(again.spec) == codec.encode(stored.spec)
