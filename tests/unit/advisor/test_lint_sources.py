"""Which files are found, and what cannot be read."""

import io
import os
from pathlib import Path

import pytest

from mooring.advisor.lint import Settings, documents, runner, sources
from mooring.advisor.lint.sources import Source, UnreadableError
from mooring.base import component

pytestmark = pytest.mark.req("S.5")
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec: {containers: [{name: c, image: i}], priority: %d}\n"


def test_directories_are_searched_for_manifests(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/c.yml", "a/d.json", "a/e.txt", ".hidden/f.yaml", "a/.g.yaml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    found = [Path(source.path).relative_to(tmp_path).as_posix() for source in sources.find_sources([str(tmp_path)])]
    assert found == ["b.yaml", "a/c.yml", "a/d.json"]


def test_a_file_is_read_once_however_often_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("")
    assert len(list(sources.find_sources([str(file), str(tmp_path), str(file)]))) == 1


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.yaml").write_text("")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert [Path(source.path).name for source in sources.find_sources([str(tmp_path)])] == ["x.yaml"]


def test_names_that_are_no_text_can_be_printed(tmp_path: Path) -> None:
    file = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")
    Path(file).write_text("")
    (source,) = sources.find_sources([str(tmp_path)])
    assert source.name.encode()
    assert sources.read_source(source, io.BytesIO()) == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a\0b", "null bytes"), (b"a: \xff", "not UTF-8 at byte 3"), ("a: ü".encode("utf-16"), "null bytes")],
    ids=["binary", "Latin-1", "UTF-16"],
)
def test_what_is_not_text_is_reported(content: bytes, message: str) -> None:
    with pytest.raises(UnreadableError, match=message):
        sources.read_source(Source("-"), io.BytesIO(content))


def test_a_mark_of_byte_order_is_no_part_of_the_text() -> None:
    assert sources.read_source(Source("-"), io.BytesIO(b"\xef\xbb\xbfa: 1")) == "a: 1"


def test_too_large_a_file_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_BYTES", 1024 * 1024)
    with pytest.raises(UnreadableError, match="more than 1 MiB"):
        sources.read_source(Source("/dev/zero"), io.BytesIO())


def test_files_that_cannot_be_read_are_findings_beside_the_others(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nothing")
    (tmp_path / "pod.yaml").write_text(POD % (1, 7))
    found = list(sources.find_sources([str(tmp_path)]))
    report = runner.lint_files(found, Settings(component.resolve()), io.BytesIO())
    assert [(Path(each.file).name, each.rule.id) for each in report.findings] == [
        ("gone.yaml", "M001"),
        ("pipe.yaml", "M001"),
        ("pod.yaml", "M012"),
    ]


def test_several_processes_find_the_same_in_the_same_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "POOL_LENGTH", 1)
    monkeypatch.setattr(documents, "BATCH_LENGTH", 200)
    (tmp_path / "a.yaml").write_text("---\n".join(POD % (number, number % 3) for number in range(40)))
    (tmp_path / "b.yaml").write_text("a: [")
    found = list(sources.find_sources([str(tmp_path)]))
    asked = Settings(component.resolve(emulation="1.35"), {"resource.k8s.io/v1beta1": True})
    one, two = (runner.lint_files(found, asked, io.BytesIO(), jobs) for jobs in (1, 2))
    assert one == two
    assert (one.documents, len(one.findings)) == (41, 27)
