"""Nothing in the tree installs a package that is not ours, or names an address that does not exist."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DISTRIBUTION = PROJECT["project"]["name"]
ADDRESSES = PROJECT["tool"]["mooring"]["addresses"]
ABOUT_THE_NAME = {"tests/unit/test_addresses.py", "docs/decisions/name.md"}
_FOREIGN = r"(?:mooring(?![-\w./:\]])|mooring\[)"
REFUSED = {
    "installs the distribution `mooring`, which is another project": re.compile(
        rf"(?:pip|pipx|uv tool|uv pip|conda|pipx inject)\s+(?:un)?install\b[^\n|&;`]*[ '\"]{_FOREIGN}"
        rf"|(?:uvx|--from|pipx run|pipx inject)\s+['\"]?{_FOREIGN}"
        rf"|^ *dependencies = \[[^\n]*['\"]{_FOREIGN}"
        rf"|additional_dependencies:[^\n]*[\s'\"\[]{_FOREIGN}",
        re.MULTILINE,
    ),
    "names a repository that does not exist": re.compile(r"git\.example|github\.com/[\w-]*mooring"),
    "names a site that does not exist": re.compile(r"https?://(?:[\w-]+\.)*mooring\.dev"),
    "names an image without a registry": re.compile(
        r"(?:image|newName):\s*['\"]?mooring(?::[\w.]+)?['\"]?\s*(?:$|#)", re.MULTILINE
    ),
}


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("the files of a release are those of the repository, where this is checked")
    return [ROOT / name for name in listed.stdout.splitlines() if name not in ABOUT_THE_NAME]


def complaints(text: str) -> list[str]:
    return [why for why, pattern in REFUSED.items() if pattern.search(text)]


def test_no_file_installs_a_stranger_or_invents_an_address() -> None:
    found = {}
    for path in _tracked():
        try:
            text = path.read_text()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        if why := complaints(text):
            found[str(path.relative_to(ROOT))] = why
    assert found == {}


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ("python3 -m pip install --quiet mooring", True),
        ("pip install 'mooring[etcd]'", True),
        ("uvx mooring up", True),
        ("uvx --from mooring mooring up", True),
        ("pipx inject mooring grpcio", True),
        ("        image: mooring:latest", True),
        ('dependencies = ["mooring"]', True),
        ("- repo: https://git.example/mooring", True),
        ("Documentation=https://mooring.dev/docs", True),
        ("uvx --from kube-mooring mooring up", False),
        ("pip install 'kube-mooring[etcd]'", False),
        ("/opt/mooring/bin/pip install kube-mooring && ln -s /opt/mooring/bin/mooring /usr/local/bin/", False),
        ("constraints.mooring.dev/tolerations: |", False),
        ("image: registry.invalid/kube-mooring:0.1.0", False),
    ],
)
def test_the_check_knows_a_stranger_from_us(line: str, is_refused: bool) -> None:
    assert bool(complaints(line)) == is_refused


def test_the_distribution_has_our_name_and_addresses_are_whole_or_empty() -> None:
    assert DISTRIBUTION == "kube-mooring"
    assert set(ADDRESSES) == {"repository", "image", "site"}
    for name, address in ADDRESSES.items():
        assert address == "" or (name == "image") != address.startswith("https://"), name
