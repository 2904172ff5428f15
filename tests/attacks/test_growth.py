"""What a request costs grows no faster than the request, whatever field is made long.

Admission of every kind is tried with every list and map that its type has, filled with entries that are all the same
and all different, and its work is counted: calls of functions, and comparisons of texts.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import pytest

from admission_kinds import EXAMPLES
from counted_work import Work, count, watched
from every_field import Place, places
from mooring.admission import pipeline
from mooring.admission.options import AdmissionOptions
from mooring.admission.pipeline import admit_create, admit_update
from mooring.admission.pod import known_specs, update
from mooring.admission.strategy import Request
from mooring.api import codec, errors
from mooring.api.errors import StatusError
from mooring.api.kinds import Kind
from mooring.api.scheme import Scheme

pytestmark = pytest.mark.req("S.6")
SCHEME = Scheme()
POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
FEW = 8
BEND = 0.3
"""How many calls or comparisons there may be for each pair of entries, before growth is called quadratic."""
WORDS: dict[str, Callable[[int], str]] = {"the same": lambda _: "a", "different": lambda number: f"a{number}"}


def _kinds() -> list[tuple[Kind, list[Place]]]:
    """Every kind, with the places whose type no kind before it has."""
    seen: set[Any] = set()
    hubs = (kind for kind in SCHEME.served if kind.stored and SCHEME.hub(kind) == kind)
    return [(kind, list(places(kind.type, seen=seen))) for kind in hubs]


KINDS = _kinds()


@pytest.fixture(autouse=True)
def _no_memo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Identical pods are evaluated each time: a cache would hide the work, and cannot read watched texts.

    Ids are made by the hundred, and a refusal writes out a hundred causes and some differences: both is limited work
    that would look like growth here.
    """
    monkeypatch.setattr(known_specs, "_digest", lambda _: b"")
    monkeypatch.setattr(pipeline, "generate_uid", lambda: "")
    monkeypatch.setattr(errors, "MAX_CAUSES", 3)
    monkeypatch.setattr(update, "format_difference", lambda _old, _new: "")
    monkeypatch.setattr(msgspec, "to_builtins", partial(msgspec.to_builtins, enc_hook=str))  # of watched texts


Admission = Callable[[Kind, Callable[[int], Any], int], Callable[[], None]]
LARGE = {"CustomResourceDefinition"}
"""Schemas have so many fields that these alone would take as long as all others."""
EACH_KIND = pytest.mark.parametrize(
    ("kind", "fields"),
    [pytest.param(*each, marks=pytest.mark.slow if each[0].kind in LARGE else ()) for each in KINDS],
    ids=[kind.kind for kind, _ in KINDS],
)


@EACH_KIND
def test_admission_grows_with_the_object_and_no_faster(kind: Kind, fields: list[Place]) -> None:
    bent = [
        f"{place} with entries that are {how}: {what}"
        for place in fields
        for how, word in WORDS.items()
        if not (place.is_map and how == "the same")
        for what in _bends(_creation, kind, partial(_long, kind, [place], word))
    ]
    assert not bent, "\n".join(bent)


@EACH_KIND
def test_admission_grows_no_faster_when_everything_is_long(kind: Kind, fields: list[Place]) -> None:
    """What goes through one list for every entry of another shows only where both are long."""
    shallow_first = sorted(fields, key=lambda place: len(place.steps))
    bent = list(_bends(_update, kind, partial(_long, kind, shallow_first, WORDS["different"])))
    assert not bent, "\n".join(bent)


def _long(kind: Kind, fields: list[Place], word: Callable[[int], str], number: int) -> Any:
    """Return an example of a kind with so many entries in some fields."""
    tree: dict[str, Any] = {"metadata": {"name": "x"}, **(POD if kind.kind == "Pod" else EXAMPLES[kind.kind][1])}
    for place in fields:
        tree = place.filled(tree, number, word)
    return watched(codec.decode_own(codec.encode(tree), kind.type))


def _bends(work: Admission, kind: Kind, make: Callable[[int], Any]) -> Iterator[str]:
    """Yield what grows faster than its object, in calls and in comparisons.

    Of three sizes, each twice the last, linear work has equal slopes. A limit on a list makes one step, so that growth
    must also show between larger sizes.
    """
    work(kind, make, 4 * FEW)()  # fills caches
    counts = {times: count(work(kind, make, FEW * times)) for times in (1, 2, 4)}
    for name in ("calls", "comparisons"):
        if _bend(counts, (1, 2, 4), name) > BEND and 8 not in counts:
            counts[8] = count(work(kind, make, FEW * 8))
        if all(_bend(counts, (n, 2 * n, 4 * n), name) > BEND for n in (1, 2) if 4 * n in counts):
            yield f"{', '.join(str(getattr(counts[n], name)) for n in counts)} {name}"


def _bend(counts: dict[int, Work], sizes: tuple[int, int, int], name: str) -> float:
    """Return how many calls or comparisons there are for each pair of entries; 0 if a longer list is refused."""
    one, two, four = (getattr(counts[times], name) for times in sizes)
    return ((four - two) - 2 * (two - one)) / (6 * (FEW * sizes[0]) ** 2) if one < two else 0.0


def _creation(kind: Kind, make: Callable[[int], Any], number: int) -> Callable[[], None]:
    new = make(number)

    def create() -> None:
        with suppress(StatusError):
            admit_create(new, _request(kind))

    return create


def _update(kind: Kind, make: Callable[[int], Any], number: int) -> Callable[[], None]:
    create, new, old = _creation(kind, make, number), make(number), make(number)

    def update() -> None:
        create()
        with suppress(StatusError):
            admit_update(new, old, _request(kind))

    return update


def _request(kind: Kind) -> Request:
    return Request(
        options=AdmissionOptions(),
        now=datetime(2026, 1, 1, tzinfo=UTC),
        namespace="default" if kind.namespaced else "",
        name="x",
    )
