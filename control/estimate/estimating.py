"""From the job file, the prices and the facts to the estimate: which of them it rests on is decided here. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, stdev

from control.estimate import bounds, pace
from control.estimate.document import Amount, EstimateDocument, ModelEstimate
from control.estimate.reading import Facts
from schemas.bills import Earlier
from schemas.catalog import Catalog
from schemas.estimate import Forecast, Range, from_earlier, student_t
from schemas.examples import Example
from schemas.job import Job
from schemas.models import Price

_FEWEST_ROWS = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be estimated: a job file with its examples, the models file if there is one, and so many rows."""

    job: Job
    examples: Sequence[Example]
    catalog: Catalog | None
    rows: int
    rows_are: str

    @property
    def price(self) -> Callable[[str | None], Price | None]:
        """The price of an alias."""
        return self.catalog.price if self.catalog else lambda _: None

    @property
    def models(self) -> set[str]:
        """The aliases that rows of this run may ask; those that they escalate to are asked in a later one."""
        routes = self.job.routes
        default = {self.catalog.default} if self.catalog and not (routes and routes[-1].when is None) else set()
        return {route.model for route in routes} | default


def rows_of(facts: Facts) -> tuple[int, str] | None:
    """Take the number of rows from the newest run that told its counts; None without one."""
    run = facts.newest
    if run is None:
        return None
    number = run["read"] - run["rejected"] - run["deduplicated"]
    return number, (
        f"requests of run {run['run']} of {run['created_at']:%Y-%m-%d %H:%M}: {run['read']:,} rows read less"
        f" {run['rejected']:,} rejected and {run['deduplicated']:,} deduplicated, whether answered by now or not"
    )


def estimate(asked: Asked, facts: Facts) -> EstimateDocument:
    """Estimate from earlier rows of the job, those of a canary if there are no others, else by bounds."""
    earlier = _usable(asked, facts.earlier)
    trial = bool(earlier) and all(row.run in facts.trials for row in earlier)
    models = list(_by_model(asked, earlier))
    tried = len(earlier) >= _FEWEST_ROWS
    found = _measured(asked, earlier, trial=trial) if tried else _bounded(asked)
    shares = {} if trial or found.confidence is None else {model.model: model.share for model in models}
    return EstimateDocument(
        job=asked.job.job,
        rows=asked.rows,
        rows_are=asked.rows_are,
        usd=_amount(found.usd, 6, tried=tried),
        tokens=_amount(found.tokens, 0, tried=tried),
        confidence=found.confidence,
        rests_on=found.basis,
        prices=_prices(asked, found),
        models=models,
        time=pace.time(asked.rows, facts, _allowed(asked, models, shares)),
        notes=list(_notes(asked, facts, found, models)),
    )


def _usable(asked: Asked, earlier: Sequence[Earlier]) -> list[Earlier]:
    """Leave out rows of models that the job does not ask any more; without a models file names say nothing."""
    return [row for row in earlier if not asked.catalog or row.model in asked.models]


def _measured(asked: Asked, earlier: Sequence[Earlier], *, trial: bool) -> Forecast:
    pooled = from_earlier(asked.rows, earlier, asked.price)
    if not trial:
        return pooled
    each = [from_earlier(asked.rows, rows, asked.price) for rows in _grouped(earlier).values()]
    basis = f"the canary of run {earlier[0].run}: {len(earlier)} rows"
    if len(each) == 1:
        return replace(pooled, basis=basis)
    # A canary tries few rows of every route, so it says nothing of how many ask each model.
    usd, tokens = _around(pooled.usd, [one.usd for one in each]), _around(pooled.tokens, [one.tokens for one in each])
    basis = f"{basis}; from all at one model to all at another"
    return replace(pooled, basis=basis, usd=usd, tokens=tokens, confidence=None)


