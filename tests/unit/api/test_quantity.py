"""Quantities beyond the recorded ones: arithmetic, comparison, limits, and agreement with exact fractions."""

import copy
import pickle
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.quantity import MILLI, Format, Quantity, QuantityError, parse


@dataclass(frozen=True)
class Case:
    id: str
    text: str
    canonical: str


CANONICAL = [
    Case("a number is written with the largest suffix", "1000000", "1M"),
    Case("a fraction is written in a smaller unit", "0.25", "250m"),
    Case("binary stays binary", "2048Ki", "2Mi"),
    Case("a binary number below 1024 has no suffix", "0.5Ki", "512"),
    Case("a binary number that is no integer is written in decimal", "0.3Ki", "307200m"),
    Case("less than a nano is rounded up to a nano", "0.0000000001", "1n"),
    Case("a tiny exponent is a nano", "1e-1000000000", "1e-9"),
    Case("negative numbers are rounded away from zero", "-0.0000000001", "-1n"),
    Case("an exponent is kept as an exponent", "12.3e6", "12300e3"),
    Case("what Kubernetes takes for canonical is kept as written", "+1", "+1"),
    Case("three decimals are kept as written too", "1.500", "1.500"),
    Case("no suffix is large enough", "1000E", "1e21"),
    Case("a decimal number has no largest value", "18446744073709551616", "18446744073709551616"),
    Case("a binary number stops at 2**63-1", "16Ei", "9223372036854775807"),
    Case("a point may end a number", "5.0", "5"),
    Case("zero has no suffix", "0Gi", "0"),
    Case("zero has no sign", "-0", "0"),
]


@pytest.mark.parametrize("case", CANONICAL, ids=lambda case: case.id)
def test_canonical_form(case: Case) -> None:
    assert str(parse(case.text)) == case.canonical


WRONG = [
    Case("nothing", "", "quantities must match the regular expression"),
    Case("a space", "1 ", "quantities must match the regular expression"),
    Case("a line end", "1\n", "quantities must match the regular expression"),
    Case("digits of another script", "٣", "quantities must match the regular expression"),
    Case("a suffix of another case", "1ki", "unable to parse quantity's suffix"),
    Case("an exponent without digits", "1e+", "unable to parse quantity's suffix"),
    Case("an exponent beyond 64 bits", "1e99999999999999999999", "unable to parse quantity's suffix"),
    Case("a text nobody means", "1" * 2000, "unable to parse numeric part of quantity"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_a_text_that_is_no_quantity_is_refused_in_the_words_of_kubernetes(case: Case) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(case.text)
    assert str(caught.value).startswith(case.canonical)


@dataclass(frozen=True)
class Sum:
    id: str
    a: str
    b: str
    total: str
    difference: str


SUMS = [
    Sum("the same unit", "100m", "200m", "300m", "-100m"),
    Sum("different units", "1", "1m", "1001m", "999m"),
    Sum("the style of the first counts", "1Gi", "1G", "2073741824", "73741824"),
    Sum("zero takes the style of the other", "0", "1Gi", "1Gi", "-1Gi"),
    Sum("beyond 64 bits", "9223372036854775807", "1", "9223372036854775808", "9223372036854775806"),
    Sum("a number too small to matter", "1e2000000000", "1", "100e1999999998", "100e1999999998"),
]


@pytest.mark.parametrize("case", SUMS, ids=lambda case: case.id)
def test_sum_and_difference(case: Sum) -> None:
    a, b = parse(case.a), parse(case.b)
    assert (str(a + b), str(a - b)) == (case.total, case.difference)


def test_equal_numbers_are_equal_and_have_one_hash_however_they_are_written() -> None:
    assert parse("1") == parse("1000m") == parse("1e0")
    assert len({parse("1"), parse("1000m"), parse("1.0")}) == 1
    assert parse("1") != "1"


def test_numbers_far_apart_are_compared_without_writing_them_out() -> None:
    huge = parse("1e2000000000")
    assert parse("1Ei") < huge
    assert huge > parse("-1e2000000000")
    assert huge <= parse("10e1999999999")


def test_the_same_text_is_the_same_quantity() -> None:
    assert parse("256Mi") is parse("256Mi")


def test_a_quantity_cannot_be_changed_and_copies_are_itself() -> None:
    quantity = parse("1Gi")
    with pytest.raises(AttributeError):
        quantity.format = Format.DECIMAL_SI
    assert copy.deepcopy(quantity) is quantity
    assert pickle.loads(pickle.dumps(quantity)) == quantity


@pytest.mark.parametrize(
    ("text", "expected"), [("5", 5), ("1k", 1000), ("1Ki", 1024), ("1.0", None), ("10E", None), ("1000m", None)]
)
def test_only_what_is_seen_to_be_an_integer_is_one(text: str, expected: int | None) -> None:
    assert parse(text).as_int64() == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1500m", 1.5), ("1Ki", 1024.0), ("1e400", float("inf")), ("-1e400", float("-inf"))]
)
def test_as_a_float(text: str, expected: float) -> None:
    assert parse(text).as_approximate_float() == expected


def test_rounding_up_goes_away_from_zero() -> None:
    assert str(parse("1500001u").round_up(MILLI)) == "1501m"
    assert str(parse("-1500001u").round_up(MILLI)) == "-1501m"
    assert parse("2").round_up(MILLI) is parse("2")


def test_a_product_with_a_number() -> None:
    assert str(parse("250m") * 3) == "750m"


# -- against exact fractions

_SUFFIXES: dict[str, int | Fraction] = {
    "": 1,
    "m": Fraction(1, 1000),
    "k": 1000,
    "M": 10**6,
    "Ki": 1024,
    "Gi": 1 << 30,
    "e3": 1000,
    "E-2": Fraction(1, 100),
}
_numbers = st.builds(
    lambda sign, whole, fraction, suffix: (f"{sign}{whole}{fraction}{suffix}", suffix),
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**6).map(str),
    st.one_of(st.just(""), st.integers(0, 99).map(lambda n: f".{n:02}")),
    st.sampled_from(sorted(_SUFFIXES)),
)


