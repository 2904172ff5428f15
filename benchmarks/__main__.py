"""Run benchmarks by name, or all of them. Each is a module with `main()` that prints a table; `…_report` use these.

`compare OLD NEW BENCHMARK…` runs them on two commits, and prints ratios. A benchmark that has `run(arguments)` takes
options after its name, and is then run alone: `variety --nodes 5000`.
"""

import sys
from importlib import import_module
from pathlib import Path

from benchmarks import compare

HERE = Path(__file__).parent


def main() -> int:
    if sys.argv[1:2] == ["compare"]:
        return compare.run(sys.argv[2:])
    known = sorted(path.stem for path in HERE.glob("[a-z]*.py") if _is_benchmark(path))
    if sys.argv[1:2] and sys.argv[1] in known and sys.argv[2:3] and sys.argv[2] not in known:
        module = import_module(f"benchmarks.{sys.argv[1]}")
        if hasattr(module, "run"):
            return int(module.run(sys.argv[2:]))
    wanted = sys.argv[1:] or known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    for name in wanted:
        print(f"\n## {name}", flush=True)
        import_module(f"benchmarks.{name}").main()
    return 0


def _is_benchmark(path: Path) -> bool:
    return not path.stem.endswith("_report") and "\ndef main()" in path.read_text()


try:
    sys.exit(main())
except KeyboardInterrupt:
    sys.exit(130)
