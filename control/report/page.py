"""The page: one HTML document that needs nothing else, no script and no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC

from control.report import answers
from control.report.look import STYLE
from control.report.markup import Markup, element, table
from control.report.measured import Report, Spent
from control.report.scale import Window, number, span
from control.report.svg import Bar, Caption, Series, bars, columns, lines

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_QUANTILES = ("p50", "p95", "p99")


def page(report: Report) -> str:
    """Write the whole document."""
    title = f"{report.job}: {'all runs' if report.run is None else 'run ' + (report.run or '(none named)')}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    charts = element("div", *_charts(report), class_="charts")
    body = element(
        "body", _header(report, title), answers.cards(report.runs), answers.each_run(report.runs), charts, _footer()
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _header(report: Report, title: str) -> Markup:
    said = f"As the database stood at {report.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC. All times are UTC."
    if report.window is not None:
        first, last = report.window.at(0), report.window.at(report.window.stretches)
        said += f" Rows and calls from {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S}."
    return element("header", element("h1", title), element("p", said, class_="soft"))


def _footer() -> Markup:
    said = (
        "A cost is a range where calls ended without anybody seeing whether they were billed. Labels are counted by "
        "the requests that were answered: rows that ask the same count once. Other answers are not shown."
    )
    return element("footer", element("p", said, class_="soft"))


def _charts(report: Report) -> Iterator[Markup]:
    if report.window is not None:
        yield _throughput(report, report.window)
        yield _latency(report, report.window)
    yield _failures(report)
    yield _outcomes(report)
    yield _tokens(report.spent)
    yield _spend(report.spent)
    yield from _labels(report)
    yield _slowest(report)
    yield _retried(report)


def _throughput(report: Report, window: Window) -> Markup:
    width = span(window.width)
    known = {one.stretch: one for one in report.ended}
    stretches = range(window.stretches)
    series = [
        Series("succeeded", [known[at].succeeded if at in known else 0 for at in stretches]),
        Series("failed", [known[at].failed if at in known else 0 for at in stretches]),
    ]
    caption = Caption(
        "ended", f"Rows that ended, each {width}", "One column each, succeeded below failed, over time."
    )
    rows = ([_moment(window, one.stretch), f"{one.succeeded:,}", f"{one.failed:,}"] for one in report.ended)
    drawn = columns(caption, window, series, f"rows per {width}")
    return _section(caption, drawn, ("from (UTC)", "succeeded", "failed"), rows)


def _latency(report: Report, window: Window) -> Markup:
    known = {one.stretch: one for one in report.latencies}
    seconds = max((one.p99 for one in report.latencies), default=0) >= 10_000
    series = [
        Series(
            name,
            [
                getattr(known[at], name) / (1000 if seconds else 1) if at in known else None
                for at in range(window.stretches)
            ],
        )
        for name in _QUANTILES
    ]
    caption = Caption(
        "latency", f"Latency of calls, each {span(window.width)}", "Three quantiles of calls over time."
    )
    rows = (
        [_moment(window, one.stretch), f"{one.calls:,}", *(f"{getattr(one, name):,.1f}" for name in _QUANTILES)]
        for one in report.latencies
    )
    drawn = lines(caption, window, series, "seconds" if seconds else "milliseconds")
    return _section(caption, drawn, ("from (UTC)", "calls", "p50 ms", "p95 ms", "p99 ms"), rows)


def _failures(report: Report) -> Markup:
    found = answers.reasons(report.runs)
    caption = Caption("failures", "Failed rows by reason", "One bar a reason, the most frequent first.")
    return _counted(caption, found, "rows", ("reason", "rows"))


def _outcomes(report: Report) -> Markup:
    caption = Caption("outcomes", "Calls by outcome", "One bar an outcome, the most frequent first.")
    drawn = bars(caption, [Bar(one.outcome, one.calls, f"{one.calls:,}") for one in report.outcomes], "calls")
    rows = ([one.outcome, *map("{:,}".format, (one.calls, one.retries, one.maybe_billed))] for one in report.outcomes)
    retries, maybe = (sum(getattr(one, name) for one in report.outcomes) for name in ("retries", "maybe_billed"))
    note = f"{retries:,} of the calls are retries; {maybe:,} were maybe billed."
    return _section(caption, drawn, ("outcome", "calls", "retries", "maybe billed"), rows, note)


def _tokens(spent: Sequence[Spent]) -> Markup:
    sums: dict[str, Counter[str]] = {}
    for one in spent:
        of_model = sums.setdefault(one.model or "(none named)", Counter())
        of_model.update({"prompt": one.prompt_tokens, "completion": one.completion_tokens})
    caption = Caption("tokens", "Tokens by model", "One bar a model: those of prompts, and lighter those of answers.")
    rows = [(name, used["prompt"], used["completion"]) for name, used in sums.items()]
    drawn = [Bar(name, ins, f"{number(ins)} + {number(outs)}", ins + outs) for name, ins, outs in rows]
    cells = ([name, f"{ins:,}", f"{outs:,}"] for name, ins, outs in rows)
    note = "Full colour: prompts. Pale: answers. Only calls whose use is known."
    return _section(caption, bars(caption, drawn, "tokens"), ("model", "prompts", "answers"), cells, note)


def _spend(spent: Sequence[Spent]) -> Markup:
    caption = Caption(
        "spend", "Spend by model and endpoint", "One bar each: what it cost at least, and lighter at most."
    )
    drawn = [Bar(_who(one), float(one.low_usd), _money(one), float(one.high_usd)) for one in spent]
    cells = (
        [one.model, one.endpoint, f"{one.calls:,}", f"{one.low_usd:f}", f"{one.high_usd:f}", f"{one.unknown_calls:,}"]
        for one in spent
    )
    headers = ("model", "endpoint", "calls", "USD at least", "USD at most", "calls of unknown cost")
    note = "Full colour: at least. Pale: at most. Calls of unknown cost are in neither."
    return _section(caption, bars(caption, drawn, "USD", whole=False), headers, cells, note)


def _labels(report: Report) -> Iterator[Markup]:
    for place, (name, found) in enumerate(report.labels.items()):
        caption = Caption(
            f"label-{place}",
            "Answers" if name == "answer" else f"Answers by {name}",
            "One bar a label, the most frequent first.",
        )
        yield _counted(caption, [(one.value, one.rows) for one in found], "answers", (name, "answers"))


def _slowest(report: Report) -> Markup:
    rows = ([one.id, f"{one.latency_ms:,}", one.outcome] for one in report.slowest)
    return element("section", element("h2", "Slowest calls"), table("slowest", ("id", "ms", "outcome"), rows))


def _retried(report: Report) -> Markup:
    if not report.retried:
        return element("section", element("h2", "Most retried ids"), element("p", "no id was called for twice"))
    rows = ([one.id, f"{one.calls:,}"] for one in report.retried)
    return element("section", element("h2", "Most retried ids"), table("retried", ("id", "calls"), rows))


def _counted(caption: Caption, found: Sequence[tuple[str, int]], unit: str, headers: tuple[str, str]) -> Markup:
    total = sum(count for _, count in found) or 1
    drawn = [Bar(name, count, f"{count:,} ({count / total:.1%})") for name, count in found]
    return _section(caption, bars(caption, drawn, unit), headers, ([name, f"{count:,}"] for name, count in found))


def _section(
    caption: Caption, drawn: Markup, headers: Sequence[str], rows: Iterable[Iterable[str]], note: str = ""
) -> Markup:
    filled = [list(row) for row in rows]
    title = element("h2", caption.title)
    if not filled:
        return element("section", title, element("p", "none", class_="soft"))
    numbers = element("details", element("summary", "Numbers"), table(f"{caption.key}-numbers", headers, filled))
    said = [element("figcaption", note)] if note else []
    return element("section", title, element("figure", drawn, *said, style="margin: 0"), numbers)


def _moment(window: Window, stretch: int) -> str:
    return f"{window.at(stretch):%Y-%m-%d %H:%M:%S}"


def _who(one: Spent) -> str:
    return " at ".join(filter(None, (one.model, one.endpoint))) or "(none named)"


def _money(one: Spent) -> str:
    low, high = f"{one.low_usd:,.4f}", f"{one.high_usd:,.4f}"
    return low if low == high else f"{low} to {high}"
