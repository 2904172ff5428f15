"""Lint documents one by one: parse it, run the server's admission, add advice, and find the lines.

`Linter` is created once per process and caches its results: equal documents are linted once. Called by ``runner.py``;
programs call `Linter(settings).lint(name, text)`.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from mooring.advisor.lint import documents, options, rules, server
from mooring.advisor.lint.advice import advise_on_object, without_rejected_fields
from mooring.advisor.lint.cluster import Cluster
from mooring.advisor.lint.documents import Item, Piece
from mooring.advisor.lint.positions import Positions
from mooring.advisor.lint.rules import Finding, Problem, Report
from mooring.api.codec import DecodeError, YamlError
from mooring.api.json_tree import MAX_BYTES
from mooring.base import logs

_MAX_CACHED = 10_000
_MAX_CACHED_LENGTH = 64 * 1024
_MAX_NAME = 400


class _PlacedProblem(NamedTuple):
    problem: Problem
    object: str
    line: int
    column: int


class _LintedText(NamedTuple):
    documents: int
    places: tuple[_PlacedProblem, ...]


class Linter:
    """Lints texts with the given `settings`, and caches results. Raise `SchemeError` for contradictory settings."""

    def __init__(self, settings: options.Settings) -> None:
        self._options = options.build_options(settings)
        self._cluster = Cluster(settings.nodes, self._options.constraints) if settings.nodes else None
        self._now = datetime.now(UTC)
        self._cached: dict[str, _LintedText] = {}

    def lint(self, file: str, text: str) -> Report:
        """Lint the text of one file; return the report with the findings."""
        with without_logs():
            return self.lint_pieces(file, documents.split_pieces(text))

    def lint_pieces(self, file: str, pieces: Iterable[Piece]) -> Report:
        """Lint parts (YAML documents) of one file; return the report. The caller wraps this in `without_logs`."""
        report = Report()
        for piece in pieces:
            linted = self._cached.get(piece.text)
            if linted is None:
                linted = self._lint_text(piece.text)
                if len(piece.text) <= _MAX_CACHED_LENGTH:
                    if len(self._cached) >= _MAX_CACHED:
                        self._cached.clear()
                    self._cached[piece.text] = linted
            report.documents += linted.documents
            for problem, name, line, column in linted.places:
                finding = self.build_finding(problem, file, line + piece.lines_before, column, name)
                if finding:
                    report.findings.append(finding)
        return report

    def build_finding(
        self, problem: Problem, file: str, line: int = 1, column: int = 1, name: str = ""
    ) -> Finding | None:
        """Return the finding for a problem at a position of a file; None if its rule is disabled."""
        rule, field, message = problem
        if rule.id in self._options.settings.disabled:
            return None
        return Finding(rule, self._options.severity(rule), file, line, column, name, field, message)

    def _lint_text(self, text: str) -> _LintedText:
        try:
            trees = documents.parse_trees(text)
        except (DecodeError, RecursionError) as error:
            return _LintedText(1, (_parse_failure(text, error),))
        places: list[_PlacedProblem] = []
        where = Positions(text)
        count = 0
        for index, tree in enumerate(trees):
            for item in documents.list_objects(tree):
                count += 1
                problems = self._lint_item(item, may_be_large=len(text) > MAX_BYTES)
                if problems:
                    places += _locate_problems(problems, where, index, item)
        return _LintedText(count, tuple(sorted(places, key=lambda place: (place.line, place.column))))

    def _lint_item(self, item: Item, *, may_be_large: bool) -> list[Problem]:
        try:
            size = len(msgspec.json.encode(item.tree)) if may_be_large else 0
            if size > MAX_BYTES:
                return [server.too_large_problem(size)]
            checked = server.check_create(item.tree, self._options, self._now)
            problems = checked.problems
            if self._options.release is not None:
                problems = _merge_release_problems(problems, self._options.release(item.tree))
            if checked.object is not None:
                refused = [each.field for each in problems if each.rule is rules.INVALID]
                problems += without_rejected_fields(refused, advise_on_object(checked.object, self._cluster))
                problems += self._options.facts.advise_on_object(checked.object)
        except Exception as error:  # one document that Mooring fails on must not hide what is wrong with others
            return [Problem(rules.INTERNAL, "", f"Mooring failed: {type(error).__name__}: {error}; please report it")]
        return problems


def without_logs() -> AbstractContextManager[None]:
    """Suppress the logs of the code that matches taints and terms; lint reports its errors as findings."""
    return logs.drop_lines_of("mooring.constraints")


def _merge_release_problems(problems: list[Problem], release: list[Problem]) -> list[Problem]:
    """Merge Mooring's problems with those of the Kubernetes release, which does not validate fields it lacks."""
    absent = {each.field for each in release if each.rule is rules.NOT_IN_RELEASE}
    kept = [each for each in problems if each.field not in absent and each.rule is not rules.RATCHETED]
    reported = {each.field for each in kept}
    return kept + [each for each in release if each.rule is not rules.GATE_OFF or each.field not in reported]


def _parse_failure(text: str, error: Exception) -> _PlacedProblem:
    line = error.line if isinstance(error, YamlError) else 1
    message = str(error).removeprefix(f"line {line}: ") or "nested too deeply"
    if "{{" in text:
        message += " (this looks like a template: lint what `helm template` prints)"
    return _PlacedProblem(Problem(rules.SYNTAX, "", message), "", line, 1)


def _locate_problems(
    problems: Iterable[Problem], where: Positions, document: int, item: Item
) -> Iterable[_PlacedProblem]:
    name = _display_name(item.tree)
    for problem in problems:
        path = ".".join(filter(None, (item.path, problem.field)))
        line, column = where.find(document, path)
        yield _PlacedProblem(problem, name, line, column)


def _display_name(tree: Any) -> str:
    if not isinstance(tree, dict) or not isinstance(tree.get("kind"), str):
        return ""
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict):
        return str(tree["kind"])
    name = metadata.get("name") or f"{metadata.get('generateName') or ''}*"
    namespace = metadata.get("namespace")
    return f"{tree['kind']} {namespace}/{name}"[:_MAX_NAME] if namespace else f"{tree['kind']} {name}"[:_MAX_NAME]
