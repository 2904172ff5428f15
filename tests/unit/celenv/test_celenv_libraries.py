"""What the functions of Kubernetes' CEL libraries give."""

from dataclasses import dataclass

import pytest

from mooring.cel.errors import EvaluationError
from mooring.constraints.celenv import NODE

KUBERNETES = NODE.stored_expressions()


@dataclass(frozen=True)
class Case:
    """An expression that must be true."""

    name: str
    expression: str


@dataclass(frozen=True)
class Failure:
    """An expression that compiles and has no value."""

    expression: str
    message: str


TRUTHS = (
    Case("find gives the first match", "'abc123def456'.find('[0-9]+') == '123'"),
    Case("find gives an empty text without a match", "'abc'.find('[0-9]+') == ''"),
    Case("findAll gives every match", "'1a22b333'.findAll('[0-9]+') == ['1', '22', '333']"),
    Case("findAll at most as often as it is told", "'1a22b333'.findAll('[0-9]+', 2) == ['1', '22']"),
    Case("findAll not at all", "'1a22'.findAll('[0-9]+', 0) == []"),
    Case("findAll skips what is empty next to a match", "'baac'.findAll('a*') == ['', 'aa', '']"),
    Case("isSorted", "[1, 2, 2].isSorted() && !['b', 'a'].isSorted()"),
    Case("sum of numbers", "[1, 3].sum() == 4 && [1.0, 3.0].sum() == 4.0 && [1u].sum() == 1u"),
    Case("sum of durations", "[duration('1m'), duration('1s')].sum() == duration('61s')"),
    Case("min and max", "[3, 1, 2].min() == 1 && ['a', 'c', 'b'].max() == 'c'"),
    Case("indexOf and lastIndexOf", "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2"),
    Case("indexOf what is not there", "[1].indexOf(2) == -1"),
    Case("includes in a list and by itself", "[1, 2].includes(2) && 'a'.includes('a') && !'ab'.includes('a')"),
    Case("an absolute URL", "url('https://user:pw@example.com:80/path?q=1#f').getHost() == 'example.com:80'"),
    Case(
        "the parts of a URL",
        "url('https://[::1]:80/a b').getHostname() == '::1' && url('https://h:8/').getPort() == '8'",
    ),
    Case("a path is escaped", "url('https://h/a b').getEscapedPath() == '/a%20b'"),
    Case("a path that is escaped stays as it is", "url('https://h/a%20b/%2F!').getEscapedPath() == '/a%20b/%2F!'"),
    Case("a query may repeat a key", "url('/p?a=1&a=2&b=x+y').getQuery() == {'a': ['1', '2'], 'b': ['x y']}"),
    Case("a path is a URL", "isURL('/a') && url('/a').getScheme() == ''"),
    Case("a relative path is no URL", "!isURL('../a') && !isURL('a') && !isURL('')"),
    Case("a port must be a number", "!isURL('https://a:b/') && !isURL('https://a:b:c/')"),
    Case("a host without spaces", "!isURL('https://a b/')"),
    Case("equal URLs", "url('https://h/a') == url('https://h/a')"),
    Case("quantities compare as numbers", "quantity('1Gi').isGreaterThan(quantity('1G'))"),
    Case("equal quantities in other words", "quantity('1000m') == quantity('1')"),
    Case(
        "quantities add up",
        "quantity('50k').add(20) == quantity('50020') && quantity('50k').sub(quantity('20k')) == quantity('30k')",
    ),
    Case("the sign of a quantity", "sign(quantity('-1')) == -1"),
    Case("a quantity as an integer", "quantity('50k').asInteger() == 50000 && !quantity('1.5').isInteger()"),
    Case("what is a quantity", "isQuantity('1.3Gi') && !isQuantity('200K')"),
    Case("versions in their order", "semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))"),
    Case("build metadata does not count", "semver('1.0.0+a') == semver('1.0.0+b')"),
    Case("strict versions", "!isSemver('v1.0.0') && !isSemver('1.0') && !isSemver('01.0.0')"),
    Case("normalised versions", "semver('v01.2', true) == semver('1.2.0')"),
    Case("normalising does not trim", "!isSemver(' 1.0.0', true)"),
    Case("semver.compare trims", "semver.compare(' v1.2 ', '1.x')"),
    Case(
        "the parts of a version",
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
    ),
    Case("ranges", "semver.compare('5.15', '>=5.10') && !semver.compare('5.9', '>=5.10 <6 || 7.x')"),
    Case("a right label has nothing wrong", "!format.dns1123Label().validate('my-label').hasValue()"),
    Case("a wrong label says what", "format.dns1123Label().validate('-a').value()[0].contains('RFC 1123')"),
    Case("a prefix may end with a dash", "!format.dns1123LabelPrefix().validate('my-label-').hasValue()"),
    Case("formats by name", "format.named('uuid').value() == format.uuid() && !format.named('x').hasValue()"),
    Case("uuid", "!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()"),
    Case("not a uuid", "format.uuid().validate('123').value() == ['does not match the UUID format']"),
    Case("byte", "!format.byte().validate('aGVsbG8=').hasValue() && format.byte().validate('*').hasValue()"),
    Case("date", "!format.date().validate('2021-01-01').hasValue() && format.date().validate('2021-13-01').hasValue()"),
    Case("datetime", "!format.datetime().validate('2021-01-01T00:00:00Z').hasValue()"),
    Case("uri", "!format.uri().validate('http://example.com').hasValue() && format.uri().validate('a').hasValue()"),
    Case("an IPv4 address in IPv6 is refused", "!isIP('::ffff:c0a8:1') && !isCIDR('::ffff:1.2.3.4/24')"),
)


