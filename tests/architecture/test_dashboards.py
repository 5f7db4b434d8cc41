"""The rules of Grafana's dashboard linter, on the committed JSON, and that it is what the Python beside it writes."""

from __future__ import annotations

import json
import re
from typing import Any

import promql_parser
import pytest
import yaml

from deploy.grafana.files import BOARDS, FOLDER, path_of, text_of
from deploy.grafana.parts import Board
from tests.architecture.compose_file import ROOT
from tests.boards import Selector, Target, boards, panels, selectors, targets
from tests.prometheus import promtool

BOARD_NAMES = {
    "fleet": "Headrace / Fleet",
    "jobs": "Headrace / Jobs and cost",
    "endpoints": "Headrace / Endpoints and limits",
    "services": "Headrace / Kafka and Postgres",
}
ALL = targets()
PANELS = [(name, panel) for name, board in boards().items() for panel in panels(board)]
# Placeholders that PromQL can parse and that show which variable stood there.
PLACES = {
    name: f"<{name}>" for name in ("job", "instance", "model", "endpoint", "topic", "fleet", "server", "datasource")
}
# Exclusions from the linter's rules, each with its reason.
SUMMED_OVER_INSTANCES = "recorded over all instances"
OTHER_INSTANCES = "$job and $instance are the exporter's on this board"
OF_THE_DATABASE = "totals of the database: they do not begin again at a restart"
ANY_EXPORTER = "one figure of the whole database, whoever exports it"
NO_INSTANCE = {"fleet": OTHER_INSTANCES, "server": OTHER_INSTANCES}
NO_MATCHERS = {"headrace_workers_alive": ANY_EXPORTER}
RAW_COUNTERS = {"headrace_job_done_total": OF_THE_DATABASE, "headrace_job_failed_total": OF_THE_DATABASE}


def asked(target: Target) -> list[Selector]:
    """The series of an expression, its variables still to be seen."""
    return selectors(target.filled(**PLACES))


def named(thing: object) -> str:
    """How a test of it is called."""
    return str(thing)[:120] if isinstance(thing, Target) else ""


def of_panel(found: tuple[str, dict[str, Any]]) -> str:
    """How a test of a panel is called."""
    return f"{found[0]}: {found[1]['title']}"


def test_the_promised_dashboards_are_there() -> None:
    assert {name: board["title"] for name, board in boards().items()} == BOARD_NAMES
    assert len({board["uid"] for board in boards().values()}) == len(BOARD_NAMES)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_the_file_is_what_python_writes(board: Board) -> None:
    """Else: python -m deploy.grafana."""
    assert path_of(board).read_text(encoding="utf8") == text_of(board)


def test_no_file_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {path_of(board).name for board in BOARDS}


@pytest.mark.parametrize("name", BOARD_NAMES)
def test_a_dashboard_cannot_be_edited(name: str) -> None:
    assert boards()[name]["editable"] is False


@pytest.mark.parametrize("name", BOARD_NAMES)
def test_variables_are_templated_as_the_linter_asks(name: str) -> None:
    source, *others = boards()[name]["templating"]["list"]
    assert (source["name"], source["label"], source["type"], source["query"]) == (
        "datasource",
        "Data source",
        "datasource",
        "prometheus",
    )
    assert [other["name"] for other in others][:2] == ["job", "instance"]
    for other in others:
        assert other["datasource"]["uid"] == "${datasource}"
        assert (other["type"], other["multi"], other["includeAll"], other["allValue"]) == ("query", True, True, ".+")
        assert other["refresh"] == 2
        assert other["label"]


@pytest.mark.parametrize("name", BOARD_NAMES)
def test_each_variable_is_used(name: str) -> None:
    used = {variable for target in ALL if target.board == name for variable in target.variables}
    given = {variable["name"] for variable in boards()[name]["templating"]["list"]} - {"datasource"}
    assert used - {"__rate_interval"} == given


