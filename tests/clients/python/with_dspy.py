"""The experimental TypeSafe client of DSPy, against the gateway whose base URL is the argument."""

import sys

import dspy
from dspy import experimental
from typesafe_sdk import TypeSafeAPIError

Team = experimental.Choice[("billing", "charges"), ("shipping", "parcels")]
Urgency = experimental.Score["lo", "hi"]


class Triage(dspy.Signature):
    """Say what the text is about."""

    text: str = dspy.InputField()
    late: experimental.Noul = dspy.OutputField(desc="?")
    team: Team = dspy.OutputField(desc="?")
    urgency: Urgency = dspy.OutputField(desc="?")


def ask(model: str) -> dspy.Prediction:
    lm = experimental.TypeSafe(model, api_key="k", base_url=sys.argv[1], cache=False)
    return dspy.Predict(Triage)(text="x", lm=lm)


reply = ask("jev-latest")
assert reply.late.probability == 0.5
assert reply.team.value == "billing"
assert reply.team.probabilities == {"billing": 0.5, "shipping": 0.5}
assert reply.urgency.value == 0.5
assert reply.urgency.probabilities == {0: 0.5, 1: 0.5}

try:
    ask("missing")
except TypeSafeAPIError as refused:
    assert "no model 'missing'" in str(refused)
else:
    raise AssertionError("a model that is not there answered")

print("ok")
