"""The few kinds of panels and variables that all dashboards are made of."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.models import common as looks
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_GRID = 24
_TALL, _LOW = 8, 4


@dataclass(frozen=True)
class Line:
    """One expression; `legend` may hold labels in double braces."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """What every panel has: a name, what it says, the unit of its values, and its lines."""

    title: str
    description: str
    unit: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Graph(Panel):
    """Values over time."""

    stacked: bool = False


@dataclass(frozen=True)
class Number(Panel):
    """The present value."""


@dataclass(frozen=True)
class Bars(Panel):
    """The present value of each, beside the others."""


@dataclass(frozen=True)
class Variable:
    """A choice above the dashboard; `of` is the series and the label whose values can be chosen."""

    name: str
    label: str
    series: str
    of: str


@dataclass(frozen=True)
class Row:
    """Panels under a heading; one that is folded asks nothing until it is opened."""

    title: str
    panels: tuple[Panel, ...]
    folded: bool = False


@dataclass(frozen=True)
class Board:
    """One dashboard; `name` is its file and the end of its uid."""

    name: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]


def build(board: Board) -> dashboard.Dashboard:
    """Make the dashboard: not editable, since an edit would be gone with the next release."""
    made = dashboard.Dashboard(board.title).uid(f"headrace-{board.name}").description(board.description)
    made = made.tags(["headrace"]).readonly().time("now-3h", "now").refresh("30s").timezone("browser")
    made = made.tooltip(DashboardCursorSync.CROSSHAIR).link(
        dashboard.DashboardLink("Headrace").type(DashboardLinkType.DASHBOARDS).tags(["headrace"]).keep_time(True)
    )
    made = made.with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    for variable in board.variables:
        made = made.with_variable(_variable(variable))
    numbers = itertools.count(1)
    for row in board.rows:
        made = _add(made, row, numbers)
    return made


def _add(made: dashboard.Dashboard, row: Row, numbers: Iterator[int]) -> dashboard.Dashboard:
    heading = dashboard.Row(row.title).collapsed(row.folded).id(next(numbers))
    panels = [_panel(panel, row.panels).id(next(numbers)) for panel in row.panels]
    if row.folded:
        for panel in panels:
            heading = heading.with_panel(panel)
        return made.with_row(heading)
    made = made.with_row(heading)
    for panel in panels:
        made = made.with_panel(panel)
    return made


def _variable(variable: Variable) -> dashboard.QueryVariable:
    made = dashboard.QueryVariable(variable.name).label(variable.label).datasource(SOURCE)
    made = made.query({"query": f"label_values({variable.series}, {variable.of})", "refId": variable.name})
    made = made.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    return made.multi(True).include_all(True).all_value(".+").current(VariableOption(True, "All", "$__all"))


Made = timeseries.Panel | stat.Panel | bargauge.Panel


def _panel(panel: Panel, beside: Sequence[Panel]) -> Made:
    made = _of_its_kind(panel)
    for number, line in enumerate(panel.lines):
        made = made.with_target(_target(line, chr(ord("A") + number), graph=isinstance(panel, Graph)))
    low = sum(isinstance(one, Number) for one in beside)
    width = max(_GRID // low, 4) if isinstance(panel, Number) else _GRID // 2
    made = made.title(panel.title).description(panel.description).unit(panel.unit).datasource(SOURCE)
    return made.height(_LOW if isinstance(panel, Number) else _TALL).span(width)


def _of_its_kind(panel: Panel) -> Made:
    if isinstance(panel, Graph):
        return _graph(stacked=panel.stacked)
    last = common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)
    if isinstance(panel, Bars):
        return bargauge.Panel().orientation(looks.VizOrientation.HORIZONTAL).min(0).reduce_options(last)
    return stat.Panel().graph_mode(looks.BigValueGraphMode.NONE).reduce_options(last)


def _graph(*, stacked: bool) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(looks.LegendDisplayMode.TABLE).show_legend(True)
    legend = legend.placement(looks.LegendPlacement.RIGHT).calcs(["lastNotNull", "max"])
    tooltip = common.VizTooltipOptions().mode(looks.TooltipDisplayMode.MULTI).sort(looks.SortOrder.DESCENDING)
    made = timeseries.Panel().legend(legend).tooltip(tooltip).fill_opacity(30 if stacked else 5)
    made = made.show_points(looks.VisibilityMode.NEVER).min(0)
    return made.stacking(common.StackingConfig().mode(looks.StackingMode.NORMAL)) if stacked else made


def _target(line: Line, name: str, *, graph: bool) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(line.expr).legend_format(line.legend or "__auto").ref_id(name)
    query = query.datasource(SOURCE)
    return query.range() if graph else query.instant()
