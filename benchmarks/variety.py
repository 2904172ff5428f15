"""What one more pod costs the scheduler when pods differ, by the number of distinct templates.

python -m benchmarks variety                                        all axes, the engine alone, 500 to 50,000 nodes
python -m benchmarks variety --nodes 5000 --axes spread,mix --templates 1,pod --pods 10000

Pods of the templates are interleaved; `pod` means a template for every pod. Microseconds are of the processor: for the
first pods, for the last ones, and how many times as much the last ones take, so that growth with the number of apps
shows. Each row is measured in a process of its own. ``varied_pods.py`` says what the templates are.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence

from benchmarks import varied_pods
from mooring.api.core_v1 import Node, Pod
from mooring.cli.support.process_settings import collect_garbage_less
from mooring.scheduler.deciding.engine import Engine
from mooring.testing.builders import made

TEMPLATES = "1,10,100,1000,pod"
WINDOW = 500
"""How many pods are the beginning, and how many the end."""


def main() -> None:
    run([])


def run(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    print(f"{'engine':<20} {'nodes':>7} {'templates':>9} {'pods':>6} {'first µs':>9} {'last µs':>9} {'growth':>7}")
    for nodes in map(int, options.nodes.split(",")):
        for axis in options.axes.split(","):
            for word in options.templates.split(","):
                templates = options.pods if word == "pod" else int(word)
                _in_process(axis, nodes, templates, options.pods)
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks variety", description=__doc__.partition("\n")[0])
    parser.add_argument("--axes", default=",".join(varied_pods.AXES), help="what differs between templates")
    parser.add_argument("--templates", default=TEMPLATES, help="numbers of distinct templates; pod: one for each pod")
    parser.add_argument("--nodes", default="500,5000,50000", help="numbers of nodes")
    parser.add_argument("--pods", type=int, default=2000, help="how many pods are placed")
    options = parser.parse_args(arguments)
    unknown = set(options.axes.split(",")) - set(varied_pods.AXES)
    if unknown:
        parser.error(f"no such axes: {', '.join(sorted(unknown))}; there are {', '.join(varied_pods.AXES)}")
    return options


def _in_process(*row: object) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_measure_engine, args=row)
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(process.exitcode)


def _measure_engine(axis: str, nodes: int, templates: int, pods: int) -> None:
    number = min(pods, nodes * templates // 2) if axis == "anti-affinity" else pods  # one to a node
    engine = Engine()
    for index in range(nodes):
        engine.put(made(Node, varied_pods.node(index)))
    _place(engine, _typed("env", -1, -1))  # the first pod in a cluster pays for all
    wanted = [_typed(axis, index % templates, index) for index in range(number)]
    collect_garbage_less()  # as the scheduler does
    times = [_place(engine, pod) for pod in wanted]
    window = min(WINDOW, number // 2)
    first, last = (1e6 * sum(part) / window for part in (times[:window], times[-window:]))
    name = f"{axis:<20} {f'n{nodes}':>7} {f't{templates}':>9}"  # `compare` takes words with letters as a row's name
    print(f"{name} {number:>6} {first:>9.0f} {last:>9.0f} {last / first:>7.2f}", flush=True)


def _typed(axis: str, template: int, number: int) -> Pod:
    pod = made(Pod, varied_pods.pod(axis, template, number))
    pod.metadata.uid = f"uid-{number}"
    return pod


def _place(engine: Engine, pod: Pod) -> float:
    """Place a pod; return the processor time that it took."""
    before = time.process_time()
    outcome = engine.schedule(pod)
    if outcome.node is None:
        raise SystemExit(f"{pod.metadata.name} fits nowhere: {outcome.message}")
    engine.assume(pod, outcome.node)
    return time.process_time() - before
