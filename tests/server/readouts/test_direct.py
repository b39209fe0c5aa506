"""The direct readout: the published prompt to the byte, and ours with names and wide label sets."""

import json
import math

import pytest
import scripted
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.decisions.passes import Scores
from dicast_server.decisions.questions import Choice, Content, Level, Option, Predicate, Question, Score
from dicast_server.readouts.direct import LABEL_RULE, LABELS, LETTER_RULE, Direct, DirectSettings
from dicast_server.readouts.profile import STOCK
from dicast_server.readouts.readout import Model
from dicast_server.readouts.scores import softmax

PAYOUTS = "Ticket: payouts failing for 3 days."
TEAM = Choice(
    (
        Option("billing", "Payments, refunds"),
        Option("technical", None),
        Option("legal", scripted.content({"covers": ["disputes", "fraud"]})),
    )
)


def ask(type_: Predicate | Choice | Score, instructions: str | None = "Which team?") -> Question:
    return Question(0, "q", None, instructions, type_)


def direct(state: Content = PAYOUTS, hide_names: bool = False, model: Model | None = None) -> Direct:
    return Direct(state, model or scripted.model(STOCK), DirectSettings(hide_names))


def message_of(question: Question, readout: Direct) -> str:
    (prompt,) = next(readout.read(question, 1.0, 1))
    return prompt.message


def test_the_published_example() -> None:
    readout = direct(hide_names=True)
    assert message_of(ask(TEAM), readout) == (
        '{"evidence": "Ticket: payouts failing for 3 days.", "criterion": "Which team?", "options": '
        '[{"letter": "A", "description": "Payments, refunds"}, {"letter": "B", "description": "technical"}, '
        '{"letter": "C", "description": "{\\"covers\\": [\\"disputes\\", \\"fraud\\"]}"}]}'
    )
    assert readout.opening(ask(TEAM)).system == (
        "Apply the supplied criterion to the supplied evidence. Choose exactly one listed option. "
        "Respond with only its uppercase letter, with no explanation or reasoning."
    )
    assert readout.prompt_version == "direct-options-v1"


def test_the_published_form_of_a_structured_state() -> None:
    state = scripted.content({"ticket": "payouts failing", "days": 3, "tags": ["billing", "ünïcode"]})
    assert state is not None
    assert message_of(ask(TEAM), direct(state, True)).startswith(
        '{"evidence": "{\\"ticket\\": \\"payouts failing\\", \\"days\\": 3, '
        '\\"tags\\": [\\"billing\\", \\"ünïcode\\"]}", "criterion": '
    )


@pytest.mark.parametrize(
    ("predicate", "shown"),
    [
        (Predicate(), ["Yes", "No"]),
        (Predicate("it is", ""), ["it is", "No"]),
        (Predicate(scripted.content({"a": 1}), "not"), ['{"a": 1}', "not"]),
    ],
)
def test_the_published_form_of_a_predicate(predicate: Predicate, shown: list[str]) -> None:
    options = json.loads(message_of(ask(predicate), direct(hide_names=True)))["options"]
    assert options == [
        {"letter": "A", "description": shown[0]},
        {"letter": "B", "description": shown[1]},
    ]


def test_the_published_form_of_a_score_and_of_many_options() -> None:
    levels = Score((Level(None, "can wait"), Level("now", "needs a reply"), Level("soon")))
    options = json.loads(message_of(ask(levels), direct(hide_names=True)))["options"]
    assert [option["description"] for option in options] == ["can wait", "now: needs a reply", "soon"]
    wide = ask(Choice(tuple(Option(f"o{n}") for n in range(27))))
    (prompt,) = next(direct(hide_names=True).read(wide, 1.0, 1))
    assert prompt.system == LABEL_RULE
    assert json.loads(prompt.message)["options"][26] == {"label": "AA", "description": "o26"}


def test_names_are_shown_with_their_descriptions_by_default() -> None:
    whole = json.loads(message_of(ask(TEAM), direct()))
    assert list(whole) == ["evidence", "criterion", "options"]
    assert whole["options"] == [
        {"label": "A", "name": "billing", "description": "Payments, refunds"},
        {"label": "B", "name": "technical"},
        {"label": "C", "name": "legal", "description": '{"covers": ["disputes", "fraud"]}'},
    ]
    assert json.loads(message_of(ask(Predicate(), None), direct()))["options"] == [
        {"label": "A", "name": "yes", "description": "The statement is true."},
        {"label": "B", "name": "no", "description": "The statement is false."},
    ]


@given(st.integers(2, 255), st.booleans())
def test_questions_of_all_sizes_begin_alike(count: int, hide_names: bool) -> None:
    question = ask(Choice(tuple(Option(f"o{n}") for n in range(count))))
    readout = direct(hide_names=hide_names)
    opening = readout.opening(question)
    (prompt,) = next(readout.read(question, 1.0, 1))
    assert opening.system == prompt.system == (LETTER_RULE if hide_names and count <= 26 else LABEL_RULE)
    assert prompt.message.startswith(opening.alone)
    assert opening.continued.startswith(opening.alone)
    assert len(set(prompt.labels)) == count
    if not hide_names:
        assert opening == readout.opening(ask(Predicate()))


def test_labels_that_are_no_token_of_their_own_are_left_out() -> None:
    single = scripted.model(STOCK, lambda label: label not in {"B", "AB"})
    question = ask(Choice(tuple(Option(f"o{n}") for n in range(28))))
    (prompt,) = next(direct(model=single).read(question, 1.0, 1))
    assert prompt.labels[:3] == ("A", "C", "D")
    assert prompt.labels[-4:] == ("Z", "AA", "AC", "AD")


def test_more_options_than_labels_are_refused_with_their_number() -> None:
    few = scripted.model(STOCK, lambda label: label in LABELS[:20])
    question = ask(Choice(tuple(Option(f"o{n}") for n in range(21))))
    with pytest.raises(ValueError, match="21 options, and this model has 20 labels"):
        next(direct(model=few).read(question, 1.0, 1))


@given(st.lists(st.text(max_size=5), min_size=2, max_size=9, unique=True), st.text(), st.text())
def test_whatever_is_written_stays_one_json_object(names: list[str], state: str, instructions: str) -> None:
    choice = Choice(tuple(Option(name, name) for name in names))
    whole = json.loads(message_of(ask(choice, instructions), direct(state)))
    assert whole["evidence"] == state
    assert whole["criterion"] == instructions
    assert [option["name"] for option in whole["options"]] == names


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=100), st.integers(1, 4))
def test_all_options_are_read_at_once_in_every_order(scores: list[float], orders: int) -> None:
    question = ask(Choice(tuple(Option(f"o{n}") for n in range(len(scores)))))
    reads = direct().read(question, 1.0, orders)
    prompts = next(reads)
    assert len(prompts) == orders
    with pytest.raises(StopIteration) as end:
        reads.send(
            tuple(Scores(tuple(scores[option] for option in prompt.options), 1.0) for prompt in prompts)
        )
    probabilities = end.value.value.probabilities
    assert probabilities == pytest.approx(softmax(scores, 1.0), rel=1e-9)
    assert math.fsum(probabilities) == pytest.approx(1)
