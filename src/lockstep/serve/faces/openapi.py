"""The parts of the OpenAPI document that no signature tells: every refusal, and answers that are files."""

from __future__ import annotations

from typing import Any

REASONS = {
    400: "A field is wrong; `param` names it.", 401: "A token is needed.", 403: "A foreign Host or Origin.",
    404: "There is no such thing.", 405: "Not with this method.", 408: "The body came too slowly.",
    413: "Too large.", 415: "Another kind of body is wanted.", 422: "It cannot be done like this.",
    429: "Too much waits already; Retry-After says when to come again.", 500: "The job or the server failed.",
    501: "Not offered.",
    503: "The worker is not ready; Retry-After says when to come again.", 504: "The deadline has passed.",
    507: "Not enough memory for this request.",
}  # fmt: skip
TEXT = {"type": "string"}
MAYBE = {"anyOf": [TEXT, {"type": "null"}]}
PROBLEM = {
    "type": "object", "required": ["error"],
    "properties": {"error": {"type": "object", "required": ["message", "type", "param", "code"],
                             "properties": {"message": TEXT, "type": TEXT, "param": MAYBE, "code": TEXT}}},
}  # fmt: skip
A1111_PROBLEM = {
    "type": "object", "required": ["error", "detail", "body", "errors"],
    "properties": {"error": TEXT, "detail": TEXT, "body": TEXT, "errors": TEXT},
}  # fmt: skip


def refusals(schema: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    return {
        status: {"description": told, "content": {"application/json": {"schema": schema}}}
        for status, told in REASONS.items()
    }


ERRORS, A1111_ERRORS = refusals(PROBLEM), refusals(A1111_PROBLEM)


def binary(*kinds: str) -> dict[str, Any]:
    """An answer that is a file."""
    return {
        "description": "The file.",
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in kinds},
    }


FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
