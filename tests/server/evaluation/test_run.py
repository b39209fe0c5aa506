"""All questions are asked once, also over interruptions, and one that is refused costs no other."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import labelled_rows
import pytest

from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.evaluation.journal import Journal, JournalError
from dicast_server.evaluation.run import AT_ONCE, ask_all
from dicast_server.evaluation.source import Busy, Declined, Said, SourceLost, Unsaid

DIGEST = "one system"


def said(question: LabelledQuestion) -> Said:
    share = 1 / question.options
    return Said((share,) * question.options, ((0.5,) * question.options,))


@dataclass
class Scripted:
    """A source that counts, and fails as it is told."""

    declines: frozenset[str] = frozenset()
    unsaid: frozenset[str] = frozenset()
    lost_after: int | None = None
    hangs_after: int | None = None
    busy: int = 0
    leave_s: float = 0.0
    name: str = "scripted"
    digest: str = DIGEST
    asked: list[list[str]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    hanging: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, questions: Sequence[LabelledQuestion]) -> list[Said | Unsaid]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            return await self._answer(questions)
        finally:
            self.at_once -= 1

    async def _answer(self, questions: Sequence[LabelledQuestion]) -> list[Said | Unsaid]:
        if self.busy:
            self.busy -= 1
            raise Busy("wait", self.leave_s)
        if self.lost_after is not None and len(self.asked) >= self.lost_after:
            raise SourceLost("it went away")
        if self.hangs_after is not None and len(self.asked) >= self.hangs_after:
            self.hanging.set()
            await asyncio.Event().wait()
        self.asked.append([each.id for each in questions])
        if any(each.id in self.declines for each in questions):
            raise Declined("too long")
        return [Unsaid("abstained") if each.id in self.unsaid else said(each) for each in questions]


@pytest.fixture
def questions(tmp_path: Path) -> tuple[LabelledQuestion, ...]:
    return labelled_rows.read(tmp_path, labelled_rows.rows())


async def test_questions_about_one_state_go_together_and_few_requests_at_once(
    questions: tuple[LabelledQuestion, ...],
) -> None:
    source, told = Scripted(), list[int]()
    answered = await ask_all(source, questions, told=told.append)
    assert sorted(source.asked) == sorted([f"{n}a", f"{n}b", f"{n}c"] for n in range(20))
    assert source.most_at_once == AT_ONCE
    assert [asked for asked, _ in answered.said] == list(questions)
    assert sum(told) == len(questions)
    assert answered.left_out == ()


async def test_rows_without_an_answer_are_listed_and_the_others_of_their_state_are_not_lost(
    questions: tuple[LabelledQuestion, ...],
) -> None:
    source = Scripted(declines=frozenset({"3b"}), unsaid=frozenset({"5c"}))
    answered = await ask_all(source, questions)
    assert [(each.id, each.line, each.reason) for each in answered.left_out] == [
        ("3b", 11, "too long"),
        ("5c", 18, "abstained"),
    ]
    assert len(answered.said) == len(questions) - 2


async def test_an_interrupted_run_goes_on_where_it_was(
    questions: tuple[LabelledQuestion, ...], tmp_path: Path
) -> None:
    path, first = tmp_path / "answers.jsonl", Scripted(hangs_after=7)
    with Journal(path, DIGEST) as journal:
        run = asyncio.create_task(ask_all(first, questions, journal))
        await first.hanging.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    second, told = Scripted(), list[int]()
    with Journal(path, DIGEST) as journal:
        assert journal.kept == 21
        answered = await ask_all(second, questions, journal, told.append)
    assert told[0] == 21
    assert sum(told) == len(questions)
    assert len(second.asked) == 13
    assert not {tuple(each) for each in first.asked} & {tuple(each) for each in second.asked}
    assert [answer for _, answer in answered.said] == [said(each) for each in questions]


async def test_a_source_that_goes_away_ends_the_run_and_keeps_what_it_said(
    questions: tuple[LabelledQuestion, ...], tmp_path: Path
) -> None:
    path = tmp_path / "answers.jsonl"
    with Journal(path, DIGEST) as journal, pytest.raises(SourceLost, match="it went away"):
        await ask_all(Scripted(lost_after=4), questions, journal)
    with Journal(path, DIGEST) as journal:
        assert journal.kept == 12


async def test_a_busy_source_is_asked_again_and_one_that_stays_busy_is_lost(
    questions: tuple[LabelledQuestion, ...],
) -> None:
    assert len((await ask_all(Scripted(busy=5), questions)).said) == len(questions)
    with pytest.raises(SourceLost, match="stayed busy: wait"):
        await ask_all(Scripted(busy=1000), questions)
    # Up to the end of its patience, however often that is.
    patient = Scripted(busy=100, leave_s=1e-9)
    assert len((await ask_all(patient, questions, patience_s=1.0)).said) == len(questions)


async def test_answers_of_another_system_or_to_other_wording_are_not_taken(
    questions: tuple[LabelledQuestion, ...], tmp_path: Path
) -> None:
    path = tmp_path / "answers.jsonl"
    with Journal(path, DIGEST) as journal:
        await ask_all(Scripted(), questions, journal)
    given = labelled_rows.rows()
    given[0]["question"]["instructions"] = "Is it very late?"
    given[4]["expected"] = "billing"  # a label is no part of what is asked
    reworded = labelled_rows.read(tmp_path, given)
    with Journal(path, DIGEST) as journal:
        assert not journal.stale
        assert [each.id for each in reworded if journal.find(each) is None] == ["0a"]
    with Journal(path, "another system") as journal:
        assert journal.stale
        assert journal.kept == 0
    # And the file is that system's from then on.
    with Journal(path, "another system") as journal:
        assert not journal.stale


async def test_a_line_that_was_cut_off_is_asked_again(
    questions: tuple[LabelledQuestion, ...], tmp_path: Path
) -> None:
    path = tmp_path / "answers.jsonl"
    with Journal(path, DIGEST) as journal:
        await ask_all(Scripted(), questions, journal)
    path.write_bytes(path.read_bytes()[:-20])
    with Journal(path, DIGEST) as journal:
        assert journal.kept == len(questions) - 1
        await ask_all(Scripted(), questions, journal)
    with Journal(path, DIGEST) as journal:
        assert journal.kept == len(questions)
        journal.remove()
    assert not path.exists()


def test_a_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"answers\.jsonl cannot be written: "):
        Journal(tmp_path / "none" / "answers.jsonl", DIGEST)
    (tmp_path / "odd.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(JournalError, match="no file of answers"):
        Journal(tmp_path / "odd.jsonl", DIGEST)


@pytest.mark.parametrize(
    "line", ["no JSON", "{}", "[]", '{"id": "0a", "question": "q", "probabilities": [null]}']
)
async def test_a_line_that_is_no_answer_is_told(
    line: str, questions: tuple[LabelledQuestion, ...], tmp_path: Path
) -> None:
    path = tmp_path / "answers.jsonl"
    with Journal(path, DIGEST) as journal:
        await ask_all(Scripted(), questions, journal)
    kept = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*kept[:4], line + "\n", *kept[4:]]))
    with pytest.raises(
        JournalError, match=r"answers\.jsonl, line 5, is no answer; remove the line or the file"
    ):
        Journal(path, DIGEST)


@pytest.mark.parametrize("text", ["precious\n", "precious", '{"format": "dicast-calibration"}\n'])
def test_a_file_of_something_else_is_not_written_over(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(text)
    with pytest.raises(JournalError, match="is no file of answers"):
        Journal(path, DIGEST)
    assert path.read_text() == text


def test_a_first_line_that_was_cut_off_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"form')
    with Journal(path, DIGEST) as journal:
        assert (journal.kept, journal.stale) == (0, False)
    with Journal(path, DIGEST) as journal:
        assert not journal.stale


async def test_a_full_disk_ends_the_run_with_a_sentence(
    questions: tuple[LabelledQuestion, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "answers.jsonl"
    with Journal(path, DIGEST) as journal:
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(JournalError, match=r"answers\.jsonl cannot be written: No space left"):
            await ask_all(Scripted(), questions, journal)
