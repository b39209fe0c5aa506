"""Labelled questions: every form a label takes, and every way in which a file is wrong."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from dicast import jsontext
from dicast_server.calibration.dataset import DatasetError, read_dataset
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.decisions.questions import Choice, Json, Option, Predicate

CHOICE = {"type": "choice", "instructions": "Who?", "criteria": {"billing": "charges", "shipping": None}}
SCORE = {"type": "score", "instructions": "How bad?", "criteria": ["calm", "upset", "furious"]}
NOUL = {"type": "noul", "instructions": "Is it late?"}


def row(question: Any = NOUL, expected: Any = True, **more: Any) -> dict[str, Any]:
    return {"state": "Parcel 7", "question": question, "expected": expected, **more}


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in rows))
    return path


def one(tmp_path: Path, *rows: Any) -> LabelledQuestion:
    (question,) = read_dataset(write(tmp_path / "q.jsonl", *rows)).questions
    return question


def faults(path: Path) -> list[tuple[int, str]]:
    with pytest.raises(DatasetError) as caught:
        read_dataset(path)
    return [(fault.line, fault.problem) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("question", "expected", "label"),
    [
        (NOUL, True, 0),
        (NOUL, False, 1),
        (NOUL, "yes", 0),
        (NOUL, "No", 1),
        (NOUL, "true", 0),
        (NOUL, "False", 1),
        ({**NOUL, "type": "predicate"}, "yes", 0),
        (CHOICE, "billing", 0),
        (CHOICE, "shipping", 1),
        (SCORE, 0, 0),
        (SCORE, 2.0, 2),
        (SCORE, "1", 1),
        (SCORE, "furious", 2),
        ({**SCORE, "criteria": ["3", "4", "5"]}, "5", 2),
        ({**SCORE, "criteria": ["1", "2", "3"]}, 1, 1),
    ],
)
def test_a_label_is_the_index_of_the_option_that_is_meant(
    tmp_path: Path, question: Any, expected: Any, label: int
) -> None:
    assert one(tmp_path, row(question, expected)).label == label


def test_a_row_becomes_a_question_as_the_server_knows_it(tmp_path: Path) -> None:
    question = one(tmp_path, row(CHOICE, "billing", id="a", group="g", provenance={"license": "MIT"}))
    assert (question.id, question.group, question.line, question.state) == ("a", "g", 1, "Parcel 7")
    assert (question.kind, question.options) == ("choice", 2)
    assert question.question.instructions == "Who?"
    assert question.question.type == Choice((Option("billing", "charges"), Option("shipping", None)))


def test_the_text_of_json_is_kept(tmp_path: Path) -> None:
    state = one(
        tmp_path,
        '{"state": {"n": 1.0, "n": 2}, "question": {"type": "noul",',
        json.dumps({"instructions": ["a"]})[1:-1] + '}, "expected": false}\n',
    ).state
    assert isinstance(state, Json)
    assert jsontext.render(state.value) == '{"n": 1.0, "n": 2}'


def test_a_group_is_named_or_the_row_is_one_of_its_own(tmp_path: Path) -> None:
    rows = [row(group="g", id="a"), row(group_id=7), row(group=None, id="c"), row()]
    found = read_dataset(write(tmp_path / "q.jsonl", *rows)).questions
    assert [(each.id, each.group) for each in found] == [
        ("a", "g"),
        ("line 2", "7"),
        ("c", "c"),
        ("line 4", "line 4"),
    ]


def test_a_file_is_known_by_its_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", row(), "\n", row())
    dataset = read_dataset(path)
    assert dataset.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [each.line for each in dataset.questions] == [1, 3]


def test_lines_end_where_json_says(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    text = json.dumps({**row(), "state": "a\u2028b"}, ensure_ascii=False)
    path.write_bytes(b"\xef\xbb\xbf" + f"{text}\r\n{json.dumps(row())}\r\n".encode())
    assert [(each.line, each.state) for each in read_dataset(path).questions] == [
        (1, "a\u2028b"),
        (2, "Parcel 7"),
    ]


BAD_ROWS: list[tuple[Any, str]] = [
    ("{\n", "is not JSON: Expecting property name"),
    ("[1]\n", "is not an object"),
    ('{"state": "a", "state": "b"}\n', "state: occurs twice"),
    ({"question": NOUL, "expected": True}, "state: is missing"),
    ({"state": "a", "expected": True}, "question: is missing"),
    ({"state": "a", "question": NOUL}, "expected: is missing"),
    ({**row(), "state": 7}, "state: must be a string, an object or an array"),
    (row("late?"), "question: is not an object"),
    (row({"instructions": "a"}), "question.type: is missing"),
    (row({"type": "boolean"}), 'question.type: "boolean" is none of noul, predicate, choice, score'),
    (row({**NOUL, "instruction": "a"}), "question.instruction: is unknown"),
    (row({**NOUL, "instructions": 5}), "question.instructions: must be a string"),
    (row({"type": "noul"}), "a predicate needs instructions or a criterion"),
    (row({**NOUL, "criteria": {"yes": "a"}}), "question.criteria: a predicate has null or"),
    (row({**CHOICE, "criteria": ["a", "b"]}, "a"), "question.criteria: a choice has an object"),
    (row({**CHOICE, "criteria": {"a": None}}, "a"), "has 1 options; there must be 2 to 255"),
    (row({**SCORE, "criteria": {"a": None}}, 0), "question.criteria: a score has an array"),
    (row({**SCORE, "criteria": ["a"] * 11}, 0), "has 11 levels; there must be 2 to 10"),
    (row(expected="maybe"), 'expected: "maybe" is not yes, no, true or false'),
    (row(expected=1), "expected: 1 is not yes, no, true or false"),
    (row(CHOICE, "biling"), 'expected: "biling" is not among the options "billing", "shipping"'),
    (row(CHOICE, 0), "expected: 0 is not among the options"),
    (row(SCORE, 3), "expected: 3 is no level; they go from 0 to 2"),
    (row(SCORE, 1.5), "expected: 1.5 is no level"),
    (row(SCORE, True), "expected: true is neither the number of a level nor its text"),
    (row(SCORE, "happy"), 'expected: "happy" is not among the levels 0 to 2, "calm", "upset", "furious"'),
    (row({**SCORE, "criteria": ["1", "2", "3"]}, "1"), "may mean the levels 0 and 1"),
    (row({**SCORE, "criteria": ["a", "a"]}, "a"), "may mean the levels 0 and 1"),
    (row(id=["a"]), "id: must be a string"),
    (row(id="first"), "id: 'first' is that of line 1 too"),
    (
        '{"state": "a", "question": {"type": "choice", "criteria": {"a": 1, "a": 2}}, "expected": "a"}\n',
        "question.criteria.a: occurs twice",
    ),
]


@pytest.mark.parametrize(("bad", "problem"), BAD_ROWS)
def test_a_wrong_row_is_told_with_its_line(tmp_path: Path, bad: Any, problem: str) -> None:
    path = write(tmp_path / "q.jsonl", row(id="first"), "\n", bad, row())
    ((line, said),) = faults(path)
    assert line == 3
    assert problem in said
    assert "line 1, column" not in said


def test_all_faults_are_told_at_once_up_to_twenty(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", *[row(expected="maybe")] * 25)
    assert [line for line, _ in faults(path)] == list(range(1, 21))
    with pytest.raises(DatasetError, match=r"q\.jsonl, line 20: (.|\n)*and 5 more"):
        read_dataset(path)


def test_a_file_that_is_missing_empty_or_no_text_is_told(tmp_path: Path) -> None:
    assert faults(tmp_path / "none.jsonl") == [(0, "cannot be read: No such file or directory")]
    assert faults(tmp_path) == [(0, "cannot be read: Is a directory")]
    for name in ("empty.jsonl", "empty.csv"):
        assert faults(write(tmp_path / name, "\n")) == [(0, "has no rows")]
    (tmp_path / "latin.jsonl").write_bytes(json.dumps(row()).encode() + b"\n\xe9\n")
    assert faults(tmp_path / "latin.jsonl") == [(2, "is not UTF-8")]
    for array in (
        "[\n" + json.dumps(row()) + "\n]\n",
        json.dumps([row()] * 3),
        "[" + json.dumps(row(), indent=1),
    ):
        ((line, said),) = faults(write(tmp_path / "array.json", array))
        assert (line, said) == (1, "begins an array; the file has an object a line instead")


CSV = """id,group,type,state,instructions,options,expected,note
a,g,noul,"two
lines",Late?,,yes,x

