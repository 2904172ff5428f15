"""Draw the terminal session of the README: `python tools/terminal_picture.py docs/session.svg`.

Types the commands below in a folder with a dump of a small cluster, and draws what they print as an SVG whose text can
be selected. A test draws it again and compares: run this when the output of a command changes.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
FOLDER = ROOT / "examples" / "explain"
COMMANDS = (
    "kubectl mooring explain -A --from cluster.yaml",
    "kubectl mooring simulate --from cluster.yaml --drain steady-1 | sed -n 2p",
)
_COLUMNS, _LINE, _MARGIN, _LETTER = 112, 19, 18, 8.0
_FONT = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:13.3px"
_TYPED, _PRINTED = "#7ee787", "#e6edf3"


def session() -> Iterator[str]:
    """Yield the lines of the session."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1"}
    for command in COMMANDS:
        words = ["/bin/bash", "-o", "pipefail", "-c", command]
        done = subprocess.run(words, cwd=FOLDER, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - the commands above
        yield f"$ {command}"
        yield from done.stdout.rstrip().splitlines()
        yield ""


def drawn(lines: Iterable[str]) -> str:
    """Draw lines of a terminal; long ones are cut."""
    shown = [line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 1]}…" for line in lines]
    width, height = _COLUMNS * _LETTER + 2 * _MARGIN, len(shown) * _LINE + 2 * _MARGIN + 22
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" style="{_FONT}" role="img">',
        "<title>A terminal session</title>",
        '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
    ]
    for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        parts.append(f'<circle cx="{_MARGIN + 6 + 20 * number}" cy="20" r="6" fill="{colour}"/>')
    for number, line in enumerate(shown):
        place, colour = _MARGIN + 36 + number * _LINE, _TYPED if line.startswith("$") else _PRINTED
        parts.append(f'<text x="{_MARGIN}" y="{place}" fill="{colour}" xml:space="preserve">{escape(line)}</text>')
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(drawn(session()))
