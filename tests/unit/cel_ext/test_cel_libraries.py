"""What the functions of the extension libraries give, library by library."""

from dataclasses import dataclass

import pytest

from mooring.cel.environment import Environment
from mooring.cel.errors import EvaluationError
from mooring.cel.ext.bindings import BINDINGS
from mooring.cel.ext.comprehensions import TWO_VARIABLES
from mooring.cel.ext.encoders import ENCODERS
from mooring.cel.ext.lists import lists
from mooring.cel.ext.math import MATH
from mooring.cel.ext.network import NETWORK
from mooring.cel.ext.optionals import OPTIONALS
from mooring.cel.ext.sets import SETS
from mooring.cel.ext.strings import strings
from mooring.cel.standard import STANDARD
from mooring.cel.types import DYN, INT, STRING, list_of, map_of

EVERYTHING = Environment(
    variables={"texts": list_of(STRING), "numbers": list_of(INT), "labels": map_of(STRING, STRING), "any": DYN},
    libraries=(
        STANDARD,
        OPTIONALS,
        TWO_VARIABLES,
        strings(),
        lists(),
        SETS,
        MATH,
        BINDINGS,
        ENCODERS,
        *NETWORK,
    ),
)
BINDINGS_USED = {"texts": ["b", "a", "b"], "numbers": [3, 1, 2], "labels": {"x": "1", "y": "2"}, "any": 7}


@dataclass(frozen=True)
class Case:
    """An expression that must be true."""

    name: str
    expression: str


@dataclass(frozen=True)
class Failure:
    """An expression that compiles and has no value."""

    name: str
    expression: str
    message: str


