"""The endpoints of the settings as upstreams, and again whenever the models file has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

import httpx

from schemas import models
from schemas.settings import SettingsError
from worker.core.limiter import Limiter
from worker.endpoint import HttpEndpoint, endpoint_name, make_transport
from worker.keys import Key
from worker.meter import Meter
from worker.settings import WorkerSettings
from worker.upstreams import Upstream, Upstreams

log = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
Stamp = tuple[int, int, int]


class Serving:
    """What a worker may call; an alias shares its connections. Make it inside the running event loop."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._fleet = settings.fleet
        self._transports: dict[str, httpx.AsyncBaseTransport] = {}
        self._stamp = self._look()
        built = list(self._build(settings.models, settings.keys))
        named = settings.fleet.models_file is not None
        self.upstreams = Upstreams(
            built, settings.default_model, settings.fleet.max_in_flight, passes_unknown=not named
        )

    async def run(self, changed: Callable[[], None]) -> None:
        """Follow the models file until cancelled; one with a problem leaves everything as it was."""
        while self._fleet.models_file is not None:
            await asyncio.sleep(LOOK_SECONDS)
            if (stamp := self._look()) is not None and stamp != self._stamp:
                self._stamp = stamp
                if self._reload():
                    changed()
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Let all connections go."""
        for transport in self._transports.values():
            await transport.aclose()

    def _reload(self) -> bool:
        try:
            found, keys = self._settings.read_models()
        except SettingsError as error:
            log.error("models.unusable", extra={"problems": len(error.problems), "what": error.problems[0]})
            return False
        known = {(upstream.alias, upstream.account): upstream for upstream in self.upstreams.all}
        built = [_renewed(known.get((new.alias, new.account)), new) for new in self._build(found, keys)]
        self.upstreams.become(built, self._settings.default_of(found))
        log.info("models.reloaded", extra={"models": len(found), "endpoints": len(built)})
        return True

    def _build(self, found: Mapping[str, models.Model], keys: Mapping[str | None, Key]) -> Iterator[Upstream]:
        for alias, model in found.items():
            if alias not in self._transports:
                self._transports[alias] = make_transport(self._fleet.transport)
            for spec in model.endpoints:
                yield self._upstream(alias, model, spec, keys[spec.api_key_env])

    def _upstream(self, alias: str, model: models.Model, spec: models.Endpoint, key: Key) -> Upstream:
        name, most = endpoint_name(spec.base_url), self._fleet.max_in_flight
        return Upstream(
            name=name,
            alias=alias,
            model=spec.model or alias,
            endpoint=HttpEndpoint(spec.base_url, key, self._transports[alias], model.timeouts),
            limiter=Limiter(min(spec.max_concurrency or most, most), model.timeouts.read),
            price=model.price,
            weight=spec.weight,
            account=" ".join(filter(None, (name, spec.model or alias, spec.api_key_env))),
            rpm=spec.rpm,
            tpm=spec.tpm,
            meter=Meter.of(spec.rpm, spec.tpm),
        )

    def _look(self) -> Stamp | None:
        """What tells one version of the file from another; None while there is no file, as between two writes."""
        try:
            stat = self._fleet.models_file.stat() if self._fleet.models_file else None
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_ino, stat.st_size) if stat else None


def _renewed(known: Upstream | None, new: Upstream) -> Upstream:
    """An endpoint that stays keeps what was learned of it: its limit, its rates, its circuit, its calls."""
    if known is None:
        return new
    known.endpoint, known.price, known.weight = new.endpoint, new.price, new.weight
    known.limiter.bound(new.limiter.most)
    known.limiter.read_timeout = new.limiter.read_timeout
    known.rpm, known.tpm = new.rpm, new.tpm
    known.meter.tell(new.rpm, new.tpm)
    return known
