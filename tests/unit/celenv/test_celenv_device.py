"""The CEL environment of selectors of devices: what they may read, what they may use since when, and their costs."""

from dataclasses import dataclass

import pytest

from mooring.api.quantity import parse
from mooring.base.version import Version
from mooring.constraints.celenv import COST_LIMIT, DEVICE
from mooring.constraints.celenv.quantity import QuantityValue

NOW = DEVICE.new_expressions(Version(1, 36))
GPU = {
    "driver": "gpu.example.com",
    "attributes": {"gpu.example.com": {"model": "a100", "cores": 108, "healthy": True}},
    "capacity": {"gpu.example.com": {"memory": QuantityValue(parse("40Gi"))}},
    "allowMultipleAllocations": False,
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("device.driver == 'gpu.example.com'", True),
        ("device.attributes['gpu.example.com'].model.startsWith('a')", True),
        ("device.attributes['gpu.example.com'].cores > 200", False),
        ("device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('10Gi'))", True),
        ("cel.bind(gpu, device.attributes['gpu.example.com'], gpu.healthy && gpu.cores > 100)", True),
        ("device.allowMultipleAllocations", False),
    ],
)
def test_a_selector_reads_a_device(expression: str, expected: bool) -> None:
    program = NOW.compile(expression)
    assert program.issues == ()
    assert program.max_cost <= COST_LIMIT
    assert program.evaluate({"device": GPU}) is expected


@dataclass(frozen=True)
class Refused:
    id: str
    expression: str
    version: Version
    message: str


@pytest.mark.parametrize(
    "case",
    [
        Refused("a field that devices do not have", "device.foo", Version(1, 36), "undefined field 'foo'"),
        Refused("taints", "taint.key == 'a'", Version(1, 36), "undeclared reference to 'taint' (in container '')"),
        Refused("KEP-5500's own function", "semver.compare('1', '2')", Version(1, 36), "undeclared reference to"),
        Refused("a version without devices", "device.driver == ''", Version(1, 30), "undeclared reference to 'device'"),
    ],
    ids=lambda case: case.id,
)
def test_a_selector_may_not_use(case: Refused) -> None:
    issues = DEVICE.new_expressions(case.version).compile(case.expression).issues
    assert issues[0].message.startswith(case.message)


def test_versions_of_devices_could_be_compared_before_the_library_was_everywhere() -> None:
    expression = "device.attributes['a'].driver.isGreaterThan(semver('1.0.0'))"
    for minor in (31, 32, 33, 37):
        assert DEVICE.new_expressions(Version(1, minor)).compile(expression).issues == ()


def test_devices_are_small_so_that_walking_through_all_of_one_is_affordable() -> None:
    walk = "device.attributes.all(domain, device.attributes[domain].all(name, name.size() < 30))"
    assert 0 < NOW.compile(walk).max_cost <= COST_LIMIT
