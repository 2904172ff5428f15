"""The search for devices agrees with one that tries everything, on random devices and claims."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from mooring.scheduler.deciding.engine import Engine
from mooring.testing.builders import made, node, pod

DRIVER = "d"
MODELS, ZONES = ("m", "n"), (1, 2)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[tuple[str, int]], list[tuple[str | None, int]], str | None]:
    """Devices as model and zone; requests as model (None for any) and count; the attribute that must match."""
    devices = draw(st.lists(st.tuples(st.sampled_from(MODELS), st.sampled_from(ZONES)), max_size=6))
    requests = draw(st.lists(st.tuples(st.sampled_from((None, *MODELS)), st.integers(1, 3)), min_size=1, max_size=3))
    return devices, requests, draw(st.sampled_from((None, "model", "zone")))


def solutions(
    devices: list[tuple[str, int]], requests: list[tuple[str | None, int]], matching: str | None
) -> Iterator[list[int]]:
    """All ways to fulfil the requests, in the order in which they are to be preferred."""

    def walk(number: int, taken: list[int]) -> Iterator[list[int]]:
        if number == len(requests):
            values = {devices[index][("model", "zone").index(matching)] for index in taken} if matching else {0}
            if len(values) == 1:
                yield taken
            return
        model, count = requests[number]
        free = [index for index in range(len(devices)) if index not in taken and model in (None, devices[index][0])]
        for chosen in combinations(free, count):
            yield from walk(number + 1, [*taken, *chosen])

    return walk(0, [])


@pytest.mark.req("S.3")
@settings(max_examples=80, deadline=None)
@given(clusters())
def test_the_first_solution_is_found_if_there_is_one(case: Any) -> None:
    devices, requests, matching = case
    engine = Engine()
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    listed = [
        {"name": f"g{index}", "attributes": {"model": {"string": model}, "zone": {"int": zone}}}
        for index, (model, zone) in enumerate(devices)
    ]
    spec: dict[str, Any] = {"driver": DRIVER, "pool": pool, "nodeName": "a", "devices": listed}
    wanted = [
        {
            "name": f"r{index}",
            "exactly": {
                "deviceClassName": "c",
                "count": count,
                "selectors": [{"cel": {"expression": f"device.attributes['d'].model == '{model}'"}}] if model else [],
            },
        }
        for index, (model, count) in enumerate(requests)
    ]
    constraints = [{"matchAttribute": f"{DRIVER}/{matching}"}] if matching else []
    claim = {"metadata": {"name": "c", "namespace": "default", "uid": "u"}}
    asked = {"spec": {"devices": {"requests": wanted, "constraints": constraints}}}
    for thing in (
        node("a"),
        made(DeviceClass, {"metadata": {"name": "c"}, "spec": {}}),
        made(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec}),
        made(ResourceClaim, {**claim, **asked}),
    ):
        engine.put(thing)
    outcome = engine.schedule(pod("p", spec={"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}))
    expected = next(solutions(devices, requests, matching), None)
    assert (outcome.node is not None) == (expected is not None)
    if expected is not None:
        found = outcome.cycle.pre_filter["DynamicResources"].findings.solutions[engine.cluster.row_of["a"]]
        assert [entry.device.id.device for entry in found.devices[0]] == [f"g{index}" for index in expected]
