"""Everything that was recorded from Kubernetes' API server, replayed on ours over HTTPS."""

from pathlib import Path

import pytest

from mooring.testing.replay import api
from mooring.testing.replay.__main__ import main
from running_server import running_server

DATA = Path(__file__).parents[2] / "conformance" / "data" / "api" / "requests.jsonl"


@pytest.mark.req("S.1")
def test_recorded_requests_get_the_recorded_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,tester,1,"system:masters"\n')
    flags = ("--token-auth-file", str(tokens), "--feature-gates", api.RECORDED_GATES)
    with running_server(tmp_path / "data", *flags) as server:
        authority = server.data_dir / "pki" / "ca.crt"
        arguments = ["api", str(DATA), "--server", server.url, "--token", "secret", "--ca", str(authority)]
        assert main(arguments) == 0, capsys.readouterr().out
    assert "0 failed" in capsys.readouterr().out
