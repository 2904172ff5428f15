"""Two commits side by side: the same benchmark on both, by turns, and how their numbers compare.

python -m benchmarks compare OLD NEW end_to_end
NODES=200 PODS=1000 TURNS=3 python -m benchmarks compare HEAD~20 HEAD end_to_end apiserver
python -m benchmarks compare HEAD~20 HEAD "variety --nodes 5000 --axes spread"

The benchmarks are those of the working tree; what they measure is the source of each commit. Turns alternate, so that
other load on the machine affects both equally. Of each number the median of all turns is shown, and the ratio of new to
old. A number is known by the words of its line and its place among the numbers there.
"""

import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

TURNS = int(os.environ.get("TURNS", "3"))
HERE = Path(__file__).parent.parent
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w.])")
Numbers = dict[str, list[list[float]]]
"""By the words of a line: the numbers of each place, of all turns."""


def run(arguments: Sequence[str]) -> int:
    """`compare OLD NEW BENCHMARK…`; the exit code."""
    if len(arguments) < 3:
        print("compare two commits: python -m benchmarks compare OLD NEW BENCHMARK…", file=sys.stderr)
        return 2
    old, new, *names = arguments
    with tempfile.TemporaryDirectory(prefix="mooring-compare-") as folder:
        places = {Path(folder) / "old": old, Path(folder) / "new": new}
        try:
            for place, commit in places.items():
                _git("add", "--detach", "--quiet", str(place), commit)
            for name in names:
                _compare(name, *places)
        except subprocess.CalledProcessError as error:  # which has said why
            print(f"{shlex.join(error.cmd)} ended with {error.returncode}", file=sys.stderr)
            return 1
        finally:
            for place in filter(Path.exists, places):
                _git("remove", "--force", str(place))
    return 0


def _git(*words: str) -> None:
    subprocess.run(["git", "worktree", *words], cwd=HERE, check=True)


def _compare(name: str, old: Path, new: Path) -> None:
    found: dict[Path, Numbers] = {old: {}, new: {}}
    for turn in range(TURNS):
        for place in (old, new) if turn % 2 == 0 else (new, old):
            print(f"{name}: turn {turn + 1} of {TURNS}, {'old' if place is old else 'new'}", file=sys.stderr)
            gather(found[place], _measured(name, place))
    print(f"\n## {name}: old, new, new / old")
    for line in ratios(found[old], found[new]):
        print(line, flush=True)


def _measured(name: str, place: Path) -> str:
    """Run a benchmark with the source of a commit; return its output."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place / "src"), str(HERE)])}
    command = [sys.executable, "-m", "benchmarks", *shlex.split(name)]
    return subprocess.run(command, cwd=HERE, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def gather(numbers: Numbers, text: str) -> None:
    """Add what one turn has printed.

    >>> found: Numbers = {}
    >>> gather(found, "pods a second   153   2.5 ms")
    >>> gather(found, "pods a second   161   2.4 ms")
    >>> found
    {'pods a second ms': [[153.0, 161.0], [2.5, 2.4]]}
    """
    for line in text.splitlines():
        values = [float(match.replace(",", "")) for match in _NUMBER.findall(line)]
        words = " ".join(_NUMBER.sub(" ", line).split())
        if not values or not words or line.startswith("#"):
            continue
        places = numbers.setdefault(words, [[] for _ in values])
        for place, value in zip(places, values, strict=False):
            place.append(value)


def ratios(old: Mapping[str, list[list[float]]], new: Mapping[str, list[list[float]]]) -> list[str]:
    """Return a line for each line of numbers that both outputs have.

    >>> ratios({"pods a second": [[100.0, 110.0, 90.0]]}, {"pods a second": [[150.0]]})
    ['pods a second                                       100 →        150  (1.50)']
    """
    lines = []
    for words in old.keys() & new.keys():
        pairs = []
        for before, after in zip(old[words], new[words], strict=False):
            was, now = statistics.median(before), statistics.median(after)
            pairs.append(f"{was:>10,.6g} → {now:>10,.6g}  ({now / was if was else float('nan'):.2f})")
        lines.append(f"{words[:44]:<44} {'  '.join(pairs)}")
    return sorted(lines)