TRUTHS = (
    Case("charAt gives an empty text at the end", "'abc'.charAt(3) == ''"),
    Case("charAt counts code points", "'é😀z'.charAt(1) == '😀'"),
    Case("indexOf from an offset", "'tacocat'.indexOf('a', 3) == 5"),
    Case("lastIndexOf overlapping itself", "'bananananana'.lastIndexOf('nana', 7) == 6"),
    Case("join of nothing", "texts.filter(t, false).join('-') == ''"),
    Case("join with a separator", "texts.join('-') == 'b-a-b'"),
    Case("lowerAscii leaves other letters alone", "'ÄBC'.lowerAscii() == 'Äbc'"),
    Case("upperAscii leaves other letters alone", "'äbc'.upperAscii() == 'äBC'"),
    Case("replace of an empty text surrounds every character", "'ab'.replace('', '-') == '-a-b-'"),
    Case("replace at most as often as it is told", "'aaa'.replace('a', 'b', 2) == 'bba'"),
    Case("replace without a limit when it is negative", "'aaa'.replace('a', 'b', -1) == 'bbb'"),
    Case("split into characters", "'abc'.split('') == ['a', 'b', 'c']"),
    Case("split into characters with a limit", "'abc'.split('', 2) == ['a', 'bc']"),
    Case("split with a limit", "'a-b-c'.split('-', 2) == ['a', 'b-c']"),
    Case("substring up to the end", "'abc'.substring(3) == ''"),
    Case("trim takes Unicode's spaces", "'\\u2003a\\u00a0'.trim() == 'a'"),
    Case("reverse of a text", "'abc'.reverse() == 'cba'"),
    Case("quote escapes", "strings.quote('a\"\\n') == '\"a\\\\\"\\\\n\"'"),
    Case("slice of a list", "[1, 2, 3, 4].slice(1, 3) == [2, 3]"),
    Case("slice to nothing", "[1].slice(1, 1) == []"),
    Case("flatten one level", "[[1], [2, 3]].flatten() == [1, 2, 3]"),
    Case("flatten several levels", "[dyn(1), [2, [3, [4]]]].flatten(2) == [dyn(1), 2, 3, [4]]"),
    Case("sort of texts", "texts.sort() == ['a', 'b', 'b']"),
    Case("sortBy a key", "numbers.sortBy(n, -n) == [3, 2, 1]"),
    Case("sortBy of what a call gives", "texts.map(t, t).sortBy(t, t) == ['a', 'b', 'b']"),
    Case("range of numbers", "lists.range(3) == [0, 1, 2]"),
    Case("range of nothing", "lists.range(0) == []"),
    Case("reverse of a list", "numbers.reverse() == [2, 1, 3]"),
    Case("distinct keeps the first", "texts.distinct() == ['b', 'a']"),
    Case("distinct takes equal numbers for the same", "[dyn(1), 1.0, 1u, true].distinct() == [dyn(1), true]"),
    Case("distinct of lists", "[[1], [2], [1]].distinct() == [[1], [2]]"),
    Case("first and last of a list", "numbers.first().value() == 3 && numbers.last().value() == 2"),
    Case("first of nothing", "!numbers.filter(n, false).first().hasValue()"),
    Case("sets contain across kinds of numbers", "sets.contains([dyn(1), 2.0], [dyn(2u)])"),
    Case("sets are equivalent in any order", "sets.equivalent([1, 2, 2], [2, 1])"),
    Case("sets intersect", "sets.intersects(['a'], texts)"),
    Case("sets with nothing do not intersect", "!sets.intersects([], [1])"),
    Case("greatest over kinds of numbers", "math.greatest(1, 2u, 1.5) == 2u"),
    Case("greatest keeps the first of equals", "type(math.greatest(2, 2.0)) == int"),
    Case("least of a list", "math.least(numbers) == 1"),
    Case("round halves away from zero", "math.round(-2.5) == -3.0 && math.round(2.5) == 3.0"),
    Case("round of numbers that have no fraction", "math.round(4503599627370497.0) == 4503599627370497.0"),
    Case("the sign of a uint is one", "math.sign(7u) == 1u"),
    Case("the square root of less than nothing", "math.isNaN(math.sqrt(-1))"),
    Case("shifting a negative number right brings in zeros", "math.bitShiftRight(-1, 63) == 1"),
    Case("bind gives a value a name", "cel.bind(x, 'a' + 'b', x + x) == 'abab'"),
    Case("a bound name hides a variable", "cel.bind(numbers, [1], numbers.size()) == 1"),
    Case("base64 there and back", "base64.decode(base64.encode(b'hello')) == b'hello'"),
    Case("base64 without padding", "base64.decode('aGVsbG8') == b'hello'"),
    Case("all over keys and values", "labels.all(k, v, k != v)"),
    Case("exists over indices", "numbers.exists(i, n, i == 1 && n == 1)"),
    Case("existsOne over indices", "numbers.existsOne(i, n, i + 1 == n || n == 3)"),
    Case("transformList with a condition", "numbers.transformList(i, n, i > 0, n * 10) == [10, 20]"),
    Case("transformMap keeps the keys", "labels.transformMap(k, v, k + v) == {'x': 'x1', 'y': 'y2'}"),
    Case("transformMap of a list has its indices as keys", "texts.transformMap(i, t, t)[1] == 'a'"),
    Case("transformMapEntry makes new keys", "labels.transformMapEntry(k, v, {v: k}) == {'1': 'x', '2': 'y'}"),
    Case("or looks no further than it must", "optional.of(1).or(optional.of(1 / (any - 7))).value() == 1"),
    Case("orValue looks no further than it must", "optional.of(1).orValue(1 / (any - 7)) == 1"),
    Case("optMap of a value", "labels[?'x'].optMap(v, v + '!').orValue('') == '1!'"),
    Case("optMap of nothing", "!labels[?'z'].optMap(v, v + '!').hasValue()"),
    Case("optFlatMap", "labels[?'x'].optFlatMap(v, optional.ofNonZeroValue(v)).hasValue()"),
    Case("ofNonZeroValue takes nothing for none", "!optional.ofNonZeroValue('').hasValue()"),
    Case("unwrap leaves out what is missing", "optional.unwrap([labels[?'x'], labels[?'z']]) == ['1']"),
    Case("unwrapOpt is the same for a list", "[labels[?'z'], labels[?'y']].unwrapOpt() == ['2']"),
    Case("an address is printed the canonical way", "string(ip('2001:DB8::0:1')) == '2001:db8::1'"),
    Case("a range is masked", "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')"),
    Case("a range contains a smaller one", "cidr('10.0.0.0/8').containsCIDR('10.1.2.0/24')"),
    Case("a range does not contain a larger one", "!cidr('10.1.0.0/16').containsCIDR('10.0.0.0/8')"),
    Case("families do not mix", "!cidr('::/0').containsIP('10.0.0.1')"),
    Case("leading zeros are no address", "!isIP('010.0.0.1') && !isCIDR('10.0.0.0/08')"),
    Case("zones are no address", "!isIP('fe80::1%eth0')"),
    Case("multicast of the link", "ip('ff02::1').isLinkLocalMulticast() && !ip('ff05::1').isLinkLocalMulticast()"),
    Case("the type of an address has a name", "type(ip('::1')) == net.IP"),
)


