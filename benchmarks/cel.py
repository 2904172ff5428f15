"""How fast CEL is: evaluation over values that repeat and over values never seen, compilation, import.

Targets: 0.3 µs an evaluation over a few dozen distinct inputs, 3 µs over inputs never seen before, 2 ms to compile with
the cost, 60 ms to import the engine.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

from mooring.cel import Program
from mooring.constraints.celenv import COST_LIMIT, NODE, TAINT, Environments

Inputs = list[dict[str, Any]]

EXPRESSIONS = (
    (TAINT, "taint.key == 'cni' && semver.compare(taint.value, '>=3.25.0')"),
    (NODE, "node.labels['rack'].contains('us-west-2')"),
    (NODE, "'x' in node.labels"),
    (NODE, "semver(node.labels['v'], true).isGreaterThan(semver('1.30.0'))"),
)
DISTINCT = 36
EVALUATIONS = 20_000
ROUNDS = 5


def main() -> None:
    print(f"{'expression':66} {'repeated':>10} {'new':>9} {'counted':>9} {'compile':>10}")
    for environments, expression in EXPRESSIONS:
        program = environments.stored_expressions().compile(expression)
        repeated = list(islice(cycle(_inputs(environments, range(DISTINCT))), EVALUATIONS))
        fresh = [_inputs(environments, range(i * 10**6, i * 10**6 + EVALUATIONS)) for i in range(1, ROUNDS + 1)]
        print(
            f"{expression:66}"
            f" {_best(_evaluate, program, [repeated] * ROUNDS) * 1e6:7.2f} µs"
            f" {_best(_evaluate, program, fresh) * 1e6:6.2f} µs"
            f" {_best(_count, program, [repeated] * ROUNDS) * 1e6:6.2f} µs"
            f" {_compile_time(environments, expression) * 1e3:7.2f} ms"
        )
    print(f"import mooring.cel: {_import_time('mooring.cel') * 1e3:.0f} ms")
    print(f"import mooring.constraints.celenv: {_import_time('mooring.constraints.celenv') * 1e3:.0f} ms")


def _inputs(environments: Environments, numbers: range) -> Inputs:
    if environments is TAINT:
        return [{"taint": {"key": "cni", "value": f"v3.{n}.{n % 7}", "effect": "NoSchedule"}} for n in numbers]
    return [{"node": {"labels": {"rack": f"us-west-2a-rack-{n}", "x": "", "v": f"1.{n}.0"}}} for n in numbers]


def _evaluate(program: Program, inputs: Inputs) -> None:
    evaluate = program.evaluate
    for each in inputs:
        evaluate(each)


def _count(program: Program, inputs: Inputs) -> None:
    for each in inputs:
        program.evaluate_counted(each, limit=COST_LIMIT)


def _best(run: Callable[[Program, Inputs], None], program: Program, rounds: list[Inputs]) -> float:
    """Seconds for one of many evaluations, in the best round, because others use the machine too."""
    times = []
    for inputs in rounds:
        started = time.perf_counter()
        run(program, inputs)
        times.append((time.perf_counter() - started) / len(inputs))
    return min(times)


def _compile_time(environments: Environments, expression: str) -> float:
    environment = environments.stored_expressions()
    times = []
    for _ in range(30):
        started = time.perf_counter()
        environment.compile(expression)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _import_time(module: str) -> float:
    """Seconds that importing adds to starting Python."""

    def start(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - started

    return min(start(f"import {module}") for _ in range(5)) - min(start("pass") for _ in range(5))


if __name__ == "__main__":
    main()