@pytest.mark.req("5500.2")
@pytest.mark.parametrize("case", TRUTHS, ids=lambda case: case.name)
def test_library_function(case: Case) -> None:
    program = KUBERNETES.compile(case.expression)
    assert program.issues == ()
    assert program.evaluate({"node": {"labels": {}}}) is True


FAILURES = (
    Failure("'a'.find(node.labels['regex']) == ''", "regexp"),
    Failure("[1].filter(x, x > 1).min() == 1", "min called on empty list"),
    Failure("[9223372036854775807, 1].sum() == 0", "overflow"),
    Failure("url('https://a:b/').getHost() == ''", "URL parse error"),
    Failure("quantity('1.5').asInteger() == 1", "cannot convert value to integer"),
    Failure("quantity('lots').isInteger()", "quantities must match"),
    Failure("semver('one').major() == 1", "No Major.Minor.Patch elements found"),
    Failure("semver.compare('one', '1.x')", 'Invalid character(s) found in major number "one"'),
    Failure("semver.compare('1.0.0', 'one')", "Could not get version from string"),
    Failure("semver.compare('1.0.0', '^1.0.0')", "Could not parse comparator"),
)


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.expression)
def test_library_function_fails(case: Failure) -> None:
    program = KUBERNETES.compile(case.expression)
    assert program.issues == ()
    with pytest.raises(EvaluationError) as caught:
        program.evaluate({"node": {"labels": {"regex": "["}}})
    assert case.message in caught.value.message


@dataclass(frozen=True)
class Cost:
    """What counting finds, with each of the labels' texts as long as it says."""

    expression: str
    cost: int


COSTS = (
    Cost("[1, 2, 3].indexOf(2) == 1", 4),
    Cost("['a' + node.labels['x20']].isSorted()", 10 + 3 + 3 + 2),
    Cost("[1, 2].includes(2)", 2),
    Cost("url(node.labels['path']) == url('/')", 3 + 1 + 1 + 1),
    Cost("quantity('1') == quantity('1')", 3),
    Cost("quantity('1') != quantity('2')", 3),
    Cost("semver.compare('1.0.0', '>=1.0.0')", 3),
    Cost("cidr('2001:db8::/64').containsIP('2001:db8::1')", 2 + 2 + 2),
    Cost("cidr('10.0.0.0/24').containsCIDR('10.0.0.0/25')", 2 + 1 + 1 + 1 + 2),
    Cost("ip.isCanonical('10.0.0.1')", 2),
    Cost("format.uuid().validate('x').hasValue()", 1 + 18 + 1),
    Cost("lists.range(5).size() == 5", 16 + 1 + 1),
    Cost("[3, 1].distinct().size() == 2", 8 + 11 + 1 + 1),
)


@pytest.mark.parametrize("case", COSTS, ids=lambda case: case.expression)
def test_counted_cost(case: Cost) -> None:
    labels = {"x20": "x" * 20, "path": "/a"}
    _, cost = KUBERNETES.compile(case.expression).evaluate_counted({"node": {"labels": labels}}, limit=10**6)
    assert cost == case.cost


LONG = "https://example.com/" + "abcdefghij" * 8
TEXT = "abcdefghij" * 3


@pytest.mark.req("5500.3", "5500.4")
@pytest.mark.parametrize(
    ("expression", "least", "most", "counted"),
    [
        (f"strings.quote('{TEXT}')", 3, 3, 3),
        ("strings.quote('')", 0, 0, 0),
        (f"strings.quote('{TEXT}').contains('a')", 7, 10, 7),
        (f"strings.quote(strings.quote('{TEXT}'))", 7, 10, 7),
        (f"'{TEXT}'.includes('a')", 30, 30, 3),
        (f"dyn('{TEXT}').includes('a')", 31, 31, 3),
        ("dyn(['abc', 'b']).includes('a')", 13, 13, 0),
        ("b'abc'.includes(b'c')", 3, 3, 0),
        (f"url('{LONG}') == url('https://example.com/abcdefghij')", 14, 16, 14),
        (f"url('https://example.com/') == url('{LONG}')", 13, 22, 13),
    ],
)
def test_costs_are_those_of_kube_apiserver(expression: str, least: int, most: int, counted: int) -> None:
    """Measured with the environment of Kubernetes 1.37."""
    program = KUBERNETES.compile(expression)
    assert (program.min_cost, program.max_cost) == (least, most)
    assert program.evaluate_counted({"node": None})[1] == counted
