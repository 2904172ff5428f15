"""The renderer of upstream's scheduler_perf manifests."""

import pytest
from benchmarks.go_template import TemplateError, render

CASES = {
    "a field": ("pod-{{.Index}}", "pod-7"),
    "a field with spaces": ("pod-{{ .Index }}", "pod-7"),
    "a call": ("{{Mod .Index 3}}", "1"),
    "nested calls": ("{{AddInt 8000 (Mod .Index (DivideInt .Count 2))}}", "8002"),
    "a pipe": ('{{(or .missing "x") | JSON}}', '"x"'),
    "a variable": ("{{$n := or .missing 2}}{{$n}}", "2"),
    "a condition that holds": ("{{if .Index}}yes{{else}}no{{end}}", "yes"),
    "a condition that does not hold": ("{{if .missing}}yes{{else}}no{{end}}", "no"),
    "a condition without else": ("[{{if .missing}}yes{{end}}]", "[]"),
    "nested conditions": ("{{if .Index}}{{if .missing}}a{{else}}b{{end}}c{{end}}", "bc"),
    "a range over a number": ("{{range $i := 3}}{{$i}},{{end}}", "0,1,2,"),
    "a range that shows its item": ("{{range 2}}{{.}}{{end}}", "01"),
    "a variable from outside inside a range": ("{{$n := 5}}{{range 2}}{{Mod $n 3}}{{end}}", "22"),
    "trimmed white space": ("a  {{- .Index -}}  b", "a7b"),
    "an absent value, as Go prints it": ("{{.missing}}", "<no value>"),
}


@pytest.mark.req("V.5")
@pytest.mark.parametrize(("template", "expected"), CASES.values(), ids=CASES.keys())
def test_a_template_renders_as_go_renders_it(template: str, expected: str) -> None:
    assert render(template, {"Index": 7, "Count": 10}) == expected


@pytest.mark.req("V.5")
@pytest.mark.parametrize(
    ("template", "reason"),
    [
        pytest.param("{{Frobnicate 1}}", "Frobnicate", id="an unknown function"),
        pytest.param("{{$x}}", r"\$x", id="an unknown variable"),
        pytest.param("{{if .Index}}", "no {{end}}", id="a block that is not closed"),
        pytest.param("{{end}}", "unexpected", id="an end without a block"),
        pytest.param("{{(Mod 3 2}}", "parenthesis", id="an open parenthesis"),
    ],
)
def test_an_unsupported_template_is_refused_with_its_reason(template: str, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        render(template, {"Index": 7})
