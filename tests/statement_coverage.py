"""The share of Mooring's statements that tests execute: conftest.py has them counted where `make test` asks for it.

An import hook compiles each module with one assignment more in every run of statements that follow each other
unconditionally. docs/decisions/releases.md says what that costs, beside coverage.py and slipcover. Compiled modules are
kept in `build/coverage`. Only the processes of pytest are counted, not the commands and servers that tests start.
"""

import ast
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mooring"
VERSION = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]

Statements = list[ast.stmt]


def runs(block: Statements) -> Iterator[tuple[Statements, Statements]]:
    """Yield each run of statements that follow each other unconditionally, with the block that it is in."""
    run: Statements = []
    for statement in block:
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue  # docstrings, `...` in a protocol, and what only a type checker reads
        run.append(statement)
        inner = list(_inner_blocks(statement))
        if inner and not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield run, block
            run = []
        for each in inner:
            yield from runs(each)
    if run:
        yield run, block


def _inner_blocks(statement: ast.stmt) -> Iterator[Statements]:
    for part in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        for name in ("body", "orelse", "finalbody"):
            if block := getattr(part, name, None):
                yield block


def counting(source: bytes | str, path: str) -> ast.Module:
    """Parse a module so that it notes in its list `__ran__` the line of the last statement of each run it executes."""
    tree = ast.parse(source, path)
    for run, block in list(runs(tree.body)):
        last = run[-1]
        block.insert(block.index(last), _parse(f"__ran__[{last.lineno}] = 1", last))
    if tree.body:
        start = next((place for place, each in enumerate(tree.body) if not _comes_first(each)), len(tree.body))
        last = tree.body[-1]
        tree.body.insert(start, _parse(f"__ran__ = [0] * {(last.end_lineno or 0) + 1}", tree.body[0]))
    return tree


def _comes_first(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.ImportFrom(module="__future__"):
            return True
    return False


def _parse(source: str, place: ast.stmt) -> ast.stmt:
    statement = ast.parse(source).body[0]
    for node in ast.walk(statement):
        ast.copy_location(node, place)
    return statement


def executed_lines(module: ModuleType) -> set[int]:
    return {line for line, ran in enumerate(module.__dict__.get("__ran__", ())) if ran}


def count(source: bytes | str, lines: set[int]) -> tuple[int, int]:
    """Return how many statements of a source were executed, and how many it has."""
    sizes = [(len(run), run[-1].lineno) for run, _ in runs(ast.parse(source).body)]
    return sum(size for size, line in sizes if line in lines), sum(size for size, _ in sizes)


class Coverage:
    """A plugin of pytest that counts statements in the modules that are imported after it was made."""

    def __init__(self) -> None:
        self.modules: list[ModuleType] = []
        self.lines: dict[str, set[int]] = {}
        sys.meta_path.insert(0, _Finder(self.modules))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for module in self.modules:
            self.lines.setdefault(str(module.__file__), set()).update(executed_lines(module))
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["lines"] = {file: list(lines) for file, lines in self.lines.items()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for file, lines in getattr(node, "workeroutput", {}).get("lines", {}).items():
            self.lines.setdefault(file, set()).update(lines)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if config.option.collectonly:
            return
        counts = [count(file.read_bytes(), self.lines.get(str(file), set())) for file in SOURCE.rglob("*.py")]
        executed, total = (sum(column) for column in zip(*counts, strict=True))
        share = f"{100 * executed / total:.1f} % of {total:,} statements"
        terminalreporter.write_line(f"Coverage: {share}, without the commands and servers that tests start")


class _Finder(MetaPathFinder):
    def __init__(self, modules: list[ModuleType]) -> None:
        self.modules = modules

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "mooring":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec and str(spec.origin).startswith(str(SOURCE)):
            spec.loader = _Loader(self.modules, name, str(spec.origin))
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, modules: list[ModuleType], name: str, path: str) -> None:
        super().__init__(name, path)
        self.modules = modules

    def exec_module(self, module: ModuleType) -> None:
        self.modules.append(module)
        super().exec_module(module)

    def get_code(self, fullname: str) -> CodeType | None:
        before, sys.pycache_prefix = sys.pycache_prefix, str(ROOT / "build" / "coverage" / VERSION)
        try:
            return super().get_code(fullname)
        finally:
            sys.pycache_prefix = before

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        tree = counting(data, path)
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)


COVERAGE = Coverage() if os.environ.get("MOORING_COVERAGE") else None
