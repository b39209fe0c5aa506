"""Streams of answers: the schema of one event, and what a stream looks like."""

from __future__ import annotations

from typing import Any

from dicast import jsontext
from dicast_gateway.openapi.replies import REPLIES

_ABOUT = """\
Answers come as server-sent events if `Accept` names `text/event-stream` and likes JSON less; `*/*` and
`application/json` at the same quality get JSON. Put together, the events are the JSON reply:

| event | data |
|---|---|
| `answer`, as soon as it is read, in any order | {answer} |
| `done`, the last one | the JSON reply without `answers`, and `request_id` |
| `error`, the last one instead of `done` | the body of the error response, and its `status` |

```
{stream}
```

What fails before the first event is an ordinary error response. After 15 seconds without an event a comment
is sent. The schema of `text/event-stream` is that of one event.
"""
_STATUS = {"type": "integer", "minimum": 400, "maximum": 599}


def systemone_event() -> dict[str, Any]:
    """One event of /v1/systemone."""
    answer = _object(
        {
            "id": {"type": "string"},
            "answer": REPLIES["SystemOneReply"]["properties"]["answers"]["additionalProperties"],
        }
    )
    return _one_of(answer, "SystemOneReply", "detail")


def decisions_event() -> dict[str, Any]:
    """One event of /v1/decisions."""
    # The fields of the answer stand beside the index, where a reference would forbid it.
    answer = {
        "type": "object",
        "description": "The fields of a `DecisionsAnswer`, and the index of its question.",
        "properties": {"index": {"type": "integer", "minimum": 0}, "type": {"type": "string"}},
        "required": ["index", "type", "name"],
    }
    return _one_of(answer, "DecisionsReply", "error")


def about_systemone(reply: dict[str, Any]) -> str:
    """What to know of the streams of /v1/systemone, with this reply as one."""
    answers = [{"id": key, "answer": answer} for key, answer in reply["answers"].items()]
    return _ABOUT.format(answer='`{"id", "answer": {…}}`', stream=_stream(answers, reply))


def about_decisions(reply: dict[str, Any]) -> str:
    """What to know of the streams of /v1/decisions, with this reply as one."""
    answers = [{"index": index, **answer} for index, answer in enumerate(reply["answers"])]
    return _ABOUT.format(answer='`{"index", …the answer\'s fields}`', stream=_stream(answers, reply))


def _one_of(answer: dict[str, Any], reply: str, failure: str) -> dict[str, Any]:
    fields = {name: field for name, field in REPLIES[reply]["properties"].items() if name != "answers"}
    required = [name for name in REPLIES[reply]["required"] if name != "answers"]
    done = _object({**fields, "request_id": {"type": "string"}}, [*required, "request_id"])
    failed = _object({failure: True, "status": _STATUS})
    return {"oneOf": [_event("answer", answer), _event("done", done), _event("error", failed)]}


def _event(name: str, data: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    return _object({"event": {"const": name}, "data": text})


def _object(fields: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": required or list(fields),
        "additionalProperties": False,
    }


def _stream(answers: list[dict[str, Any]], reply: dict[str, Any]) -> str:
    rest = {name: value for name, value in reply.items() if name != "answers"}
    told = [*(("answer", answer) for answer in answers), ("done", {**rest, "request_id": "7c1f"})]
    return "\n\n".join(f"event: {name}\ndata: {jsontext.encode(data)}" for name, data in told)
