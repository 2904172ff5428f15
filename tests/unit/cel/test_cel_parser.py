"""The grammar: literals, operators and their order, selectors, limits, and where mistakes are reported."""

from dataclasses import dataclass

import pytest

from mooring.cel import Environment
from mooring.cel import operators as op
from mooring.cel.macros import STANDARD_MACROS
from mooring.cel.parser import MAX_DEPTH, MAX_LENGTH, Source, parse
from mooring.cel.syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from mooring.cel.values import UInt, Value

pytestmark = pytest.mark.req("5500.2")

MACROS = {(macro.name, macro.receiver, macro.args): macro for macro in STANDARD_MACROS}


def parsed(text: str) -> Expr:
    source = Source(text)
    expr = parse(source, MACROS)
    assert expr is not None, source.issues
    return expr


def shown(expr: Expr) -> str:
    """Return the tree as text, every call with parentheses."""
    match expr:
        case Literal():
            return repr(expr.value)
        case Ident():
            return expr.name
        case Select():
            return f"{'has ' if expr.test_only else ''}{shown(expr.operand)}.{expr.name}"
        case Call():
            target = "" if expr.target is None else f"{shown(expr.target)}."
            return f"{target}{expr.function}({', '.join(map(shown, expr.args))})"
        case ListExpr():
            return f"[{', '.join(('?' if i in expr.optional else '') + shown(e) for i, e in enumerate(expr.elements))}]"
        case MapExpr():
            entries = (f"{'?' if e.optional else ''}{shown(e.key)}: {shown(e.value)}" for e in expr.entries)
            return f"{{{', '.join(entries)}}}"
        case StructExpr():
            fields = (f"{'?' if f.optional else ''}{f.name}: {shown(f.value)}" for f in expr.fields)
            return f"{expr.type_name}{{{', '.join(fields)}}}"
        case Comprehension():
            return f"loop {expr.iter_var} over {shown(expr.iter_range)}: {shown(expr.step)} -> {shown(expr.result)}"
    raise AssertionError(expr)


@dataclass(frozen=True)
class LiteralCase:
    id: str
    text: str
    value: Value


LITERALS = [
    LiteralCase("a decimal int", "42", 42),
    LiteralCase("the smallest int", "-9223372036854775808", -(2**63)),
    LiteralCase("a hexadecimal int", "0xFf", 255),
    LiteralCase("a uint", "7u", UInt(7)),
    LiteralCase("a hexadecimal uint", "0x10U", UInt(16)),
    LiteralCase("a double", "1.5e3", 1500.0),
    LiteralCase("a double without a whole part", ".5", 0.5),
    LiteralCase("a negative double", "-2.5", -2.5),
    LiteralCase("an even number of signs cancels out", "--1", 1),
    LiteralCase("both quotes", """'a"b'""", 'a"b'),
    LiteralCase("escapes", r"'\a\n\t\\\x41\u00e9\U0001F600\101\?\`'", "\a\n\t\\A\u00e9\U0001f600A?`"),
    LiteralCase("a raw string", r"r'\n'", "\\n"),
    LiteralCase("a triple-quoted string", '"""a"b\nc"""', 'a"b\nc'),
    LiteralCase("a raw triple-quoted string", r"R'''\d'x'''", "\\d'x"),
    LiteralCase("line ends become newlines", "'''a\r\nb\rc'''", "a\nb\nc"),
    LiteralCase("bytes are UTF-8", "b'\u00e9'", "\u00e9".encode()),
    LiteralCase("escapes in bytes are bytes", r"b'\xff\101'", b"\xffA"),
    LiteralCase("raw bytes", r"br'\x'", b"\\x"),
    LiteralCase("true", "true", True),
    LiteralCase("null", "null", None),
]


@pytest.mark.parametrize("case", LITERALS, ids=lambda case: case.id)
def test_a_literal_has_its_value(case: LiteralCase) -> None:
    expr = parsed(case.text)
    assert isinstance(expr, Literal)
    assert (expr.value, type(expr.value)) == (case.value, type(case.value))


@dataclass(frozen=True)
class TreeCase:
    id: str
    text: str
    tree: str