@pytest.mark.parametrize("found", PANELS, ids=of_panel)
def test_a_panel_says_what_it_shows_and_in_what_unit(found: tuple[str, dict[str, Any]]) -> None:
    _, panel = found
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"
    assert panel["targets"]
    for target in panel["targets"]:
        assert target["datasource"]["uid"] == "${datasource}"
        assert target["legendFormat"] != "__auto" or panel["type"] == "stat"


@pytest.mark.parametrize("name", BOARD_NAMES)
def test_panels_have_their_own_numbers_and_places(name: str) -> None:
    whole = boards()[name]["panels"]
    everything = [*whole, *(panel for row in whole for panel in row.get("panels") or [])]
    assert len({panel["id"] for panel in everything}) == len(everything)
    places = [tuple(sorted(panel["gridPos"].items())) for panel in panels(boards()[name])]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in everything)


@pytest.mark.parametrize("target", ALL, ids=named)
def test_the_expression_is_promql(target: Target) -> None:
    promql_parser.parse(target.filled())


@pytest.mark.parametrize("target", ALL, ids=named)
def test_each_series_is_chosen_by_job_and_instance(target: Target) -> None:
    for series in asked(target):
        chosen = dict(series.matchers)
        if series.name in NO_MATCHERS:
            continue
        variable = chosen["job"].strip("<>")
        assert variable in {"job", *NO_INSTANCE}
        recorded = ":" in series.name and not series.name.startswith("vllm:")
        if not recorded and variable not in NO_INSTANCE:
            assert chosen["instance"] == "<instance>"


@pytest.mark.parametrize("target", ALL, ids=named)
def test_counters_are_shown_as_paces(target: Target) -> None:
    for series in asked(target):
        if series.name in RAW_COUNTERS:
            continue
        counts = series.name.endswith(("_total", "_bucket", "_count", "_sum"))
        assert counts == bool(series.functions & {"rate", "increase"})


@pytest.mark.parametrize("target", ALL, ids=named)
def test_ranges_are_as_long_as_the_scrape_interval_asks(target: Target) -> None:
    assert set(re.findall(r"\[(.*?)\]", target.expr)) <= {"$__rate_interval"}


@pytest.mark.parametrize("target", ALL, ids=named)
def test_a_legend_names_labels_that_the_expression_keeps(target: Target) -> None:
    kept = {label.strip() for part in re.findall(r"by \((.*?)\)", target.expr) for label in part.split(",")}
    legends = [
        asked_for["legendFormat"]
        for panel in panels(boards()[target.board])
        for asked_for in panel["targets"]
        if (panel["title"], asked_for["expr"]) == (target.panel, target.expr)
    ]
    assert {label for legend in legends for label in re.findall(r"\{\{(\w+)\}\}", legend)} <= kept


def test_promtool_accepts_every_expression(tmp_path: Any) -> None:
    """As rules: promtool knows the functions and the types, where the parser knows the grammar."""
    rules = [{"record": f"board:expression_{n}:all", "expr": target.filled()} for n, target in enumerate(ALL)]
    path = tmp_path / "boards.yml"
    path.write_text(json.dumps({"groups": [{"name": "boards", "rules": rules}]}))
    promtool("check", "rules", path)


def test_recorded_series_are_recorded() -> None:
    rules = yaml.safe_load((ROOT / "deploy/prometheus/rules/records.yml").read_text(encoding="utf8"))
    recorded = {rule["record"] for group in rules["groups"] for rule in group["rules"]}
    used = {s.name for target in ALL for s in asked(target) if ":" in s.name and not s.name.startswith("vllm:")}
    assert used <= recorded


def test_grafana_is_given_them_with_a_source_that_stays() -> None:
    folder = ROOT / "deploy" / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((folder / "dashboards" / "headrace.yml").read_text())["providers"]
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["global"]["scrape_interval"]
    assert (source["uid"], source["type"], source["editable"]) == ("headrace-prometheus", "prometheus", False)
    assert source["jsonData"]["timeInterval"] == scraped
    assert provider["allowUiUpdates"] is False
