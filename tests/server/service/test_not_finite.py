"""A number in the model that is none costs those questions their answers that meet it, and no others."""

import math

import pytest
from tiny_server import load_tiny, predicate, request, score, serving, tiny_llama

from dicast.v1 import decision_pb2 as pb
from dicast_server.service.loading import Served


def load(value: float) -> Served:
    """A model whose embedding of a tilde is that number throughout."""
    # With a head of its own: in a tied one the value would reach every question's option mass.
    model = tiny_llama(tie_word_embeddings=False)
    frame = load_tiny().model.frame
    (tilde,) = set(frame.encode("~")) - set(frame.encode(""))
    model.model.embed_tokens.weight[tilde] = value
    return load_tiny(model=model)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("isolated", [False, True])
async def test_a_question_that_gets_no_number_is_refused_alone(value: float, isolated: bool) -> None:
    async with serving(lambda: load(value)) as running:
        plain = request(predicate("a", "Is it?"), predicate("b", "Is - it?"), score("c"), isolated=isolated)
        spoilt = request(predicate("a", "Is it?"), predicate("b", "Is ~ it?"), score("c"), isolated=isolated)
        expected = await running.decisions.Decide(plain)
        reply = await running.decisions.Decide(spoilt)
        assert [reply.answers[0], reply.answers[2]] == [expected.answers[0], expected.answers[2]]
        refused = reply.answers[1].refused
        assert refused.reason == pb.RefusedAnswer.REASON_NOT_FINITE
        assert "not a finite number" in refused.message
        # In a state it costs all, and the next state none.
        reply = await running.decisions.Decide(request(state="~" * 200))
        reasons = {answer.refused.reason for answer in reply.answers}
        assert reasons == {pb.RefusedAnswer.REASON_NOT_FINITE}
        assert list((await running.decisions.Decide(plain)).answers) == list(expected.answers)