TREES = [
    TreeCase("multiplication binds tighter", "1 + 2 * 3", "_+_(1, _*_(2, 3))"),
    TreeCase("operators lean to the left", "1 - 2 - 3", "_-_(_-_(1, 2), 3)"),
    TreeCase("comparison is looser than arithmetic", "a + 1 < b", "_<_(_+_(a, 1), b)"),
    TreeCase("and binds tighter than or", "a || b && c", "_||_(a, _&&_(b, c))"),
    TreeCase("long chains are balanced", "a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"),
    TreeCase("parentheses keep a chain apart", "(a && b) && c && d", "_&&_(_&&_(_&&_(a, b), c), d)"),
    TreeCase("conditions chain to the right", "a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
    TreeCase("in", "'x' in m", "@in('x', m)"),
    TreeCase("two negations cancel out", "!!a", "a"),
    TreeCase("negation of an expression", "-a", "-_(a)"),
    TreeCase("a sign belongs to its number", "-1.f()", "-1.f()"),
    TreeCase("fields, indices and calls", "a.b['c'].d(1, 2)", "_[_](a.b, 'c').d(1, 2)"),
    TreeCase("reserved words may be fields", "a.for", "a.for"),
    TreeCase("back-quoted fields", "a.`b-c/d.e`", "a.b-c/d.e"),
    TreeCase("a leading dot", ".a.b", ".a.b"),
    TreeCase("optional selection", "a.?b[?0]", "_[?_](_?._(a, 'b'), 0)"),
    TreeCase("optional elements and entries", "[?a, b] == {?'k': v}", "_==_([?a, b], {?'k': v})"),
    TreeCase("a trailing comma", "[1, 2,]", "[1, 2]"),
    TreeCase("a comma in an empty list", "[,]", "[]"),
    TreeCase("a negative number may be negated", "!-1", "!_(-1)"),
    TreeCase("a message", "a.B{c: 1, ?d: e}", "a.B{c: 1, ?d: e}"),
    TreeCase("comments and line ends are skipped", "1 // one\n + 2", "_+_(1, 2)"),
    TreeCase("has", "has(a.b)", "has a.b"),
    TreeCase("all", "l.all(x, x > 1)", "loop x over l: _&&_(@result, _>_(x, 1)) -> @result"),
    TreeCase("filter", "l.filter(x, p)", "loop x over l: _?_:_(p, _+_(@result, [x]), @result) -> @result"),
    TreeCase("a macro's name with other arguments is a call", "l.all(x)", "l.all(x)"),
]


@pytest.mark.parametrize("case", TREES, ids=lambda case: case.id)
def test_an_expression_has_its_tree(case: TreeCase) -> None:
    assert shown(parsed(case.text)) == case.tree


@dataclass(frozen=True)
class MistakeCase:
    id: str
    text: str
    line: int
    column: int
    message: str


MISTAKES = [
    MistakeCase("nothing at all", "", 1, 0, "mismatched input '<EOF>'"),
    MistakeCase("an operator without its right side", "a ==", 1, 5, "mismatched input '<EOF>'"),
    MistakeCase("an unknown character", "a # b", 1, 3, "token recognition error at: '#'"),
    MistakeCase("a string without an end", "a == 'b", 1, 6, "token recognition error"),
    MistakeCase("an unknown escape", r"'\q'", 1, 1, "token recognition error"),
    MistakeCase("a closing bracket too few", "a['b'", 1, 6, "missing ']' at '<EOF>'"),
    MistakeCase("a comma too many", "a['b',]", 1, 6, "extraneous input ',' expecting ']'"),
    MistakeCase("two commas", "[1,,2]", 1, 4, "mismatched input ','"),
    MistakeCase("several open brackets", "f([{'a': (1", 1, 12, "missing ')' at '<EOF>'"),
    MistakeCase("something behind the end", "a b", 1, 3, "extraneous input 'b' expecting <EOF>"),
    MistakeCase("a string as a field", "'a'.'b'", 1, 5, "no viable alternative"),
    MistakeCase("a reserved word", "a + for", 1, 5, "reserved identifier: for"),
    MistakeCase("on the second line", "a &&\n  &&", 2, 3, "mismatched input '&&'"),
    MistakeCase("an int too large", "1 + 9223372036854775808", 1, 5, "invalid int literal"),
    MistakeCase("a uint too large", "18446744073709551616u", 1, 1, "invalid uint literal"),
    MistakeCase("a double too large", "1e999", 1, 1, "invalid double literal"),
    MistakeCase("thousands of digits", "1" * 5000, 1, 1, "invalid int literal"),
    MistakeCase("a surrogate", r"'\ud800'", 1, 1, "invalid unicode code point"),
    MistakeCase("unicode escapes in bytes", r"b'\u00e9'", 1, 1, "not allowed in bytes"),
    MistakeCase("a nested condition without parentheses", "a ? b ? c : d : e", 1, 7, "expecting ':'"),
    MistakeCase("has of something that is no field", "has(a)", 1, 5, "invalid argument to has() macro"),
    MistakeCase("a loop variable that is no name", "l.all(x.y, true)", 1, 8, "argument must be a simple name"),
]


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case.id)
def test_a_mistake_is_reported_where_it_is(case: MistakeCase) -> None:
    source = Source(case.text)
    assert parse(source, MACROS) is None
    first = source.issues[0]
    assert (first.line, first.column) == (case.line, case.column)
    assert case.message in first.message


def test_an_issue_shows_the_line_and_a_caret() -> None:
    source = Source("true &&\n a #")
    parse(source, MACROS)
    assert (
        str(source.issues[0]) == "ERROR: <input>:2:4: Syntax error: token recognition error at: '#'\n |  a #\n | ...^"
    )


def test_mistakes_gather_in_the_order_of_the_text() -> None:
    source = Source("for + # if")
    parse(source, MACROS)
    assert [(issue.column, issue.message.split(":")[0]) for issue in source.issues] == [
        (1, "reserved identifier"),
        (7, "Syntax error"),
        (9, "reserved identifier"),
    ]


def test_optional_syntax_can_be_switched_off() -> None:
    source = Source("a.?b")
    assert parse(source, MACROS, optional_syntax=False) is None
    assert "unsupported syntax" in source.issues[0].message


HOSTILE = {
    "ten thousand parentheses": "(" * 10_000 + "1" + ")" * 10_000,
    "ten thousand brackets": "[" * 10_000,
    "ten thousand braces": "{" * 10_000,
    "ten thousand calls": "f(" * 10_000,
    "a long sum": "+".join("1" * 2_000),
    "a long path": "a" + ".b" * 2_000,
    "many conditions": "a ? b : " * 2_000 + "c",
    "many question marks": "?" * 2_000,
    "a text that is too long": "1" + " " * MAX_LENGTH,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_nesting_is_an_issue(text: str) -> None:
    assert Environment().compile(text).issues


@pytest.mark.parametrize(
    "text", ["(" * (MAX_DEPTH - 1) + "1" + ")" * (MAX_DEPTH - 1), "-" * 9_999 + "a", "!" * 9_999 + "a"]
)
def test_what_is_just_allowed_parses(text: str) -> None:
    parsed(text)


def test_every_operator_that_can_be_written_has_a_name() -> None:
    for symbol, name in op.BINARY.items():
        call = parsed(f"a {symbol} b")
        assert isinstance(call, Call)
        assert call.function == name
