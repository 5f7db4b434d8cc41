"""Where a demo keeps its files: one folder a model, so that a second run finds what the first one did."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "tweets"
JOB_FILE = "tweets.yaml"
JOB = "tweets"


@dataclass(frozen=True)
class Place:
    """The folder of one demo."""

    folder: Path

    @staticmethod
    def of(model: str) -> Place:
        """The usual place, below the working copy."""
        return Place(ROOT / ".headrace" / "demo" / model)

    @property
    def job_file(self) -> Path:
        """The job file, beside its data."""
        return self.folder / JOB_FILE

    @property
    def data(self) -> Path:
        """The source table."""
        return self.folder / "tweets.csv"

    @property
    def warehouse(self) -> Path:
        """The target table."""
        return self.folder / "warehouse" / "tweets_labelled"

    def log(self, name: str) -> Path:
        """The log of one program of this demo."""
        return self.folder / "logs" / f"{name}.log"

    def prepare(self) -> None:
        """Make the folder, with fresh logs and the example's own files."""
        shutil.rmtree(self.folder / "logs", ignore_errors=True)
        (self.folder / "logs").mkdir(parents=True)
        for file in EXAMPLE.iterdir():
            shutil.copy(file, self.folder / file.name)
