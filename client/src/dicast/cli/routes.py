"""The gateway's two JSON routes, as the demo uses them: how to post, and how to compare what they say."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from dicast import ChoiceAnswer, Decision, PredicateAnswer, ScoreAnswer
from dicast.cli.command import CommandError

_TIMEOUT_S = 60.0


class Post:
    """Posts JSON to a gateway at `host:port` or at a URL; proxies of the environment are not asked."""

    def __init__(self, address: str, api_key: str | None = None) -> None:
        self._base = (address if "://" in address else f"http://{address}").rstrip("/")
        self._headers = {"content-type": "application/json"}
        if api_key:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __call__(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON of the reply. Raises CommandError where there is none, or another status than 200."""
        request = urllib.request.Request(
            self._base + path, data=json.dumps(body).encode(), headers=self._headers, method="POST"
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(500).decode("utf-8", "replace")
            raise CommandError(f"POST {self._base}{path} answered {error.code}: {said}") from None
        except OSError as error:
            raise CommandError(f"no gateway answers at {self._base}: {error}") from None
        except ValueError:
            raise CommandError(f"POST {self._base}{path} answered with something that is not JSON") from None


Values = dict[str, Any]
"""Every value of a reply by a name for it, for example `team.billing`."""


def of_decision(decision: Decision) -> Values:
    """The values of a reply over gRPC."""
    values: Values = {"model": decision.model}
    for answer in decision:
        key = answer.key
        match answer:
            case PredicateAnswer():
                values[key] = answer.probability
            case ChoiceAnswer():
                values[key] = answer.value
                values[f"{key} confidence"] = answer.confidence
                values |= {f"{key}.{value}": share for value, share in answer.probabilities.items()}
            case ScoreAnswer():
                values[key] = answer.score
                values[f"{key} confidence"] = answer.confidence
                values |= {f"{key}.{level}": share for level, share in enumerate(answer.probabilities)}
            case _:
                values[key] = f"no answer ({type(answer).__name__})"
    return values


def of_systemone(body: Any) -> Values:
    """The values of a reply of /v1/systemone."""
    values: Values = {"model": body.get("model")}
    for key, answer in body.get("answers", {}).items():
        values[key] = answer.get(answer.get("type"))
        if answer.get("type") != "noul":
            values[f"{key} confidence"] = answer.get("confidence")
        values |= {f"{key}.{name}": share for name, share in answer.get("probabilities", {}).items()}
    return values


def of_decisions(body: Any, keys: Sequence[str]) -> Values:
    """The values of a reply of /v1/decisions, whose answers have the order of `keys`."""
    values: Values = {"model": body.get("model")}
    for key, answer in zip(keys, body.get("answers", ()), strict=False):
        kind = answer.get("type")
        values[key] = answer.get("probability" if kind == "predicate" else kind)
        if kind != "predicate":
            values[f"{key} confidence"] = answer.get("confidence")
        values |= {f"{key}.{each['value']}": each["probability"] for each in answer.get("probabilities", ())}
    return values


def differences(expected: Values, found: Values, where: str) -> list[str]:
    """What two replies do not have alike, a line each; floats are equal to the last bit or not at all."""
    lines = []
    for name in dict.fromkeys((*expected, *found)):
        ours, theirs = expected.get(name, "nothing"), found.get(name, "nothing")
        if ours != theirs:
            lines.append(f"{name} is {ours!r} over gRPC and {theirs!r} over {where}")
    return lines
