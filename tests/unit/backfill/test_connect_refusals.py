"""The backfill and Spark Connect: what cannot be written there is refused before anything is reached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from backfill.job import main

JOB = {
    "job": "reviews",
    "source": {"format": "parquet", "path": "rows"},
    "id": "id",
    "prompt": {"template": "{text}"},
    "target": {"format": "parquet", "path": "labelled"},
}


def test_a_parquet_target_is_refused_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1/;token=secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://headrace@127.0.0.1:1/headrace")
    assert main(["--job", str(tmp_path / "job.yaml")]) == 2
    said = capsys.readouterr()
    assert "use delta or iceberg" in json.loads(said.out)["error"]
    assert "secret" not in said.out + said.err
