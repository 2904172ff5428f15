"""The numbers of Go's math/rand: those of the table were printed by a program of Go 1.27, with rand.NewSource(seed)."""

from dataclasses import dataclass

import pytest

from mooring.advisor.simulate.traces.drawing import GoRandom, draw_workload
from mooring.testing.builders import node, pod

pytestmark = pytest.mark.req("T.5")

LIMITS = (1, 7, 10, 64, 1000, 2**31 - 1)


@dataclass(frozen=True)
class Case:
    """What was asked for one after the other."""

    seed: int
    int63: tuple[int, int]
    intn: tuple[int, ...]
    """With each of LIMITS."""
    perm: str
    """Of 8."""
    shuffled: str
    """0 to 9."""
    last: int
    """The 5000th Int63 after all that: the ring has turned eight times."""


CASES = (
    Case(
        42,
        (3440579354231278675, 608747136543856411),
        (0, 1, 3, 33, 357, 825591176),
        "42135706",
        "2354108967",
        3447244371720603180,
    ),
    Case(
        1,
        (5577006791947779410, 8674665223082153551),
        (0, 0, 1, 6, 425, 336122540),
        "16732504",
        "4038761592",
        2243976598649460545,
    ),
    Case(
        0,
        (8717895732742165505, 2259404117704393152),
        (0, 4, 5, 32, 767, 1407315077),
        "50134276",
        "1384925607",
        2886697561089165340,
    ),
    Case(
        -7,
        (747107023976529931, 7084732931963018726),
        (0, 2, 3, 10, 16, 1412235930),
        "70631425",
        "4725906813",
        140048684411738278,
    ),
    Case(
        2**40,
        (5470237361722394362, 6322525149314491254),
        (0, 1, 5, 54, 38, 1868730568),
        "23574016",
        "3805124679",
        279431344005723517,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"the seed {case.seed}")
def test_numbers_are_those_of_go(case: Case) -> None:
    lot = GoRandom(case.seed)
    assert (lot.next_bits(), lot.next_bits()) == case.int63
    assert tuple(lot.next_below(limit) for limit in LIMITS) == case.intn
    assert "".join(map(str, lot.permutation(8))) == case.perm
    things = list("0123456789")
    lot.shuffle(things)
    assert "".join(things) == case.shuffled
    assert [lot.next_bits() for _ in range(5000)][-1] == case.last


def test_nothing_and_one_thing_can_be_drawn() -> None:
    lot, one = GoRandom(1), ["only"]
    lot.shuffle([])
    lot.shuffle(one)
    assert (one, lot.permutation(0), lot.permutation(1)) == (["only"], [], [0])


def test_pods_and_nodes_come_in_the_order_of_the_papers_simulator() -> None:
    """In Go: rand.Int, a Shuffle of 9, ten times Float64, a Perm of 9 that gave 6 8 7 2 5 3 4 1 0: where nodes come."""
    found = draw_workload(
        [pod(f"p{number}") for number in range(9)], [node(f"n{number}") for number in range(9)], None, 42
    )
    assert "".join(event.pod.metadata.name[1:] for event in found.pods) == "257368140"
    assert "".join(each.metadata.name[1:] for each in found.nodes) == "873564021"