def _exact(text: str, suffix: str) -> Fraction:
    return Fraction(text.removesuffix(suffix)) * _SUFFIXES[suffix]


def _number(quantity: Quantity) -> Fraction:
    return Fraction(quantity._unscaled) * Fraction(10) ** quantity._scale


@given(_numbers, _numbers)
@settings(max_examples=100)
def test_numbers_are_exact(a: tuple[str, str], b: tuple[str, str]) -> None:
    x, y = parse(a[0]), parse(b[0])
    assert _number(x) == _exact(*a)
    assert _number(x + y) == _exact(*a) + _exact(*b)
    assert _number(x - y) == _exact(*a) - _exact(*b)
    assert (x < y, x == y) == (_exact(*a) < _exact(*b), _exact(*a) == _exact(*b))


@given(_numbers)
@settings(max_examples=100)
def test_the_canonical_form_says_the_same_number(written: tuple[str, str]) -> None:
    quantity = parse(written[0])
    assert parse(str(quantity)) == quantity
    assert str(parse(str(quantity))) == str(quantity)


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP", max_size=30))
@settings(max_examples=100)
def test_any_text_is_a_quantity_or_an_error(text: str) -> None:
    try:
        quantity = parse(text)
    except QuantityError:
        return
    assert parse(str(quantity)) == quantity
    assert isinstance(quantity.value() + quantity.milli_value(), int)


@pytest.mark.req("S.1")
@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("9223372036854775807", 9223372036854775807, -1000),
        ("-9223372036854775807", 1, 1000),
        ("-9223372036854775808", 0, 0),
        ("-9223372036854775809", -1, -1000),
        ("9223372036854775808", -9223372036854775808, 0),
        ("-9223372036854775808m", 0, 0),
        ("9223372036854775806.5", 9223372036854775807, -1500),
        ("9223372036854775000e3", -808000, -808000000),
        ("-8Ei", -9223372036854775807, 1000),
        ("7Ei", 8070450532247928832, -9223372036854775808),
        ("10E", 0, 0),
    ],
)
def test_numbers_at_the_edge_of_64_bits_make_kubernetes_nonsense(text: str, value: int, milli: int) -> None:
    """What `Value()` and `MilliValue()` of apimachinery 1.37 gave for these texts."""
    found = Quantity.parse(text)
    assert (found.value(), found.milli_value()) == (value, milli)
