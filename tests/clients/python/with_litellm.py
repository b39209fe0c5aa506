"""Both decision calls of litellm, against the gateway whose base URL is the argument."""

import sys

import litellm

BASE = sys.argv[1]
NOUL = {"n": {"type": "noul", "instructions": "?"}}
PREDICATE = {"type": "predicate", "name": "p", "instructions": "?"}


def systemone(model, questions):
    return litellm.systemone(
        model="typesafe/" + model, state={"t": "x"}, questions=questions, api_base=BASE, api_key="k"
    )


def decisions(model, questions):
    return litellm.decisions(
        model="openai/" + model, input="x", questions=questions, api_base=BASE + "/v1", api_key="k"
    )


reply = systemone(
    "jev-latest",
    NOUL
    | {
        "c": {"type": "choice", "instructions": "?", "criteria": {"a": None, "b": "B"}},
        "s": {"type": "score", "instructions": "?", "criteria": ["lo", "hi"]},
    },
).model_dump()
answers = reply["answers"]
assert answers["n"]["noul"] == 0.5
assert answers["c"]["choice"] == "a"
assert answers["c"]["probabilities"] == {"a": 0.5, "b": 0.5}
assert answers["s"]["score"] == 0.5
assert answers["s"]["probabilities"] == {"0": 0.5, "1": 0.5}

reply = decisions(
    "m",
    [
        PREDICATE,
        {"type": "choice", "name": "c", "instructions": "?", "choices": [{"value": "a"}, {"value": "b"}]},
        {"type": "score", "name": "s", "instructions": "?", "levels": [{"label": "lo"}, {"label": "hi"}]},
    ],
).model_dump()
predicate, choice, score = reply["answers"]
assert predicate["name"] == "p" and predicate["probability"] == 0.5
assert choice["choice"] == "a"
assert [option["probability"] for option in choice["probabilities"]] == [0.5, 0.5]
assert score["score"] == 0.5
assert [(level["label"], level["probability"]) for level in score["probabilities"]] == [
    ("lo", 0.5),
    ("hi", 0.5),
]

for call, asked, expected in (
    (systemone, NOUL, litellm.BadRequestError),
    (decisions, [PREDICATE], litellm.NotFoundError),
):
    try:
        call("missing", asked)
    except expected as refused:
        assert "no model 'missing'" in str(refused)
    else:
        raise AssertionError("a model that is not there answered")

print("ok")
