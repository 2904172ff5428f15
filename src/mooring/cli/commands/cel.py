"""`mooring cel`: check, evaluate and estimate CEL expressions of tolerations and node affinity, without a server.

An expression is checked as the API server would check a new one (`--version` is its minimum compatibility version), or
with `--stored` as a stored one. Inputs are taints or nodes in JSON or YAML: a plain object, a Kubernetes
object, a list of either, or several documents.
"""

import json
import sys
from collections.abc import Iterator
from typing import IO, Any

import click
import msgspec
import yaml

from mooring.base.version import BINARY, Version, VersionError
from mooring.cel.environment import Program
from mooring.cel.errors import EvaluationError
from mooring.cel.values import Duration, Optional, Timestamp, from_key
from mooring.cli.support.flags import group_flags
from mooring.cli.support.output import output_option, print_data, print_table, report_errors
from mooring.constraints.celenv import COST_LIMIT, NODE, TAINT, Environments

_ENVIRONMENTS = {each.variable: each for each in (TAINT, NODE)}
_DEFAULT_VERSION = BINARY.minus(1)


class _VersionType(click.ParamType[Version]):
    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Version:
        try:
            return value if isinstance(value, Version) else Version.parse(value)
        except VersionError as error:
            self.fail(str(error), param, ctx)


class _CompiledExpression(msgspec.Struct, frozen=True):
    """A compiled expression with its environments and the output format."""

    environments: Environments
    program: Program
    output: str

    def evaluate_all(self, file: IO[bytes] | None) -> list[dict[str, Any]]:
        """Evaluate the expression on every taint or node of a file; return input, value or error, and cost of each."""
        return [self._evaluate(name, value) for name, value in _read_inputs(file, self.environments)]

    def _evaluate(self, name: str, value: dict[str, Any]) -> dict[str, Any]:
        try:
            result, cost = self.program.evaluate_counted({self.environments.variable: value}, limit=COST_LIMIT)
        except EvaluationError as error:
            return {"input": name, "error": error.message, "cost": None}
        return {"input": name, "value": _as_plain_data(result), "cost": cost}


def _compile(expression: str, env: str, at: Version, stored: bool, output: str) -> _CompiledExpression:
    """Compile an expression; print its errors, and exit with 1, if there are any."""
    environments = _ENVIRONMENTS[env]
    program = (environments.stored_expressions() if stored else environments.new_expressions(at)).compile(expression)
    if not program.issues:
        return _CompiledExpression(environments, program, output)
    if output == "table":
        for issue in program.issues:
            click.echo(click.style(str(issue), fg="red"), err=True)
    else:
        issues = [{"line": each.line, "column": each.column, "message": each.message} for each in program.issues]
        print_data({"valid": False, "issues": issues}, output)
    sys.exit(1)


_expression_flags = group_flags(
    "asked",
    _compile,
    click.argument("expression", metavar="EXPR"),
    click.option("--env", type=click.Choice(list(_ENVIRONMENTS)), required=True, help="The kind of input."),
    click.option(
        "--version",
        "at",
        type=_VersionType(),
        default=_DEFAULT_VERSION,
        show_default=str(_DEFAULT_VERSION),
        help="The minimum compatibility version of the API server.",
    ),
    click.option("--stored", is_flag=True, help="Check the expression as one that is stored already."),
    output_option("table", "json", "yaml"),
)
_input_option = click.option(
    "--input", "file", type=click.File("rb"), help="Taints or nodes in JSON or YAML; - is standard input."
)


@click.group()
def cel() -> None:
    """Check, evaluate and estimate CEL expressions for tolerations and node affinity."""


@cel.command()
@_expression_flags
def check(*, asked: _CompiledExpression) -> None:
    """Check whether an expression would be accepted: its errors, its type and its estimated cost.

    \b
    Examples:
      mooring cel check --env taint "taint.key == 'maintenance'"
      mooring cel check --env node --version 1.35 "semver.compare(node.labels['kernel'], '>=5.10')"
    """
    from mooring.advisor.expressions import find_objections

    problems = list(find_objections(asked.program))
    shown = {
        "valid": not problems,
        "type": str(asked.program.output_type),
        "maxCost": asked.program.max_cost,
        "costLimit": COST_LIMIT,
    }
    if problems:
        shown["problems"] = problems
    if asked.output != "table":
        print_data(shown, asked.output)
    else:
        click.echo(f"type: {asked.program.output_type}")
        click.echo(f"estimated cost: at most {asked.program.max_cost} of {COST_LIMIT}")
        for problem in problems:
            click.echo(click.style(problem, fg="red"), err=True)
    sys.exit(1 if problems else 0)


