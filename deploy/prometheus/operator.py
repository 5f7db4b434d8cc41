"""The rules as a PrometheusRule of the Prometheus operator, written from `rules/*.yml` and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
MANIFEST = FOLDER.parent / "k8s" / "monitoring" / "prometheusrule.yaml"
_HEAD = "# Made from deploy/prometheus/rules by `python -m deploy.prometheus`; change those.\n"


class _Dumper(yaml.SafeDumper):
    """Writes expressions of several lines as they are read."""

    def ignore_aliases(self, data: Any) -> bool:
        """Nothing is written by reference."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def groups() -> list[dict[str, Any]]:
    """All groups of rules, in the order of their files."""
    files = [yaml.safe_load(path.read_text(encoding="utf8")) for path in sorted(FOLDER.glob("rules/*.yml"))]
    return [group for file in files for group in file["groups"]]


def manifest() -> str:
    """The whole file."""
    resource = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "headrace", "labels": {"app.kubernetes.io/name": "headrace"}},
        "spec": {"groups": groups()},
    }
    return _HEAD + yaml.dump(resource, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
