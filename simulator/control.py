"""Everything that is not a chat call: models, health, and the `/_sim/` paths a test steers by."""

from __future__ import annotations

import time
from urllib.parse import parse_qs

from simulator import errors
from simulator.reading import ScriptError, parse_script
from simulator.refusals import refuse_key
from simulator.replies import Reply, json_reply
from simulator.service import Service
from simulator.wire import Request

CHAT_PATHS = frozenset({"/v1/chat/completions", "/chat/completions"})
_MODEL_PATHS = frozenset({"/v1/models", "/models"})


def is_chat(request: Request) -> bool:
    """Whether a request is a chat call."""
    return request.path in CHAT_PATHS and request.method == "POST"


def reply_to_other(service: Service, request: Request) -> Reply:
    """The reply to a request that is no chat call."""
    asked = (request.method, request.path)
    if request.path in _MODEL_PATHS and request.method == "GET":
        return refuse_key(service.script, request.headers) or _models(service)
    if asked == ("GET", "/healthz"):
        return json_reply(200, {"status": "ok"})
    if asked == ("GET", "/_sim/stats"):
        return _stats(service, parse_qs(request.query))
    if asked == ("PUT", "/_sim/script"):
        return _put_script(service, request)
    if asked == ("POST", "/_sim/reset"):
        service.reset()
        return json_reply(200, {"reset": True})
    return json_reply(
        404, errors.body(404, {"message": f"Invalid URL ({request.method} {request.path})", "code": None})
    )


def _models(service: Service) -> Reply:
    names = ("simulated",) if service.script.models is None else service.script.models
    created = int(time.time())
    data = [{"id": name, "object": "model", "created": created, "owned_by": "simulator"} for name in names]
    return json_reply(200, {"object": "list", "data": data})


def _stats(service: Service, query: dict[str, list[str]]) -> Reply:
    shown = service.stats.shown(with_ids=query.get("ids") == ["1"])
    return json_reply(200, shown | {"connections": service.connections})


def _put_script(service: Service, request: Request) -> Reply:
    try:
        script = parse_script(request.body)
    except ScriptError as error:
        return json_reply(400, errors.invalid(str(error)))
    service.use(script)
    return json_reply(200, {"rules": len(script.rules)})
