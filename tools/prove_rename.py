"""Prove that a commit changes nothing but names, docstrings and comments.

`python tools/prove_rename.py [COMMIT]` (HEAD without an argument) compares the syntax trees of every Python file that
the commit touches. Docstrings, comments, formatting and the order of imports are ignored. Two things must hold:

1. the trees are equal when every identifier is blanked;
2. within one scope a name is renamed to one other name, and no two names become one (nothing is captured).

That a renamed attribute exists is what mypy checks; all renames are listed. `--texts` also accepts changed string
literals and lists them: for commits that reword messages. Exit code 1 on any other difference, with the file and the
first line that differs.
"""

import argparse
import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_IDENTIFIER_FIELDS = {
    ast.Name: "id",
    ast.arg: "arg",
    ast.Attribute: "attr",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.keyword: "arg",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}


@dataclass
class Findings:
    differences: list[str] = field(default_factory=list)
    renames: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    texts: list[tuple[str, str]] = field(default_factory=list)


class _DifferenceError(Exception):
    """The trees differ in more than names."""


class _Comparison:
    """Walk two trees in step and collect the renames of each scope."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, str]] = [{}]
        self.renames: dict[str, set[str]] = defaultdict(set)
        self.texts: list[tuple[str, str]] = []
        self.imports: tuple[list[str], list[str]] = ([], [])

    def compare(self, old: ast.AST, new: ast.AST) -> None:
        if type(old) is not type(new):
            raise _DifferenceError(f"line {_line(new, old)}: {type(old).__name__} became {type(new).__name__}")
        opens_scope = isinstance(old, _SCOPES)
        if name := _IDENTIFIER_FIELDS.get(type(old)):
            self._pair(old, getattr(old, name), getattr(new, name))
        if opens_scope:
            self.scopes.append({})
        for child, (before, after) in _children(old, new):
            if child == _IDENTIFIER_FIELDS.get(type(old)):
                continue
            self._compare_values(before, after, old)
        if opens_scope:
            self.scopes.pop()

    def _compare_values(self, before: object, after: object, owner: ast.AST) -> None:
        if isinstance(before, ast.AST) and isinstance(after, ast.AST):
            self.compare(before, after)
        elif isinstance(before, list) and isinstance(after, list):
            before, after = self._without_noise(before, 0), self._without_noise(after, 1)
            if len(before) != len(after):
                raise _DifferenceError(f"line {_line(owner)}: {len(before)} elements became {len(after)}")
            for one, other in zip(before, after, strict=True):
                self._compare_values(one, other, owner)
        elif isinstance(owner, ast.Global | ast.Nonlocal):
            self._pair(owner, str(before), str(after))
        elif before != after:
            if isinstance(owner, ast.Constant) and isinstance(before, str) and isinstance(after, str):
                self.texts.append((before, after))
                return
            raise _DifferenceError(f"line {_line(owner)}: {before!r} became {after!r}")

    def _without_noise(self, body: list[object], side: int) -> list[object]:
        """Drop docstrings, `pass`, `...` and imports, which are compared by the names that they bind."""
        kept = []
        for node in body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imports[side].extend(alias.asname or alias.name for alias in node.names)
            elif not _is_noise(node):
                kept.append(node)
        return kept

    def _pair(self, owner: ast.AST, old: str | None, new: str | None) -> None:
        if (old is None) != (new is None):
            raise _DifferenceError(f"line {_line(owner)}: name {old} became {new}")
        if old is None or new is None:
            return
        if isinstance(owner, ast.Attribute | ast.keyword):
            if old != new:
                self.renames[old].add(new)
            return
        scope = self.scopes[-1]
        if scope.setdefault(old, new) != new:
            raise _DifferenceError(f"line {_line(owner)}: {old} became {scope[old]} and {new} in one scope")
        captured = [name for name, renamed in scope.items() if renamed == new and name != old]
        if captured:
            raise _DifferenceError(f"line {_line(owner)}: {old} and {captured[0]} both became {new}")
        if old != new:
            self.renames[old].add(new)


def _line(*nodes: ast.AST) -> int:
    return next((node.lineno for node in nodes if hasattr(node, "lineno")), 1)


def _is_noise(node: object) -> bool:
    if isinstance(node, ast.Pass):
        return True
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and (isinstance(node.value.value, str) or node.value.value is ...)
    )


def _children(old: ast.AST, new: ast.AST) -> Iterator[tuple[str, tuple[object, object]]]:
    for name in old._fields:
        if name not in ("type_comment", "kind", "ctx"):
            yield name, (getattr(old, name, None), getattr(new, name, None))


def compare_sources(old: str, new: str) -> tuple[str | None, dict[str, set[str]], list[tuple[str, str]]]:
    """Return the first difference that is not a name (or None), the renames, and the changed string literals."""
    comparison = _Comparison()
    try:
        comparison.compare(ast.parse(old), ast.parse(new))
    except _DifferenceError as difference:
        return str(difference), {}, []
    before, after = comparison.imports
    if len(before) != len(after):
        return f"{len(before)} imported names became {len(after)}", {}, []
    return None, comparison.renames, comparison.texts


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - git, for a developer


def _changed_files(commit: str) -> Iterator[tuple[str, str]]:
    for line in _git("diff", "--name-status", "-M15", f"{commit}^", commit, "--", "*.py").splitlines():
        status, *paths = line.split("\t")
        if status[0] not in "MR":
            raise SystemExit(f"{paths[-1]} was {'added' if status[0] == 'A' else 'deleted'}: not a rename")
        yield paths[0], paths[-1]


def prove(commit: str, excluded: frozenset[str] = frozenset()) -> Findings:
    """Compare every Python file of a commit with its parent's, except the excluded paths."""
    findings = Findings()
    for old_path, new_path in _changed_files(commit):
        if new_path in excluded:
            continue
        difference, renames, texts = compare_sources(
            _git("show", f"{commit}^:{old_path}"), _git("show", f"{commit}:{new_path}")
        )
        if difference:
            findings.differences.append(f"{new_path}: {difference}")
        for old, new in renames.items():
            findings.renames[old] |= new
        findings.texts.extend(texts)
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("--texts", action="store_true", help="accept changed string literals, and list them")
    parser.add_argument("--except", dest="excluded", action="append", default=[], metavar="PATH", help="skip a file")
    options = parser.parse_args()
    findings = prove(options.commit, frozenset(options.excluded))
    for old, new in sorted(findings.renames.items()):
        sys.stdout.write(f"renamed {old} -> {', '.join(sorted(new))}\n")
    for before, after in findings.texts:
        sys.stdout.write(f"text {before!r} -> {after!r}\n")
    for difference in findings.differences:
        sys.stdout.write(f"DIFFERS {difference}\n")
    return 1 if findings.differences or (findings.texts and not options.texts) else 0


if __name__ == "__main__":
    sys.exit(main())