b,g,choice,text,Who?,billing | shipping,shipping,
c,,choice,text,Who?,"{""billing"": ""charges"", ""shipping"": null}",billing,
d,,choice,text,Who?,"[""a|b"", ""c""]",a|b,
e,,score,text,How bad?,calm|upset,1,
f,,predicate,text,,"{""true"": ""it is late""}",FALSE,
,,,, ,,,
"""


def test_a_spreadsheet_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "Q.CSV"
    path.write_bytes(b"\xef\xbb\xbf" + CSV.encode())
    found = read_dataset(path).questions
    assert [(each.id, each.group, each.line, each.label) for each in found] == [
        ("a", "g", 2, 0),
        ("b", "g", 5, 1),
        ("c", "c", 6, 0),
        ("d", "d", 7, 0),
        ("e", "e", 8, 1),
        ("f", "f", 9, 1),
    ]
    assert found[0].state == "two\nlines"
    assert found[2].question.type == Choice((Option("billing", "charges"), Option("shipping", None)))
    assert found[5].question.type == Predicate("it is late", None)


def test_a_state_of_a_spreadsheet_may_be_json(tmp_path: Path) -> None:
    path = write(tmp_path / "q.csv", 'state_json,type,instructions,expected\n"{""n"": 1.0}",noul,Late?,no\n')
    (question,) = read_dataset(path).questions
    assert isinstance(question.state, Json)
    assert jsontext.render(question.state.value) == '{"n": 1.0}'


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("state,type\n", 1, "the header lacks expected"),
        ("type,expected\n", 1, "the header lacks state"),
        ("state;type;expected\na;noul;yes\n", 1, "cut by semicolons, and must be by commas"),
        ("state\ttype\texpected\na\tnoul\tyes\n", 1, "cut by tabs, and must be by commas"),
        ("state,type,expected,type\n", 1, "the column type twice"),
        ("state,type,expected\na,noul\n", 2, "has 2 cells and the header 3"),
        ('state,type,expected\n"a"b,noul,yes\n', 2, "is not CSV"),
        ('state,type,expected\n"a,noul,yes\n', 2, "is not CSV"),
        ("state,type,expected,options\na,choice,yes,[1\n", 2, "options: is not JSON"),
        ("state,type,expected,options\na,choice,yes,[1]\n", 2, "a choice's names must be strings"),
        ("state,type,expected,options\na,choice,yes,a|a\n", 2, "question.criteria.a: occurs twice"),
        ("state,state_json,type,expected\na,{},noul,yes\n", 2, "state and state_json are both given"),
        ("state,type,expected,instructions\n,noul,yes,a\n", 2, "state: is missing"),
        (f"state,type,expected\n{'x' * 140_000},noul,yes\n", 2, "write such rows as JSONL"),
    ],
)
def test_a_wrong_spreadsheet_is_told_with_its_line(
    tmp_path: Path, text: str, line: int, problem: str
) -> None:
    ((where, said),) = faults(write(tmp_path / "q.csv", text))
    assert where == line
    assert problem in said
