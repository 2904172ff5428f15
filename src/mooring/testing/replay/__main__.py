"""The command ``python -m mooring.testing.replay KIND FILE…``.

It lists the cases that failed, then those left out with the reason, and ends with ``N passed, M failed``. The exit code
is 1 when a case failed and 2 when a file cannot be read. A kind is a module with ``add_arguments`` and ``run``.
"""

import argparse
import importlib
import importlib.util
import sys
from typing import Protocol, cast

from mooring.testing.replay.result import Result, UnreadableFileError

KINDS = {
    "values": "versions, ranges, quantities and selectors",
    "cel": "expressions in Kubernetes' environments: types, results and costs",
    "cel-spec": "the CEL project's own tests of the language and its extensions",
    "scheduling": "verdicts and scores of the scheduler's plugins",
    "api": "requests to the API server and their answers",
}


class Kind(Protocol):
    """What a module of this package offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> Result: ...


def kind_module(name: str) -> Kind | None:
    """The module that replays a kind, if there is one yet."""
    module = f"mooring.testing.replay.{name.replace('-', '_')}"
    if importlib.util.find_spec(module) is None:
        return None
    return cast("Kind", importlib.import_module(module))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mooring.testing.replay", description="Replay recorded behaviour.")
    parser.add_argument("kind", choices=KINDS, help="; ".join(f"{kind}: {what}" for kind, what in KINDS.items()))
    chosen = parser.parse_args((sys.argv[1:] if argv is None else argv)[:1]).kind
    kind = kind_module(chosen)
    if kind is None:
        parser.error(f"nothing replays {chosen} yet")
    options = argparse.ArgumentParser(prog=f"{parser.prog} {chosen}", description=f"Replay {KINDS[chosen]}.")
    kind.add_arguments(options)
    args = options.parse_args((sys.argv[1:] if argv is None else argv)[1:])
    try:
        result = kind.run(args)
    except UnreadableFileError as error:
        print(error, file=sys.stderr)
        return 2
    return report(result)


def report(result: Result) -> int:
    """Prints a result; the exit code that goes with it."""
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
