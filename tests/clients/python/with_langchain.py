"""OpenAIDecisions of langchain-openai, against the gateway whose base URL is the argument."""

import sys

import openai
from langchain_openai.decisions import Choice, OpenAIDecisions, Predicate, Score


def decisions(model: str) -> OpenAIDecisions:
    return OpenAIDecisions(model=model, api_key="k", base_url=sys.argv[1] + "/v1", max_retries=0)


ASKED = {
    "p": Predicate(instructions="?"),
    "c": Choice(instructions="?", choices={"a": None, True: "B"}),
    "s": Score(instructions="?", levels=["lo", "hi"]),
}

reply = decisions("m").invoke({"input": {"t": "x"}, "questions": ASKED})
assert reply.predicates["p"].probability == 0.5
assert reply.choices["c"].choice == "a"
assert reply.choices["c"].probabilities == {"a": 0.5, True: 0.5}
assert reply.scores["s"].score == 0.5
assert reply.scores["s"].probabilities == {0: 0.5, 1: 0.5}
assert reply.scores["s"].legend == {0: "lo", 1: "hi"}

try:
    decisions("missing").invoke({"input": "x", "questions": {"p": ASKED["p"]}})
except openai.NotFoundError as refused:
    assert refused.code == "model_not_found"
else:
    raise AssertionError("a model that is not there answered")

print("ok")