def _around(point: Range | None, each: Sequence[Range | None]) -> Range | None:
    known = [one for one in each if one is not None]
    if point is None or len(known) < len(each):
        return None
    highs = [one.high for one in known]
    high = None if None in highs else max(high for high in highs if high is not None)
    return Range(min(one.low for one in known), point.point, high)


def _bounded(asked: Asked) -> Forecast:
    prompts, answers = bounds.tokens(asked.rows, asked.job, asked.examples)
    usd = bounds.usd(prompts, answers, [asked.price(alias) for alias in asked.models]) if asked.catalog else None
    basis = "the job file alone (the text that all prompts share, clean.max_chars, clean.max_tokens, max_tokens):"
    return Forecast(
        asked.rows, f"{basis} no row was asked before", usd=usd, tokens=prompts + answers, confidence=None
    )


def _grouped(earlier: Sequence[Earlier]) -> Mapping[str, list[Earlier]]:
    found: defaultdict[str, list[Earlier]] = defaultdict(list)
    for row in earlier:
        found[row.model or "default"].append(row)
    return dict(sorted(found.items()))


def _by_model(asked: Asked, earlier: Sequence[Earlier]) -> Iterator[ModelEstimate]:
    for model, rows in _grouped(earlier).items():
        yield ModelEstimate(
            model=model,
            sampled=len(rows),
            share=round(len(rows) / len(earlier), 4),
            tokens_per_row=_mean([row.tokens for row in rows]),
            has_price=asked.price(model) is not None,
        )


def _mean(values: Sequence[int | None]) -> Amount | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    mean = fmean(known)
    if len(known) < _FEWEST_ROWS:
        return Amount(low=0, point=mean, high=None)
    off = student_t(len(known) - 1) * stdev(known) / sqrt(len(known))
    return Amount(low=round(max(0.0, mean - off), 2), point=round(mean, 2), high=round(mean + off, 2))


def _allowed(asked: Asked, models: Sequence[ModelEstimate], shares: Mapping[str, float]) -> float | None:
    if asked.catalog is None:
        return None
    sizes = {model.model: model.tokens_per_row.point for model in models if model.tokens_per_row}
    known = asked.catalog.models
    return pace.allowed({alias: pace.limit(known[alias], sizes.get(alias)) for alias in asked.models}, shares)


def _amount(found: Range | None, places: int, *, tried: bool) -> Amount | None:
    if found is None:
        return None
    told = found.told(places)
    return Amount(low=told["low"] or 0, point=told["point"] if tried else None, high=told["high"])


def _prices(asked: Asked, found: Forecast) -> str | None:
    if found.usd is None:
        return None
    return str(asked.catalog.path) if asked.catalog else "what the calls cost at their time"


def _notes(asked: Asked, facts: Facts, found: Forecast, models: Sequence[ModelEstimate]) -> Iterator[str]:
    job, seen = asked.job, {model.model for model in models}
    if asked.catalog is None:
        yield "MODELS_FILE is not set: no present prices, no limits, and models that the job names are not checked"
    if missing := ", ".join(sorted(asked.models - seen)) if seen and asked.catalog else "":
        yield f"no earlier row asked {missing}: its rows are counted like the others"
    if unpriced := ", ".join(sorted(model.model for model in models if asked.catalog and not model.has_price)):
        yield f"{asked.catalog and asked.catalog.path} has no price for {unpriced}"
    if not facts.workers:
        yield "no worker is running now"
    if job.incremental and facts.earlier:
        yield "a run skips rows that have their answer, and costs less by them"
    if any(route.escalate for route in job.routes):
        yield "rows that escalate ask their second model in a later run: not in it"
    if found.usd and job.budget.usd is not None and found.usd.point > job.budget.usd:
        yield f"that is above budget.usd {job.budget.usd:g}: the run would be stopped by its canary, or paused"
    if found.tokens and job.budget.tokens is not None and found.tokens.point > job.budget.tokens:
        yield f"that is above budget.tokens {job.budget.tokens:,}: the run would be stopped by its canary, or paused"
