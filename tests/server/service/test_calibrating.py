"""A fit at the start: it says how far it is, is kept, not made twice, and its failure keeps nobody out."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from tiny_server import Forwards, choice, health, load_tiny, predicate, refusal, request, serving

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import model_service_pb2 as model_pb
from dicast_server import calibrations
from dicast_server.calibration import file
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.decisions.answers import Answer
from dicast_server.decisions.questions import Predicate, Question
from dicast_server.engine.head import LabelScores
from dicast_server.readouts.scores import softmax
from dicast_server.service import failures
from dicast_server.service.calibrating import CalibrationSource
from dicast_server.service.failures import Violation
from dicast_server.service.host import Status
from dicast_server.service.loading import Served
from dicast_server.service.scoring import score

ROWS = 200
SHARPNESS = 3.0


class Sharp(Forwards):
    """A head whose labels' scores are spread widely, so that a temperature matters."""

    @property
    def runs_on(self) -> str:
        return str(self.head.runs_on)


def load_sharp() -> Served:
    served = load_tiny()
    head = Sharp(served.reader.head)
    head.spoil = lambda scores: LabelScores(tuple(2.0 * value for value in scores.values), scores.mass)
    served.reader.head = head  # type: ignore[assignment]
    return served


def questions() -> list[tuple[str, pb.Question]]:
    asked = (predicate(), choice(values=("a", "b", "c")))
    return [(f"{random.Random(index).getrandbits(128):x}", asked[index % 2]) for index in range(ROWS)]


async def write_labelled(path: Path) -> None:
    """Labels drawn from what the model says, as if it were SHARPNESS times too sure."""
    draw = random.Random(1)
    lines = []
    async with serving(load_sharp) as running:
        for state, question in questions():
            asked = request(question, state=state, detail=pb.DETAIL_LEVEL_FULL)
            (answer,) = (await running.decisions.Decide(asked)).answers
            p = softmax(answer.diagnostics.scores[0].scores, SHARPNESS)
            (label,) = draw.choices(range(len(p)), weights=p)
            type_ = "predicate" if len(p) == 2 else "choice"
            body: dict[str, Any] = {"type": type_, "instructions": question.instructions.text}
            if type_ == "choice":
                body["criteria"] = {"a": None, "b": None, "c": None}
            expected = ("yes", "no")[label] if type_ == "predicate" else "abc"[label]
            lines.append(json.dumps({"state": state, "question": body, "expected": expected}))
    path.write_text("\n".join(lines))


@pytest.fixture
async def labelled(tmp_path: Path) -> Path:
    path = tmp_path / "labelled.jsonl"
    await write_labelled(path)
    return path


