"""Error bodies in OpenAI's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KNOWN: dict[int, tuple[str, str, str | None]] = {
    400: ("invalid_request_error", "The request is invalid", None),
    401: ("invalid_request_error", "Incorrect API key provided", "invalid_api_key"),
    403: ("permission_error", "You are not allowed to do this", None),
    404: ("invalid_request_error", "The model does not exist or you do not have access to it", "model_not_found"),
    413: ("invalid_request_error", "The request is too large", None),
    429: ("requests", "Rate limit reached", "rate_limit_exceeded"),
    503: ("server_error", "The engine is currently overloaded, please try again later", None),
}


def body(status: int, fields: Mapping[str, object]) -> dict[str, Any]:
    """The error body of a status, with some of its fields replaced or added."""
    kind, message, code = _KNOWN.get(status, _fallback(status))
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **fields}}


def _fallback(status: int) -> tuple[str, str, str | None]:
    if status < 500:
        return "invalid_request_error", f"The request failed with status {status}", None
    return "server_error", "The server had an error while processing your request", None


def invalid(message: str, param: str | None = None) -> dict[str, Any]:
    """The body of a 400 with its own message."""
    return body(400, {"message": message, "param": param})


def no_such_model(model: str) -> dict[str, Any]:
    """The body of a 404 for a model that is not served."""
    return body(404, {"message": f"The model `{model}` does not exist or you do not have access to it."})
