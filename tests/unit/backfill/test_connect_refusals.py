"""The backfill and Spark Connect: refused before anything is read or reached."""

from __future__ import annotations

import json

import pytest

from backfill.job import main


def test_a_connect_server_is_refused_with_the_next_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setenv("SPARK_REMOTE", "sc://host:1/;token=secret")
    assert main(["--job", "nowhere.yaml"]) == 2
    said = capsys.readouterr()
    assert "start it with spark-submit" in json.loads(said.out)["error"]
    assert "secret" not in said.out + said.err
