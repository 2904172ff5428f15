"""Replay the tables of Kubernetes' own unit and integration tests: ``python -m mooring.testing.replay upstream``.

The tables are not in this repository. They are read from ``$MOORING_CONFORMANCE/upstream/data`` (or the folder named on
the command line). A table is a JSON list of cases; each module here maps its tables to a function that plays one case
and returns the difference, or None. `accepted.py` lists the differences that are meant, with their reasons.

| Module | Tables |
|---|---|
| ``matching.py`` | tolerations, node selectors |
| ``admission.py`` | pod validation, label keys, gated fields |
| ``plugins.py`` | Filter, Score and queueing hints of the scheduler's plugins; scheduler integration tests |
| ``versions.py`` | feature gates, compatibility versions, flags |
| ``expressions.py`` | CEL libraries: values, errors, costs |
| ``checkout.py`` | more tables, read from Go source in a checkout of Kubernetes (``go_source.py``, ``go_objects.py``) |
| ``by_version.py`` | what upstream has in code: rules by emulated and minimum compatibility version |
| ``live.py``, ``requeueing.py`` | taint eviction and scheduling on a running control plane (``--live``) |
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

from mooring.testing.replay import Result, UnreadableFileError
from outside_data import KUBERNETES, UPSTREAM
from upstream_tables import accepted, admission, by_version, expressions, matching, plugins, versions
from upstream_tables.case import NotPlayableError, Play, Tree
from upstream_tables.go_source import UnreadableError

OFFLINE: Mapping[str, Play] = {
    **matching.TABLES,
    **admission.TABLES,
    **plugins.TABLES,
    **versions.TABLES,
    **expressions.TABLES,
}
"""Tables by name: a file's stem, with the section where a file has several."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", type=Path, help="the folder with the tables")
    parser.add_argument("--table", action="append", metavar="NAME", help="play only this table; may be repeated")
    parser.add_argument("--live", action="store_true", help="play the tables that need a control plane as well")
    parser.add_argument(
        "--kubernetes", type=Path, default=KUBERNETES, metavar="DIR", help="a checkout with more tables"
    )
    parser.add_argument("--accepted", action="store_true", help="list the accepted differences with their reasons")


def run(args: argparse.Namespace) -> Result:
    used: set[accepted.Accepted] = set()
    result = play_all(args.folder or UPSTREAM, args.table, used, is_live=args.live)
    if args.kubernetes:
        from upstream_tables import checkout  # only where there is one

        try:
            result.add(checkout.play(args.kubernetes))
        except UnreadableError as error:
            raise UnreadableFileError(f"{args.kubernetes}: no checkout of Kubernetes: {error}") from error
    if args.accepted:
        result.left_out += sorted(f"{entry.table} {entry.case}: {entry.reason}" for entry in used)
    return result


def play_all(
    folder: Path,
    names: Iterable[str] | None = None,
    used: set[accepted.Accepted] | None = None,
    *,
    is_live: bool,
) -> Result:
    """Play the tables, or those that are named, and the scenarios; with `is_live`, start a control plane for some."""
    tables = dict(OFFLINE)
    with ExitStack() as stack:
        scenarios = by_version.play_all()
        if is_live:
            from upstream_tables import live, requeueing  # which import the server

            shared = stack.enter_context(live.shared_plane())
            tables |= shared.tables
            scenarios = chain(scenarios, requeueing.play_all(shared.plane))
        result = play(folder, tables, names, used)
        for name, problem in () if names else scenarios:
            result.count(name, problem)
    return result


def play(
    folder: Path,
    tables: Mapping[str, Play],
    names: Iterable[str] | None = None,
    used: set[accepted.Accepted] | None = None,
) -> Result:
    """Play tables; add every accepted difference that occurred to `used`."""
    result, used = Result(), set() if used is None else used
    for name in names or tables:
        if name not in tables:
            raise UnreadableFileError(f"--table {name}: there is no such table; known are {', '.join(sorted(tables))}")
        _play_table(name, read_table(folder, name), tables[name], result, used)
    return result


def _play_table(name: str, cases: list[Tree], case_player: Play, result: Result, used: set[accepted.Accepted]) -> None:
    for case in cases:
        label = f"{name} {case['test']}/{case.get('name') or case.get('expr')}"
        try:
            problem = case_player(case)
        except NotPlayableError as reason:
            result.left_out.append(f"{label}: {reason}")
            continue
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem and (entry := accepted.find(name, label, problem)):
            used.add(entry)
            problem = None
        result.count(label, problem)


def read_table(folder: Path, name: str) -> list[Tree]:
    """Read the cases of a table; raise `UnreadableFileError` where there are none."""
    stem, _, section = name.partition(".")
    file = folder / f"{stem}.json"
    try:
        content: Any = json.loads(file.read_bytes(), parse_float=_number)
    except (OSError, ValueError) as error:
        raise UnreadableFileError(
            f"{file}: {error}; name the folder with the tables, or set MOORING_CONFORMANCE"
        ) from error
    cases = content.get(section) if section and isinstance(content, dict) else content
    if not isinstance(cases, list) or not all(isinstance(case, dict) and "test" in case for case in cases):
        raise UnreadableFileError(f"{file}: not a table of test cases")
    return cases


def _number(text: str) -> int | float:
    """Read `1.0` as 1, as the API's integer fields want it."""
    value = float(text)
    return int(value) if value.is_integer() else value
