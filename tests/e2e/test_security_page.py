"""The commands on the page about security do what it says."""

import re
from pathlib import Path

import pytest

from kubectl_caller import Kubectl

PAGE = Path(__file__).parents[2] / "docs" / "security.md"


def _commands() -> list[tuple[list[str], str]]:
    """Each command with the lines that it prints."""
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found: list[tuple[list[str], list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ kubectl "):
            found.append((line.removeprefix("$ kubectl ").split(), []))
        else:
            found[-1][1].append(line)
    return [(words, "\n".join(lines)) for words, lines in found]


@pytest.mark.req("S.1", "S.6")
def test_the_commands_of_the_page(kubectl: Kubectl) -> None:
    for words, printed in _commands():
        done = kubectl.run(*words)
        assert printed or done.returncode == 0, done.stderr
        assert not printed or done.stdout.strip() == printed, words
