"""Rules and alerts: valid, tried on series, and each with a page that says what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.prometheus import promtool

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
RULES = sorted((FOLDER / "rules").glob("*.yml"))
CASES = Path(__file__).parent / "prometheus" / "alerts.test.yml"
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf8")
PARTS = ("**Means.**", "**Look.**", "**Do.**", "**Harmless**")


def rules() -> list[dict[str, Any]]:
    """Every rule of every file."""
    files = (yaml.safe_load(path.read_text(encoding="utf8")) for path in RULES)
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


ALERTS = [rule for rule in rules() if "alert" in rule]
NAMES = sorted({rule["alert"] for rule in ALERTS})


def test_the_promised_alerts_are_there() -> None:
    assert set(NAMES) == {
        "HeadraceLagGrowing",
        "HeadraceNoProgress",
        "HeadraceErrorBudgetBurn",
        "HeadraceCircuitOpen",
        "HeadraceDeadLetters",
        "HeadraceOldestMessage",
        "HeadraceWorkerDown",
        "HeadraceBackfillStale",
        "HeadraceBudgetNearEnd",
        "HeadraceRunFault",
    }


def test_promtool_accepts_the_rules() -> None:
    promtool("check", "rules", *RULES)


def test_promtool_accepts_the_configuration() -> None:
    """With the rules where the container has them: beside it."""
    promtool("check", "config", FOLDER / "prometheus.yml")


def test_each_alert_fires_when_it_should() -> None:
    promtool("test", "rules", CASES)


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_is_tried_firing_and_silent(name: str) -> None:
    cases = yaml.safe_load(CASES.read_text(encoding="utf8"))["tests"]
    tried = [try_ for case in cases for try_ in case.get("alert_rule_test", []) if try_["alertname"] == name]
    assert {bool(try_["exp_alerts"]) for try_ in tried} == {True, False}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}")
def test_an_alert_says_how_grave_it_is_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert re.fullmatch(r"\d+[smh]", rule["for"])
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook_url"}
    assert notes["summary"]
    assert notes["description"].endswith(".")
    assert notes["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"


@pytest.mark.parametrize("name", NAMES)
def test_the_runbook_has_a_page_for_each_alert(name: str) -> None:
    _, found, rest = RUNBOOK.partition(f"\n## {name}\n")
    assert found
    page = rest.partition("\n## ")[0]
    assert [part for part in PARTS if part not in page] == []


def test_the_runbook_has_no_page_for_an_alert_that_is_gone() -> None:
    assert set(re.findall(r"^## (Headrace\w+)$", RUNBOOK, re.MULTILINE)) == set(NAMES)
