"""A server with a calibration: what it applies, what it says of it, and which calibrations it refuses."""

import json
import math
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2
from made_calibrations import DATE, OFFSET, calibration, given, key, threshold
from tiny_server import Running, choice, predicate, refusal, request, score, serving

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb
from dicast_server import calibrations
from dicast_server.calibration.kinds import KINDS
from dicast_server.calibration.levels import Scheme
from dicast_server.calibration.verdicts import Verdict
from dicast_server.service.calibrating import CalibrationSource
from dicast_server.service.host import Status

FULL = pb.DETAIL_LEVEL_FULL
LETTERS = pb.Readout(letters=pb.LettersReadout())
THRESHOLDS = [threshold(kind, 0.1, 0.999) for kind in KINDS] + [threshold(kind, 0.2, 0.0) for kind in KINDS]


def sources(reply: service_pb.DecideResponse) -> list[str]:
    found = [answer.diagnostics.temperature_source for answer in reply.answers]
    return [pb.TemperatureSource.Name(each).removeprefix("TEMPERATURE_SOURCE_") for each in found]


async def model_of(running: Running) -> model_pb.Model:
    shown: model_pb.GetModelResponse = await running.models.GetModel(model_pb.GetModelRequest())
    return shown.model


async def test_a_fit_is_applied_and_told() -> None:
    async with serving(calibration=given(calibration(thresholds=THRESHOLDS))) as running:
        reply = await running.decisions.Decide(request(detail=FULL))
        raw = await running.decisions.Decide(request(detail=FULL, temperature=1.0))
        told = (await model_of(running)).calibration
    assert sources(reply) == ["FITTED"] * 3
    assert sources(raw) == ["REQUEST"] * 3
    found = [(a.diagnostics.temperature, a.diagnostics.offset) for a in reply.answers]
    assert found == [(2.5, OFFSET), (3.0, 0.0), (0.5, 0.0)]
    assert [a.diagnostics.offset for a in raw.answers] == [0.0] * 3

    yes, no = reply.answers[0].diagnostics.scores[0].scores
    expected = 1 / (1 + math.exp(-((yes - no) / 2.5 + OFFSET)))
    p = reply.answers[0].predicate.probability
    assert p == pytest.approx(expected, abs=1e-12)
    # What is told of the probabilities is told of those of the answer.
    assert reply.answers[0].diagnostics.margin == pytest.approx(abs(2 * p - 1))
    logs = [math.log(each.probability) for each in reply.answers[1].choice.probabilities]
    scores = reply.answers[1].diagnostics.scores[0].scores
    assert logs[0] - logs[1] == pytest.approx((scores[0] - scores[1]) / 3.0)

    assert (told.source, told.scheme, told.digest) == ("fitted", "per_type", key().digest)
    assert told.fitted_at.ToDatetime(DATE.tzinfo) == DATE
    assert [(t.question_type, t.verdict, t.rows, t.temperature, t.offset) for t in told.types] == [
        ("predicate", "calibrated", 100, 2.5, OFFSET),
        ("choice", "calibrated", 100, 3.0, 0.0),
        ("score", "calibrated", 100, 0.5, 0.0),
    ]
    assert {tuple(each.max_errors) for each in told.types} == {(0.1, 0.2)}
    assert json.loads(told.made_for) == key().model_dump(mode="json")
    assert json.loads(told.wanted) == key(questions="").model_dump(mode="json")


async def test_a_question_that_is_read_otherwise_is_not_calibrated() -> None:
    other = choice("d", readout=pb.Readout(direct=pb.DirectReadout()))
    same = choice("l", readout=LETTERS)
    async with serving(calibration=given()) as running:
        reply = await running.decisions.Decide(request(choice(), other, same, detail=FULL))
        twice = await running.decisions.Decide(request(choice(), detail=FULL, orders=2))
    assert sources(reply) == ["FITTED", "DEFAULT", "FITTED"]
    assert sources(twice) == ["DEFAULT"]


