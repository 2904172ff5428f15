"""Much YAML is read by several processes, to the same end as by one."""

from pathlib import Path

import pytest

from mooring.advisor.lint import documents
from mooring.advisor.snapshot import dump

pytestmark = pytest.mark.req("U.5")
PIECES = {
    "objects": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, namespace: x}\n",
    "a list": "kind: List\nitems:\n- {kind: Secret, apiVersion: v1, metadata: {name: b}}\n",
    "a mistake": "kind: [\n",
    "a key twice": "kind: Pod\napiVersion: v1\nmetadata: {name: c}\nspec: {hostname: a, hostname: b}\n",
    "an anchor": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: d, labels: &l {a: b}, annotations: *l}\n",
    "nothing": "# only a comment\n",
}


def test_several_processes_find_what_one_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "all.yaml"
    file.write_text("---\n".join([*PIECES.values()] * 3))
    alone = dump([file])
    monkeypatch.setattr(documents, "POOL_LENGTH", 0)
    monkeypatch.setattr(documents, "BATCH_LENGTH", 100)
    together = dump([file], jobs=2)
    assert [(each.identity, each.line, each.tree) for each in together.raw()] == [
        (each.identity, each.line, each.tree) for each in alone.raw()
    ]
    assert [str(note) for note in together.notes] == [str(note) for note in alone.notes]
    assert any("not read" in str(note) for note in together.notes)
    assert any("hostname" in str(note) for note in together.notes)
