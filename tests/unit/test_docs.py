"""Documentation that is made from the code is fresh, and links lead somewhere."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import click
import pytest

from mooring.cli.main import mooring

ROOT = Path(__file__).parents[2]
MARKDOWN = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        ROOT / "deploy" / "README.md",
    ]
)
PAGES = sorted((ROOT / "docs").rglob("*.md"))
_SPEC = spec_from_file_location("site_links", ROOT / "docs" / "site_links.py")
assert _SPEC is not None
assert _SPEC.loader is not None
site_links: Any = module_from_spec(_SPEC)
_SPEC.loader.exec_module(site_links)


def test_generated_pages_are_what_the_code_says(tmp_path: Path) -> None:
    # In a process of its own: commands remember what other tests have made of them.
    subprocess.run([sys.executable, ROOT / "docs" / "generate.py", tmp_path], check=True)
    pages = sorted(tmp_path.glob("*.md"))
    assert pages
    assert [page.name for page in pages if (ROOT / "docs" / page.name).read_text() != page.read_text()] == [], (
        "run `make docs`"
    )


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_a_page_of_the_site_has_no_dead_link(page: Path) -> None:
    """Links lead to pages of the site, and to headings that are there; others become names of files."""
    folder = str(page.parent.relative_to(ROOT / "docs")).strip(".")
    text = site_links.without_outside_links(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), folder)
    dead = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", text):
        if "://" in target:
            continue
        found = (page.parent / target).resolve() if target else page
        if not found.is_file() or (anchor and found.suffix == ".md" and anchor[1:] not in headings(found)):
            dead.append(target + anchor)
    assert dead == []


def headings(page: Path) -> set[str]:
    """Return the anchors of a page, as the site makes them."""
    lines = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).lower() for line in lines)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", line).strip()) for line in plain}


def commands_on(page: Path) -> Iterator[list[str]]:
    """Yield the calls of `mooring` in blocks of code, word by word, up to what belongs to the shell."""
    for block in re.findall(r"^ *```\w*\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip().startswith("mooring "):
                with suppress(ValueError):  # a quotation that goes on in the next line
                    yield re.split(r" [|&;>]", " ".join(shlex.split(line, comments=True)))[0].split()


@pytest.mark.req("N.12")
@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_a_page_have_only_flags_that_there_are(page: Path) -> None:
    for words in commands_on(page):
        command: click.Command = mooring
        rest = words[1:]
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            found = command.get_command(click.Context(command), rest.pop(0))
            assert found is not None, f"there is no such command: {' '.join(words)}"
            command = found
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
        flags = {word.split("=")[0] for word in rest if re.match(r"--[a-z]", word)}
        assert flags <= known, f"{' '.join(words)}: {flags - known}"


def test_every_page_is_in_the_menu_of_the_site() -> None:
    menu = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md") if page.parent.name != "decisions"}
    assert pages - menu == set(), "add them to nav in mkdocs.yml"
    assert menu - pages == set()


def test_files_that_the_architecture_names_exist() -> None:
    package = ROOT / "src" / "mooring"
    named = re.findall(r"`((?:[\w*]+/)*\w+\.py)`", (ROOT / "ARCHITECTURE.md").read_text())
    assert named
    below = [path for path in package.glob("*/") if path.is_dir()]
    places = ROOT, package, *below, *package.glob("controllers/*/"), package / "advisor" / "explain"
    assert [name for name in named if not any((place / name).is_file() for place in places)] == []


@pytest.mark.parametrize("folder", ["running", "deciding"])
def test_the_way_of_a_pod_names_every_file_of_the_scheduler_that_it_passes(folder: str) -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    way = page.partition("### A pod's way through the files")[2].partition("###")[0]
    files = (ROOT / "src" / "mooring" / "scheduler" / folder).glob("[!_]*.py")
    assert [file.name for file in files if f"`{folder}/{file.name}`" not in way] == []