async def test_the_servers_own_temperature_goes_before_a_fit() -> None:
    async with serving(calibration=given(temperature=1.5)) as running:
        reply = await running.decisions.Decide(request(detail=FULL))
        told = (await model_of(running)).calibration
    assert sources(reply) == ["SERVER"] * 3
    assert (told.source, told.temperature) == ("server", 1.5)


async def test_a_fit_that_was_not_kept_is_told_as_that() -> None:
    async with serving(calibration=given(calibration(scheme=Scheme.NONE))) as running:
        reply = await running.decisions.Decide(request(detail=FULL))
        told = (await model_of(running)).calibration
    assert sources(reply) == ["DEFAULT"] * 3
    assert (told.source, told.scheme, told.temperature) == ("default", "none", 1.0)


async def test_what_has_no_signal_is_flattened_and_never_called_calibrated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = calibration(verdicts=dict.fromkeys(KINDS, Verdict.NO_SIGNAL))
    async with serving(calibration=given(made)) as running:
        reply = await running.decisions.Decide(request(detail=FULL))
        told = (await model_of(running)).calibration
    assert sources(reply) == ["FITTED"] * 3
    assert {each.verdict for each in told.types} == {"no_signal"}
    (warning,) = [record for record in caplog.records if "NO SIGNAL in" in record.message]
    assert warning.levelname == "WARNING"
    assert "predicate, choice, score" in warning.message
    assert "calibrated" not in caplog.text


async def test_a_calibration_of_something_else_is_not_served() -> None:
    made = calibration(key().model_copy(update={"weights_hash": "other", "prompt_version": "letters-0"}))
    async with serving(calibration=given(made)) as running:
        assert running.host.status is Status.REFUSED
        model = await model_of(running)
        code, info, _ = await refusal(running.decisions.Decide(request()))
    assert (code, info.reason) == (grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE")
    assert model.status == model_pb.Model.STATUS_REFUSED
    assert 'weights_hash is "other" in the file and "aaaa' in model.status_message
    assert 'prompt_version is "letters-0" in the file' in model.status_message


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"readout": "x_none"}, "readout is x_none in the file, and there are"),
        ({"settings": {"style": "round"}}, "must be plain or bracket"),
        (
            {"settings": {"style": "plain", "new": 1}},
            "settings.new is not known; there is style",
        ),
        ({"constants": (0.9, 1.0, 0.0)}, "constants is"),
        ({"profile": "openjev"}, "profile is"),
    ],
)
async def test_what_differs_is_said(changed: dict[str, object], said: str) -> None:
    made = calibration(key().model_copy(update=changed))
    async with serving(calibration=given(made)) as running:
        assert running.host.status is Status.REFUSED
        assert said in running.host.status_message


async def test_a_calibration_of_another_way_of_reading_is_for_those_questions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(calibration=given(calibration(key("direct", 2)))) as running:
        direct = pb.Readout(direct=pb.DirectReadout())
        reply = await running.decisions.Decide(request(choice(), detail=FULL, orders=2, readout=direct))
        plain = await running.decisions.Decide(request(choice(), detail=FULL))
    assert (sources(reply), sources(plain)) == (["FITTED"], ["DEFAULT"])
    assert "only for questions that are read by direct" in caplog.text


async def test_a_saved_fit_is_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "dicast_server")
    later = calibration(key(questions="r"), date=DATE.replace(year=2027))
    for made in (calibration(), later, calibration(key("direct")), calibration(key(orders=2))):
        calibrations.save(made, tmp_path)
    async with serving(calibration=CalibrationSource(folder=tmp_path)) as running:
        told = (await model_of(running)).calibration
    assert (told.source, told.digest) == ("fitted", later.key.digest)
    assert f"{later.key.digest}.json" in caplog.text


async def test_settings_that_a_file_leaves_out_are_the_readouts_own(tmp_path: Path) -> None:
    terse = calibration(key().model_copy(update={"settings": {}}))
    calibrations.save(terse, tmp_path)
    for source in (given(terse), CalibrationSource(folder=tmp_path)):
        async with serving(calibration=source) as running:
            assert sources(await running.decisions.Decide(request(detail=FULL))) == ["FITTED"] * 3


