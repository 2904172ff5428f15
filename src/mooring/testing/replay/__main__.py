"""The command ``python -m mooring.testing.replay KIND FILE…``.

Print the cases that failed, then those left out with the reason, then ``N passed, M failed``. The exit code is 1 when a
case failed and 2 when a file cannot be read.
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from mooring.testing.differential import load
from mooring.testing.replay import Result, UnreadableFileError, replay_files

PACKAGE = "mooring.testing.replay"
KINDS = {
    "values": "versions, ranges, quantities and selectors",
    "cel": "expressions in Kubernetes' environments: types, results and costs",
    "cel-spec": "the CEL project's own tests of the language and its extensions",
    "scheduling": "verdicts and scores of the scheduler's plugins",
    "api": "requests to the API server and their responses",
    "upstream": "tables of Kubernetes' own tests",
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {PACKAGE}", description="Replay recorded behaviour.")
    parser.add_argument("kind", choices=KINDS, help="; ".join(f"{kind}: {what}" for kind, what in KINDS.items()))
    chosen = parser.parse_args((sys.argv[1:] if argv is None else argv)[:1]).kind
    is_upstream = chosen == "upstream"
    kind = load("upstream_tables") if is_upstream else import_module(f"{PACKAGE}.{chosen.replace('-', '_')}")
    options = argparse.ArgumentParser(prog=f"{parser.prog} {chosen}", description=f"Replay {KINDS[chosen]}.")
    if not is_upstream:
        options.add_argument("files", nargs="+", type=Path, metavar="FILE", help="files of recorded cases")
    if hasattr(kind, "add_arguments"):
        kind.add_arguments(options)
    args = options.parse_args((sys.argv[1:] if argv is None else argv)[1:])
    try:
        result = kind.run(args) if hasattr(kind, "run") else replay_files(args.files, kind.replay)
    except UnreadableFileError as error:
        print(error, file=sys.stderr)
        return 2
    return report(result)


def report(result: Result) -> int:
    """Print a result; return the exit code."""
    for case in result.failed:
        print(f"FAILED {case}")
    for case in result.left_out:
        print(f"left out {case}")
    if result.left_out:
        print(f"{len(result.left_out)} left out")
    print(f"{result.passed} passed, {len(result.failed)} failed")
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