async def test_a_fit_at_the_start_is_applied_kept_and_not_made_again(
    labelled: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dicast_server")
    source = CalibrationSource(questions=labelled, folder=tmp_path / "kept")
    async with serving(load_sharp, calibration=source) as running:
        read = running.gate.head.count
        first = await running.decisions.Decide(request(detail=pb.DETAIL_LEVEL_FULL))
        told = (await running.models.GetModel(model_pb.GetModelRequest())).model
    assert told.status_message == "" or "guesses" in told.status_message
    assert told.calibration.source == "fitted"
    found = first.answers[0].diagnostics
    assert found.temperature_source == pb.TEMPERATURE_SOURCE_FITTED
    assert found.temperature == pytest.approx(SHARPNESS, rel=0.35)
    (kept,) = (tmp_path / "kept").iterdir()
    assert kept.stem == told.calibration.digest
    assert file.read(kept).key.questions_sha256

    async with serving(load_sharp, calibration=source) as running:
        again = running.gate.head.count
        second = await running.decisions.Decide(request(detail=pb.DETAIL_LEVEL_FULL))
    async with serving(load_sharp) as running:
        check = running.gate.head.count
    assert again == check < read
    assert second.answers == first.answers
    assert f"found in {kept}" in caplog.text

    # Who starts without the questions finds it too.
    async with serving(load_sharp, calibration=CalibrationSource(folder=tmp_path / "kept")) as running:
        third = await running.decisions.Decide(request(detail=pb.DETAIL_LEVEL_FULL))
    assert third.answers == first.answers


async def test_until_it_is_done_the_server_starts_and_says_how_far_it_is(
    labelled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[Sharp] = []

    def load() -> Served:
        served = load_sharp()
        heads.append(served.reader.head)  # type: ignore[arg-type]
        return served

    async with serving(load, wait=False, calibration=CalibrationSource(questions=labelled)) as running:
        held = asyncio.Event()
        original = CalibrationSource.find

        async def find(self: CalibrationSource, *arguments: Any) -> Any:
            heads[0].hold()
            held.set()
            return await original(self, *arguments)

        monkeypatch.setattr(CalibrationSource, "find", find)
        ready = asyncio.ensure_future(running.server.make_ready())
        await held.wait()
        await heads[0].reached()
        model = (await running.models.GetModel(model_pb.GetModelRequest())).model
        assert model.status == model_pb.Model.STATUS_STARTING
        assert model.status_message == f"calibrating 0 of {ROWS}"
        assert await health(running) != 1
        _, info, _ = await refusal(running.decisions.Decide(request()))
        assert info.reason == "STARTING"
        heads[0].release()
        await ready
        assert running.host.status is Status.READY


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("", "has no rows"),
        ('{"state": "s"\n', "line 1"),
        (
            '{"state": "s", "question": {"type": "noul", "instructions": "?"}, "expected": "maybe"}',
            "expected",
        ),
        ('{"state": "s", "question": {"type": "noul", "instructions": "?"}, "expected": "yes"}', "one class"),
        (
            "\n".join(
                json.dumps(
                    {
                        "state": f"s{index}",
                        "question": {"type": "noul", "instructions": "?"},
                        "expected": index % 2 == 0,
                    }
                )
                for index in range(4)
            ),
            "4 rows are usable",
        ),
    ],
)
async def test_a_failure_leaves_what_was_served_and_says_so(
    tmp_path: Path, text: str | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "labelled.jsonl"
    if text is not None:
        path.write_text(text)
    source = CalibrationSource(questions=path, folder=tmp_path / "kept")
    async with serving(calibration=source) as running:
        reply = await running.decisions.Decide(request(detail=pb.DETAIL_LEVEL_BASIC))
        model = (await running.models.GetModel(model_pb.GetModelRequest())).model
    assert reply.answers[0].diagnostics.temperature == 1.0
    assert reply.answers[0].diagnostics.temperature_source == pb.TEMPERATURE_SOURCE_DEFAULT
    assert model.calibration.source == "default"
    assert "not calibrated" in model.status_message
    assert said in model.status_message
    assert any(said in each.message and each.levelname == "WARNING" for each in caplog.records)
    assert not (tmp_path / "kept").exists()


async def test_a_fit_that_cannot_be_kept_is_applied(
    labelled: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    source = CalibrationSource(questions=labelled, folder=taken)
    async with serving(load_sharp, calibration=source) as running:
        told = (await running.models.GetModel(model_pb.GetModelRequest())).model.calibration
    assert told.source == "fitted"
    assert "applied, and not saved" in caplog.text


async def test_a_saved_file_that_is_cut_off_is_made_anew(labelled: Path, tmp_path: Path) -> None:
    source = CalibrationSource(questions=labelled, folder=tmp_path / "kept")
    async with serving(load_sharp, calibration=source):
        pass
    (kept,) = (tmp_path / "kept").iterdir()
    whole = file.read(kept)
    kept.write_bytes(kept.read_bytes()[:100])
    async with serving(load_sharp, calibration=source) as running:
        assert running.host.base.temperatures is not None
        assert running.host.base.temperatures.calibrated is not None
    assert file.read(kept).table == whole.table


async def test_nothing_is_read_beside_a_temperature_of_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = CalibrationSource(temperature=2.0, questions=tmp_path / "missing.jsonl")
    async with serving(calibration=source) as running:
        told = (await running.models.GetModel(model_pb.GetModelRequest())).model.calibration
    assert (told.source, told.temperature) == ("server", 2.0)
    assert "does nothing beside --temperature" in caplog.text


def labelled_questions(count: int) -> list[LabelledQuestion]:
    asked = Question(0, "q", None, "?", Predicate())
    return [LabelledQuestion(f"r{index}", f"g{index}", index, "s", asked, 0) for index in range(count)]


async def test_a_question_that_is_refused_is_left_out_and_a_dead_model_ends_it() -> None:
    async def refused(question: LabelledQuestion) -> Answer:
        raise failures.invalid([Violation("state", "is too long")])

    collected = await score(refused, labelled_questions(3))
    assert [(each.id, each.reason) for each in collected.left_out] == [
        (f"r{index}", "state: is too long") for index in range(3)
    ]

    async def dead(question: LabelledQuestion) -> Answer:
        raise failures.model_unavailable("the engine has stopped")

    with pytest.raises(failures.Failure, match="stopped"):
        await score(dead, labelled_questions(3))


def test_the_folder_is_the_users_or_what_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert calibrations.folder().name == "calibrations"
    monkeypatch.setenv("DICAST_DATA", str(tmp_path))
    assert calibrations.folder() == tmp_path / "calibrations"