async def test_files_that_cannot_be_read_are_passed_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = calibrations.save(calibration(), tmp_path)
    text = whole.read_text()
    whole.write_text(text[: len(text) // 2])
    (tmp_path / "newer.json").write_text(json.dumps({**json.loads(text), "version": 99}))
    async with serving(calibration=CalibrationSource(folder=tmp_path)) as running:
        reply = await running.decisions.Decide(request(detail=FULL))
    assert sources(reply) == ["DEFAULT"] * 3
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert any(whole.name in each and "not applied" in each for each in warnings)
    assert any("has version 99" in each and "not applied" in each for each in warnings)


async def test_a_folder_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    async with serving(calibration=CalibrationSource(folder=tmp_path / "none")) as running:
        assert running.host.status is Status.READY
        assert (await model_of(running)).calibration.source == "default"


async def test_answers_below_the_threshold_of_a_wanted_error_are_refused_with_their_probabilities() -> None:
    async with serving(calibration=given(calibration(thresholds=THRESHOLDS))) as running:
        plain = await running.decisions.Decide(request(detail=FULL))
        strict = await running.decisions.Decide(request(detail=FULL, abstain=pb.Abstain(max_error=0.1)))
        loose = await running.decisions.Decide(request(detail=FULL, abstain=pb.Abstain(max_error=0.2)))
    assert loose.answers == plain.answers
    for refused, answer in zip(strict.answers, plain.answers, strict=True):
        assert refused.refused.reason == pb.RefusedAnswer.REASON_ABSTAINED
        assert "below 0.999" in refused.refused.message
        kind = answer.WhichOneof("kind")
        assert refused.refused.WhichOneof("would_be") == kind
        assert getattr(refused.refused, str(kind)) == getattr(answer, str(kind))


async def test_a_confidence_is_missed_with_probabilities_too() -> None:
    async with serving() as running:
        plain = await running.decisions.Decide(request())
        for abstain in (pb.Abstain(min_confidence=1.0), pb.Abstain(min_option_mass=1.0)):
            reply = await running.decisions.Decide(request(abstain=abstain))
            assert [answer.refused.predicate for answer in reply.answers[:1]] == [plain.answers[0].predicate]
            assert reply.answers[1].refused.choice == plain.answers[1].choice
            assert reply.answers[2].refused.score == plain.answers[2].score


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (request(abstain=pb.Abstain(max_error=0.05)), "does not have it; there are: 0.1, 0.2"),
        (request(abstain=pb.Abstain(max_error=0.1), temperature=1.0), "does not go with a temperature"),
        (request(abstain=pb.Abstain(max_error=0.1), orders=2), "is not known for questions read by letters"),
    ],
)
async def test_a_wanted_error_that_nothing_bounds_is_refused_before_any_forward(
    asked: service_pb.DecideRequest, said: str
) -> None:
    async with serving(calibration=given(calibration(thresholds=THRESHOLDS))) as running:
        before = running.gate.count
        code, info, details = await refusal(running.decisions.Decide(asked))
        assert running.gate.count == before
    assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "NOT_SUPPORTED")
    violations = error_details_pb2.BadRequest()
    assert details[0].Unpack(violations)
    assert {each.field for each in violations.field_violations} == {"options.abstain.max_error"}
    assert said in violations.field_violations[0].description


async def test_without_a_calibration_no_error_is_bounded() -> None:
    async with serving() as running:
        code, info, _ = await refusal(
            running.decisions.Decide(request(predicate(), score(), abstain=pb.Abstain(max_error=0.1)))
        )
    assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "NOT_SUPPORTED")


@pytest.mark.parametrize("wanted", [0.0, -0.1, 0.51, math.nan, math.inf])
async def test_a_wanted_error_has_limits(wanted: float) -> None:
    async with serving(calibration=given(calibration(thresholds=THRESHOLDS))) as running:
        code, info, _ = await refusal(running.decisions.Decide(request(abstain=pb.Abstain(max_error=wanted))))
    assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID")