@cel.command("eval")
@_expression_flags
@_input_option
def evaluate(*, asked: _CompiledExpression, file: IO[bytes] | None) -> None:
    """Evaluate an expression on taints or nodes; without --input on an empty one.

    \b
    Examples:
      mooring cel eval --env node --input nodes.yaml "node.labels['zone'].startsWith('us-')"
      kubectl get nodes -o json | mooring cel eval --env taint --input - "taint.effect == 'NoExecute'"
    """
    outcomes = asked.evaluate_all(file)
    if asked.output != "table":
        print_data(outcomes, asked.output)
    else:
        rows = [[each["input"], each.get("error") or json.dumps(each["value"]), str(each["cost"])] for each in outcomes]
        print_table(["INPUT", "RESULT", "COST"], rows)
    sys.exit(1 if any("error" in each for each in outcomes) else 0)


@cel.command()
@_expression_flags
@_input_option
def cost(*, asked: _CompiledExpression, file: IO[bytes] | None) -> None:
    """Show the cost of an expression: the estimate, and with --input the actual cost.

    \b
    Examples:
      mooring cel cost --env node "node.labels.all(k, k.startsWith('a'))"
      mooring cel cost --env taint --input taint.yaml "taint.key.contains('/')" -o json
    """
    program = asked.program
    shown: dict[str, Any] = {"minCost": program.min_cost, "maxCost": program.max_cost, "costLimit": COST_LIMIT}
    if file is not None:
        shown["evaluations"] = [{"input": each["input"], "cost": each["cost"]} for each in asked.evaluate_all(file)]
    if asked.output != "table":
        print_data(shown, asked.output)
    else:
        click.echo(f"estimated cost: {program.min_cost} to {program.max_cost} (limit {COST_LIMIT})")
        if file is not None:
            print_table(["INPUT", "COST"], [[each["input"], str(each["cost"])] for each in shown["evaluations"]])
    sys.exit(0 if program.max_cost <= COST_LIMIT else 1)


def _as_plain_data(value: Any) -> Any:
    match value:
        case Optional():
            return _as_plain_data(value.value) if value.present else None
        case dict():
            return {str(from_key(key)): _as_plain_data(item) for key, item in value.items()}
        case list():
            return [_as_plain_data(item) for item in value]
        case int() | str() | None:
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)  # noqa: PLR0124 - NaN
        case bytes():
            return value.decode(errors="replace")
        case Timestamp() | Duration():
            return str(value)
    return repr(value)


# Inputs


def _read_inputs(file: IO[bytes] | None, environments: Environments) -> Iterator[tuple[str, dict[str, Any]]]:
    if file is None:
        yield "(empty)", {"labels": {}} if environments is NODE else {"key": "", "value": "", "effect": ""}
        return
    name = getattr(file, "name", "input")
    with report_errors(yaml.YAMLError, UnicodeDecodeError, RecursionError, prefix=f"{name}: neither JSON nor YAML: "):
        documents = list(yaml.load_all(file, Loader=_Loader))
    found = [each for document in documents for each in _list_items(document)]
    read = _read_node if environments is NODE else _read_taints
    for index, each in enumerate(found):
        if not isinstance(each, dict):
            raise click.ClickException(f"{name}: item {index} is not an object")
        yield from read(index, each)


class _Loader(yaml.CSafeLoader):
    """A YAML loader that reads timestamps as strings, because CEL expressions parse them themselves."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _list_items(document: Any) -> list[Any]:
    if document is None:
        return []
    if isinstance(document, list):
        return document
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        return list(document["items"])
    return [document]


def _read_node(index: int, given: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    metadata = given.get("metadata")
    name, labels = f"[{index}]", given.get("labels")
    if isinstance(metadata, dict):
        name, labels = str(metadata.get("name") or name), metadata.get("labels")
    labels = labels or {}
    if not isinstance(labels, dict) or not all(isinstance(text, str) for pair in labels.items() for text in pair):
        raise click.ClickException(f"the labels of {name} are not texts: put them into quotes")
    yield name, {"labels": labels}


def _read_taints(index: int, given: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    spec = given.get("spec")
    if isinstance(given.get("metadata"), dict) or isinstance(spec, dict):
        name = str((given.get("metadata") or {}).get("name") or f"[{index}]")
        taints = (spec.get("taints") if isinstance(spec, dict) else None) or []
    else:
        name, taints = f"[{index}]", [given]
    for taint in taints:
        if isinstance(taint, dict) and "key" not in taint:
            raise click.ClickException(f"{name} is neither a taint, which has a key, nor a node")
        if not isinstance(taint, dict) or not all(isinstance(value, str) for value in taint.values()):
            raise click.ClickException(f"a taint of {name} has a field that is not a text: put it into quotes")
        complete = {"key": "", "value": "", "effect": ""} | taint
        label = f"{complete['key']}={complete['value']}:{complete['effect']}"
        yield (label if taints == [given] else f"{name} {label}"), complete
