"""The file of `mooring up --programs`: what it may contain, and the errors about other contents."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from mooring.api.program_folders import container_folder, pod_folder
from mooring.controllers.programs.file import ProgramsError, read_programs_file

pytestmark = pytest.mark.req("S.4")


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    message: str


WRONG = [
    Case("no YAML", "programs: [", "while parsing"),
    Case("a list", "- image: a", "Expected `object`, got `array`"),
    Case("no programs", "network: machine", "missing required field `programs`"),
    Case("an unknown field", "programs: [{image: a, run: [sh], rot: /}]", "unknown field `rot` - at `$.programs[0]`"),
    Case("an unknown network", "network: bridge\nprograms: []", "Invalid enum value 'bridge' - at `$.network`"),
    Case("no image", "programs: [{image: '', run: [sh]}]", "programs[0].image: name an image"),
    Case("nothing to run", "programs: [{image: a}]", "programs[0]: say what to run"),
    Case(
        "a command that is not there",
        "programs: [{image: a, run: [no-such-thing]}]",
        "there is no program no-such-thing",
    ),
    Case("a folder that is not there", "programs: [{image: a, root: nowhere}]", "programs[0].root: there is no folder"),
    Case("a command without a root", "programs: [{image: a, run: [sh], command: [b]}]", "only a program with a `root`"),
    Case(
        "the whole machine as a root", "programs: [{image: a, root: /}]", "programs[0].root: / is this machine itself"
    ),
    Case("no address", "address: here\nprograms: []", "address: 'here' does not appear to be"),
    Case("an address of everybody", "address: 127.0.0.1\nprograms: []", "name an address that others could use"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_a_mistake_is_reported_with_its_place(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "programs.yaml"
    path.write_text(case.text)
    with pytest.raises(ProgramsError) as raised:
        read_programs_file(path, tmp_path)
    assert str(path) in str(raised.value)
    assert case.message in str(raised.value)


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ProgramsError, match="No such file"):
        read_programs_file(tmp_path / "programs.yaml", tmp_path)


def test_the_first_pattern_that_fits_counts_and_paths_start_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "serve").write_text("#!/bin/sh\n")
    (tmp_path / "serve").chmod(0o755)
    path = tmp_path / "programs.yaml"
    path.write_text("""
address: 192.0.2.7
programs:
- {image: "example.com/web:*", run: [./serve, -v]}
- {image: "*", run: [sh]}
""")
    programs = read_programs_file(path, tmp_path / "data")
    web, other = programs.find_program("example.com/web:1"), programs.find_program("busybox")
    assert web is not None
    assert (web.run, web.working_dir) == ((str(tmp_path / "serve"), "-v"), str(tmp_path))
    assert other is not None
    assert Path(other.run[0]).is_absolute()
    assert (programs.address, programs.folder) == ("192.0.2.7", tmp_path / "data" / "programs")
    assert not programs.own_networks


def test_a_root_needs_bubblewrap_and_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "bwrap" else name)
    path = tmp_path / "programs.yaml"
    path.write_text("programs: [{image: a, root: .}]")
    with pytest.raises(ProgramsError, match="bubblewrap"):
        read_programs_file(path, tmp_path)


def test_networks_of_their_own_are_for_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    path = tmp_path / "programs.yaml"
    path.write_text("network: own\nprograms: []")
    with pytest.raises(ProgramsError, match="only root can have it"):
        read_programs_file(path, tmp_path)


def test_a_new_data_directory_is_readable_by_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made to try the sandbox in, and the server puts its keys there afterwards."""
    (tmp_path / "image").mkdir()
    (tmp_path / "file.yaml").write_text("programs: [{image: x, root: image}]")
    monkeypatch.setattr(shutil, "which", lambda _name: "/bin/true")
    with pytest.raises(ProgramsError, match="does not work here"):
        read_programs_file(tmp_path / "file.yaml", tmp_path / "data")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["hosts", "hostname", "volumes"])
def test_no_container_has_the_folder_of_something_else(name: str, tmp_path: Path) -> None:
    assert container_folder(tmp_path, "u", name) != pod_folder(tmp_path, "u") / name
