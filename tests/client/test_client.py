"""Client: what it sends, what it makes of the reply, deadlines and retries."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any

import grpc
import pytest
from client.fake_service import MODEL_ID, FakeService, answer, decide, fail, summary

import dicast
from dicast import Choice, Client, Level, Option, Predicate, Score
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1.model_service_pb2_grpc import add_ModelServiceServicer_to_server

QUESTIONS: dict[str, dicast.Question] = {
    "route": Choice("Which team?", {"billing": "charges, refunds", "shipping": None}, name="r"),
    "angry": Predicate("Is the customer angry?"),
    "urgency": Score("How urgent?", ["can wait", "today", Level(label="now", description="at once")]),
}


def test_answers_have_their_types_and_the_order_of_the_questions(fake: FakeService) -> None:
    with Client(fake.address) as client:
        decision = client.decide("I was charged twice.", QUESTIONS)
    assert [each.key for each in decision] == ["route", "angry", "urgency"]
    route, urgency = decision.choice("route"), decision.score(2)
    assert (route.value, route.name, route.index) == ("billing", "r", 0)
    assert list(route.probabilities) == ["billing", "shipping"]
    assert sum(route.probabilities.values()) == pytest.approx(1)
    assert decision.predicate("angry").probability == 0.7
    assert decision.predicate("angry").value is True
    assert urgency.labels == ("can wait", "today", "now")
    assert urgency.value == 0
    assert (decision.model, decision.request_id, decision.elapsed_s) == (MODEL_ID, "request-1", 0.125)
    assert decision.usage == dicast.Usage(input_tokens=90, cached_tokens=60, computed_tokens=30)
    assert "route" in decision and "other" not in decision and len(decision) == 3
    with pytest.raises(KeyError):
        decision["other"]
    with pytest.raises(TypeError, match="PredicateAnswer, not a ChoiceAnswer"):
        decision.choice("angry")


def test_a_sequence_of_questions_is_keyed_by_place(fake: FakeService) -> None:
    with Client(fake.address) as client:
        decision = client.decide("", [Predicate("One?"), Predicate("Two?")])
    assert [each.key for each in decision] == ["0", "1"]
    assert decision["1"] == decision[1]


def test_some_of_the_questions_are_asked(fake: FakeService) -> None:
    with Client(fake.address) as client:
        client.decide("x", QUESTIONS, ask=["angry"])
    assert list(fake.calls[0].request.ask) == ["angry"]


def test_what_surrounds_a_request_is_sent(fake: FakeService) -> None:
    options = dicast.Options(
        temperature=0.5,
        orders=2,
        detail="full",
        seed=2**63,
        abstain=dicast.Abstain(min_confidence=0.2),
        readout=dicast.Candidates(scoring="sequence"),
        extensions={"plugin": {"a": 1}},
    )
    with Client(fake.address, api_key="k-1", tenant="acme") as client:
        client.decide(
            {"id": 1}, QUESTIONS, model="m", options=options, end_user="u", request_id="mine", timeout_s=5
        )
    call = fake.calls[0]
    assert call.metadata["authorization"] == "Bearer k-1"
    assert call.metadata["x-dicast-tenant"] == "acme"
    assert call.metadata["x-request-id"] == "mine"
    assert call.seconds_left is not None and 3 < call.seconds_left < 6
    sent: service_pb.DecideRequest = call.request
    assert (sent.model, sent.end_user, sent.state.json) == ("m", "u", '{"id": 1}')
    assert sent.options.seed == 2**63
    assert sent.options.readout.candidates.scoring == pb.CandidatesReadout.SCORING_SEQUENCE
    assert sent.options.abstain.min_confidence == 0.2
    assert [(each.name, each.json) for each in sent.extensions] == [("plugin", '{"a": 1}')]


def test_a_call_has_a_deadline_of_a_minute_unless_told_otherwise(fake: FakeService) -> None:
    with Client(fake.address) as client:
        client.models()
        client.models(timeout_s=None)
    with Client(fake.address, timeout_s=None) as client:
        client.models()
        client.models(timeout_s=9)
    left = [call.seconds_left for call in fake.calls]
    assert left[0] is not None and 50 < left[0] < 61
    assert left[1:3] == [None, None]
    assert left[3] is not None and left[3] < 10


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf")])
def test_a_timeout_is_a_positive_number(timeout_s: float) -> None:
    with pytest.raises(ValueError, match="timeout_s"):
        Client(timeout_s=timeout_s)
    with Client() as client, pytest.raises(ValueError, match="timeout_s"):
        client.models(timeout_s=timeout_s)


def unavailable_twice(calls: list[Any]) -> Any:
    def script(request: service_pb.DecideRequest, context: grpc.ServicerContext) -> Any:
        calls.append(request)
        if len(calls) < 3:
            fail(context, grpc.StatusCode.UNAVAILABLE, "starting")
        return decide(request, context)

    return script


def test_an_unavailable_server_is_asked_three_times(fake: FakeService) -> None:
    calls: list[Any] = []
    fake.decide = unavailable_twice(calls)
    with Client(fake.address) as client:
        assert len(client.decide("x", QUESTIONS)) == 3
    assert len(calls) == 3


def test_without_retries_it_is_asked_once(fake: FakeService) -> None:
    calls: list[Any] = []
    fake.decide = unavailable_twice(calls)
    with Client(fake.address, retries=False) as client, pytest.raises(dicast.Unavailable):
        client.decide("x", QUESTIONS)
    assert len(calls) == 1


@pytest.mark.parametrize("code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED])
def test_other_failures_are_not_tried_again(fake: FakeService, code: grpc.StatusCode) -> None:
    fake.decide = lambda _, context: fail(context, code, "no")
    with Client(fake.address) as client, pytest.raises(dicast.ServerError):
        client.decide("x", QUESTIONS)
    assert len(fake.calls) == 1


def test_a_large_request_is_tried_again_too(fake: FakeService) -> None:
    calls: list[Any] = []
    fake.decide = unavailable_twice(calls)
    with Client(fake.address) as client:
        client.decide("x" * 2_000_000, QUESTIONS)
    assert len(calls) == 3


def test_skipped_and_refused_stand_in_place_of_an_answer(fake: FakeService) -> None:
    def script(request: service_pb.DecideRequest, _: grpc.ServicerContext) -> service_pb.DecideResponse:
        skipped = pb.Answer(index=0, key="a")
        skipped.skipped.because = "b"
        skipped.skipped.was.level = 2
        refused = pb.Answer(index=1, key="b")
        refused.refused.reason = pb.RefusedAnswer.REASON_ABSTAINED
        refused.refused.message = "too uncertain"
        plugin = pb.Answer(index=2, key="c", extension=pb.Extension(name="rank", json="[1, 0]"))
        return service_pb.DecideResponse(answers=[skipped, refused, plugin], summary=summary("r"))

    fake.decide = script
    with Client(fake.address) as client:
        decision = client.decide("x", {key: Predicate("?") for key in "abc"})
    assert decision["a"] == dicast.Skipped(key="a", index=0, because="b", was=2)
    assert decision["b"] == dicast.Refused(key="b", index=1, reason="abstained", message="too uncertain")
    assert decision["c"] == dicast.ExtensionAnswer(key="c", index=2, type="rank", json="[1, 0]")
    with pytest.raises(dicast.Unanswered, match="skipped because of 'b'") as caught:
        decision.predicate("a")
    assert caught.value.answer is decision["a"]
    with pytest.raises(dicast.Unanswered, match="too uncertain"):
        decision.predicate("b")


def test_an_answer_of_an_unknown_kind_says_to_upgrade(fake: FakeService) -> None:
    fake.decide = lambda *_: service_pb.DecideResponse(answers=[pb.Answer(key="a")])
    with Client(fake.address) as client, pytest.raises(dicast.Internal, match="upgrade"):
        client.decide("x", QUESTIONS)


def test_diagnostics_come_back_whole(fake: FakeService) -> None:
    def script(request: service_pb.DecideRequest, _: grpc.ServicerContext) -> service_pb.DecideResponse:
        reply = answer(0, request.questions[0])
        reply.diagnostics.CopyFrom(
            pb.Diagnostics(
                readout="letters",
                option_mass=0.1 + 0.2,
                temperature_source=pb.TEMPERATURE_SOURCE_FITTED,
                scores=[
                    pb.PassScores(
                        options=[1, 0],
                        scores=[-1.5, 2.25],
                        candidate_token_ids=[pb.TokenIds(ids=[7, 8]), pb.TokenIds(ids=[9])],
                        prior=True,
                    )
                ],
                score_kind="candidate_logit",
                prior_corrected=True,
                length_normalized=True,
                entropy=0.5,
                margin=0.25,
                concentration=0.125,
                confidence_formula="normalized_peak",
                state_hash="ab",
                tokens=2**40,
            )
        )
        return service_pb.DecideResponse(answers=[reply], summary=summary("r"))

    fake.decide = script
    with Client(fake.address) as client:
        found = client.decide("x", [Predicate("?")])[0].diagnostics
    assert found is not None
    assert (found.readout, found.option_mass, found.temperature_source) == ("letters", 0.1 + 0.2, "fitted")
    assert found.scores == (
        dicast.PassScores(
            options=(1, 0), scores=(-1.5, 2.25), candidate_token_ids=((7, 8), (9,)), prior=True
        ),
    )
    assert (found.score_kind, found.confidence_formula) == ("candidate_logit", "normalized_peak")
    assert found.prior_corrected and found.length_normalized
    assert (found.entropy, found.margin, found.concentration) == (0.5, 0.25, 0.125)
    assert (found.state_hash, found.tokens) == ("ab", 2**40)
    assert fields(found) == [field.name for field in pb.Diagnostics.DESCRIPTOR.fields]
    assert fields(found.scores[0]) == [field.name for field in pb.PassScores.DESCRIPTOR.fields]


def fields(found: dicast.Diagnostics | dicast.PassScores) -> list[str]:
    return [field.name for field in dataclasses.fields(found)]


def test_bool_and_text_options_stay_apart(fake: FakeService) -> None:
    with Client(fake.address) as client:
        found = client.decide("x", {"a": Choice("?", [True, "true", Option(False, "never")])}).choice("a")
    assert found.value is True
    assert [(type(value), value) for value in found.probabilities] == [
        (bool, True),
        (str, "true"),
        (bool, False),
    ]


def test_models_come_back_whole(fake: FakeService) -> None:
    with Client(fake.address) as client:
        (model,) = client.models()
        assert client.model("jev-latest") == client.model() == model
        with pytest.raises(dicast.NotFound) as caught:
            client.model("other")
    assert caught.value.metadata == {"models": MODEL_ID}
    assert (model.id, model.status, model.aliases) == (MODEL_ID, "ready", ("jev-latest",))
    assert model.loaded_at == datetime(2026, 11, 30, 10, tzinfo=timezone.utc)  # noqa: UP017
    assert model.engine.blas_threads == 2
    assert model.self_check is not None and model.self_check.asked == 6


def test_prewarm(fake: FakeService) -> None:
    with Client(fake.address) as client:
        kept = client.prewarm(["a", 1], time_to_live_s=1.5, cache_salt="s")
    assert (kept.kept, kept.prefix_tokens, kept.cached_tokens) == (True, 70, 64)
    sent = fake.calls[0].request
    assert (sent.state.json, sent.time_to_live.seconds, sent.time_to_live.nanos) == (
        '["a", 1]',
        1,
        500_000_000,
    )


def test_no_key_shows_in_a_repr() -> None:
    with Client("h:1", api_key="secret-key", tenant="acme") as client:
        assert repr(client) == "Client('h:1', api_key=***, tenant='acme', timeout_s=60.0)"
        assert "secret" not in repr(client._connection)
    assert "salt-1" not in repr(dicast.Options(cache_salt="salt-1"))


@pytest.mark.parametrize("key", ["", "a\nb", "clé"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(ValueError, match="api_key: printable ASCII") as caught:
        Client(api_key=key)
    assert not key or key not in str(caught.value)


def test_credentials_make_the_channel_a_secure_one(fake: FakeService) -> None:
    server = grpc.server(ThreadPoolExecutor(2))
    add_ModelServiceServicer_to_server(fake, server)
    port = server.add_secure_port("127.0.0.1:0", grpc.local_server_credentials())
    server.start()
    with Client(f"127.0.0.1:{port}", credentials=grpc.local_channel_credentials()) as client:
        assert client.model().id == MODEL_ID
    server.stop(0).wait()


def test_nobody_there_is_unavailable() -> None:
    with Client("127.0.0.1:1", timeout_s=5) as client, pytest.raises(dicast.Unavailable) as caught:
        client.models()
    assert caught.value.reason == ""
    assert isinstance(caught.value.__cause__, grpc.RpcError)
