"""How long `mooring audit --from-version … --to-version …` takes for 10,000 objects, no two identical, from start to
end.

The target is 5 seconds. Printed are the time on the clock and the processor time of the command and its processes,
which other work on the machine disturbs less. Run with `python -m benchmarks releases`.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.lint import json_list, one_file

OBJECTS = 10_000
TARGET = 5.0
RELEASES = ("--from-version", "1.37", "--to-version", "1.34")


def main() -> None:
    layouts: dict[str, Callable[[Path, int], None]] = {"one YAML file": one_file, "one JSON list": json_list}
    print(f"{'layout':<20}{'seconds':>10}{'processor':>12}{'target':>10}   of {OBJECTS:,} objects, best of three")
    with tempfile.TemporaryDirectory() as name:
        for number, (title, write) in enumerate(layouts.items()):
            place = Path(name) / str(number)
            place.mkdir()
            write(place, OBJECTS // 3 + 1)
            runs = [_run(place) for _ in range(3)]
            clock, used = (min(each) for each in zip(*runs, strict=True))
            print(f"{title:<20}{clock:>10.2f}{used:>12.2f}{TARGET:>10.1f}")


def _run(place: Path) -> tuple[float, float]:
    before, start = _used(), time.perf_counter()
    words = [sys.executable, "-m", "mooring", "audit", *RELEASES, "--fail-if", "never", "--from", str(place)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start, _used() - before


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main()
