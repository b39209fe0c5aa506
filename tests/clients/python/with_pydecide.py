"""Both HTTP backends of pydecide, against the gateway whose base URL is the argument."""

import sys

import decide
from decide.backends.openai_decisions import OpenAIDecisionsBackend
from decide.backends.typesafe import TypeSafeBackend
from decide.errors import AllBackendsFailed, BackendError

ASKED = {
    "n": decide.Noul("?"),
    "c": decide.Choice("?", {"a": None, "b": "B"}),
    "s": decide.Score("?", ["lo", "hi"]),
}

for backend, base, status in (
    (TypeSafeBackend, sys.argv[1], 400),
    (OpenAIDecisionsBackend, sys.argv[1] + "/v1", 404),
):
    with decide.Client([backend("k", base_url=base, model="m")]) as client:
        reply = client.decide({"t": "x"}, ASKED)
    assert reply.nouls["n"].noul == 0.5
    assert reply.choices["c"].choice == "a"
    assert reply.choices["c"].probabilities == {"a": 0.5, "b": 0.5}
    assert reply.scores["s"].score == 0.5
    assert reply.scores["s"].probabilities == [0.5, 0.5]

    with decide.Client([backend("k", base_url=base, model="missing")]) as client:
        try:
            client.decide("x", {"n": ASKED["n"]})
        except BackendError as refused:
            problem = refused
        except AllBackendsFailed as refused:
            [problem] = refused.errors
        else:
            raise AssertionError("a model that is not there answered")
    assert problem.status == status
    assert "no model 'missing'" in str(problem.body)

print("ok")