@pytest.mark.parametrize("case", TRUTHS, ids=lambda case: case.name)
def test_library_function(case: Case) -> None:
    program = EVERYTHING.compile(case.expression)
    assert program.issues == ()
    assert program.evaluate(BINDINGS_USED) is True


@pytest.mark.parametrize("case", TRUTHS, ids=lambda case: case.name)
def test_library_function_gives_the_same_when_its_cost_is_counted(case: Case) -> None:
    value, cost = EVERYTHING.compile(case.expression).evaluate_counted(BINDINGS_USED, limit=10**6)
    assert value is True
    assert cost >= 0


FAILURES = (
    Failure("charAt behind the end", "'abc'.charAt(4)", "index out of range: 4"),
    Failure("indexOf before the start", "'abc'.indexOf('a', -1)", "index out of range: -1"),
    Failure("indexOf behind the end", "'abc'.indexOf('a', 4)", "index out of range: 4"),
    Failure("lastIndexOf behind the end", "'abc'.lastIndexOf('a', 4)", "index out of range: 4"),
    Failure("substring backwards", "'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
    Failure("substring behind the end", "'abc'.substring(1, 4)", "index out of range: 4"),
    Failure("slice behind the end", "[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
    Failure("flatten to a negative depth", "[[1]].flatten(-1)", "level must be non-negative"),
    Failure("sort of different types", "[dyn(1), 'a'].sort()", "list elements must have the same type"),
    Failure("sort of what has no order", "[dyn([1]), [2]].sort()", "list elements must be comparable"),
    Failure("a range of less than nothing", "lists.range(-1)", "size must be non-negative, got -1"),
    Failure("a range that nobody can pay for", "lists.range(1000001)", "exceeds maximum allowed"),
    Failure("greatest of nothing", "math.greatest(numbers.filter(n, false))", "must not be empty"),
    Failure("greatest of texts", "math.greatest(dyn(texts))", "no such overload"),
    Failure("the absolute of the least number", "math.abs(-9223372036854775807 - 1)", "overflow"),
    Failure("a shift to the other side", "math.bitShiftLeft(1, -1)", "negative offset: -1"),
    Failure("what is not base64", "base64.decode('*')", "illegal base64 data"),
    Failure("a key twice", "texts.transformMapEntry(i, t, {t: i})", "key b already exists"),
    Failure("the value of none", "labels[?'z'].value()", "optional.none() dereference"),
    Failure("what is no address", "ip('10.0.0')", "unable to parse IP"),
    Failure("a prefix that is too long", "cidr('10.0.0.0/33')", "bad bits after slash"),
    Failure("a range without a prefix", "cidr('10.0.0.0')", 'has no "/"'),
    Failure("an address inside another in text", "ip('::ffff:1.2.3.4')", "IPv4-mapped"),
    Failure(
        "a text that is too long",
        "lists.range(100001).map(i, 'xxxxxxxxxx').join()",
        "more than 1000000 characters",
    ),
)


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.name)
def test_library_function_fails(case: Failure) -> None:
    program = EVERYTHING.compile(case.expression)
    assert program.issues == ()
    with pytest.raises(EvaluationError) as caught:
        program.evaluate(BINDINGS_USED)
    assert case.message in caught.value.message


REFUSED = (
    Failure("optMap with something else than a name", "labels[?'x'].optMap(1, 2)", "simple identifier"),
    Failure("sortBy with something else than a name", "numbers.sortBy(1, 2)", "simple name"),
    Failure("sortBy on a literal", "'a'.sortBy(e, e)", "sortBy can only be applied"),
    Failure("two variables of one name", "labels.all(k, k, true)", "duplicate variable name: k"),
    Failure("greatest of a text", "math.greatest('a')", "invalid single argument value"),
    Failure("greatest of nothing at all", "math.greatest()", "requires at least one argument"),
    Failure("greatest of a number and a text", "math.greatest(1, 'a')", "simple literal arguments must be numeric"),
    Failure("bind with something else than a name", "cel.bind(1, 2, 3)", "simple identifiers"),
)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_macro_refuses(case: Failure) -> None:
    issues = EVERYTHING.compile(case.expression).issues
    assert any(case.message in issue.message for issue in issues), issues


def test_functions_come_with_the_version_of_the_library() -> None:
    old = Environment(libraries=(STANDARD, strings(0), lists(1)))
    for expression in ("'a'.reverse()", "'%s'.format(['a'])", "strings.quote('a')", "[1].sort()", "lists.range(1)"):
        assert old.compile(expression).issues, expression
    assert not old.compile("'a'.charAt(0) == '' && [[1]].flatten().size() == 1").issues
