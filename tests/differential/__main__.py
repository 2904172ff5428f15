"""The command ``python -m mooring.testing.differential {scheduling,api}``.

It needs binaries of Kubernetes in the folder `--real` (or MOORING_REAL), or the kubeconfig of a running real control
plane (`--kubeconfig-real`). It prints every difference once, shrunk, with the seed that repeats it, then the number of
differences by class. The exit code is 1 if a difference is not explained in ``accepted.py``.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from differential import accepted, real
from differential.connection import Connection, UnreachableError
from mooring.testing.control_plane import RunningControlPlane

STOCK_GATES = "TolerationAffinitySemverOperators=false,TaintTolerationNodeAffinityCEL=false"
"""Off in Mooring: Kubernetes has no such gates."""
REAL_GATES = "TaintTolerationComparisonOperators=true"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mooring.testing.differential", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("scheduling", "api"), default="scheduling")
    folder = os.environ.get("MOORING_REAL")
    parser.add_argument("--real", type=Path, default=Path(folder) if folder else None, metavar="DIR", help="binaries")
    parser.add_argument("--kubeconfig-real", type=Path, metavar="FILE", help="a real control plane that runs already")
    parser.add_argument("--seeds", type=_positive, default=100, metavar="N", help="how many seeds to run")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="the first seed (default: from the clock)")
    parser.add_argument("--emulation-version", metavar="V", help="the release that both emulate")
    parser.add_argument("--explained", action="store_true", help="list the explained differences by shape as well")
    parser.add_argument("--no-shrink", action="store_true", help="print differences as they were found")
    args = parser.parse_args(argv)
    if args.real is None and args.kubeconfig_real is None:
        parser.error("name a folder with binaries of Kubernetes (--real, MOORING_REAL) or a --kubeconfig-real")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are stopped
    first = args.seed if args.seed is not None else int(time.time())
    print(f"seed {first}, {args.seeds} seeds", flush=True)
    try:
        return _api(args, first) if args.what == "api" else _scheduling(args, first)
    except UnreachableError as error:
        print(error, file=sys.stderr)
        return 2


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


@contextmanager
def _servers(args: argparse.Namespace) -> Iterator[tuple[Connection, Connection]]:
    """Start what is not running yet; yield connections to the real server and to ours."""
    with ExitStack() as stack:
        kubeconfig = args.kubeconfig_real
        if kubeconfig is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="real-")))
            flags = [f"--feature-gates={REAL_GATES}"]
            if args.emulation_version:
                flags = [f"--emulated-version={args.emulation_version}"]
            kubeconfig = stack.enter_context(real.api_server(args.real, folder, *flags))
        connection = Connection(kubeconfig)
        gates = STOCK_GATES if not args.emulation_version else ""
        plane = RunningControlPlane(
            without=("scheduler", "controllers", "nodes"), feature_gates=gates, emulation_version=args.emulation_version
        )
        yield connection, Connection(stack.enter_context(plane).kubeconfig)


def _api(args: argparse.Namespace, first: int) -> int:
    from differential.api import Comparison

    report = accepted.Report("requests")
    with _servers(args) as (real_server, our_server):
        comparison = Comparison(real_server, our_server)
        for seed in range(first, first + args.seeds):
            outcome = comparison.run_seed(seed)
            report.units += outcome.requests
            found = outcome.difference
            if found is not None and report.is_new(found.key):
                found = found if args.no_shrink else comparison.shrink(found)
            if found is not None:
                report.add(seed, found.key, f"{found.text}\n    {found.request}")
    return report.print(lists_explained=args.explained)


def _scheduling(args: argparse.Namespace, first: int) -> int:
    from differential import clusters, scheduling

    report = accepted.Report("attempts")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="real-")))
        kubeconfig = args.kubeconfig_real or stack.enter_context(
            # Nothing here would remove the taint of nodes that are not ready yet.
            real.api_server(args.real, folder, f"--feature-gates={REAL_GATES}", without=("TaintNodesByCondition",))
        )
        config = folder / "scheduler.yaml"
        config.write_text(scheduling.CONFIGURATION.format(kubeconfig=kubeconfig))
        flags = (f"--config={config}", *scheduling.FLAGS)
        connection = Connection(kubeconfig)
        stack.enter_context(real.running(args.real, folder, "kube-scheduler", *flags))
        comparison = scheduling.Comparison(connection, folder / "kube-scheduler.log")
        for seed in range(first, first + args.seeds):
            scenario = clusters.scenario(seed)
            found = {scheduling.key_of(text): text for text in comparison.run(scenario)}
            report.units = comparison.attempts
            if any(map(report.is_new, found)):  # a cache that lags shows once
                again = {scheduling.key_of(text) for text in comparison.run(scenario)}
                found = {key: text for key, text in found.items() if key in again}
            for key, text in found.items():
                is_shrunk = report.is_new(key) and not args.no_shrink
                steps = comparison.shrink(scenario, key).operations if is_shrunk else ()
                report.add(seed, key, "\n    ".join((text, *(f"{each.verb} {each.tree}" for each in steps))))
    return report.print(lists_explained=args.explained)


if __name__ == "__main__":
    sys.exit(main())
