"""What the questions at a model's start tell of it: its option mass, and whether it tells open from shut."""

from types import SimpleNamespace
from typing import Any

import pytest
from tiny_server import serving

from dicast_server.decisions.answers import ChoiceAnswer, PredicateAnswer
from dicast_server.service import starting
from dicast_server.service.host import Status
from dicast_server.service.selfcheck import SelfCheck, judge, refusal, requests


def scripted(open_door: float, shut_door: float, colour: str) -> list[list[Any]]:
    """The answers of a model that answers so, with less option mass where the door is shut."""

    def answers(state: str) -> list[Any]:
        is_open = "open" in state
        diagnostics = SimpleNamespace(option_mass=0.9 if is_open else 0.6)
        kinds = (
            PredicateAnswer(open_door if is_open else shut_door),
            ChoiceAnswer(next((each for each in colour.split() if each in state), "none"), 1.0, (1.0,)),
        )
        return [SimpleNamespace(kind=kind, diagnostics=diagnostics) for kind in kinds]

    return [answers(str(request.state)) for request in requests()]


@pytest.mark.parametrize(
    ("open_door", "shut_door", "colours", "right", "direction", "guesses"),
    [
        (0.9, 0.1, "blue red green", 6, True, False),
        # Always no, and still it moves the right way; no temperature would mend the answers.
        (0.2, 0.1, "blue red green", 5, True, False),
        (0.2, 0.1, "blue", 3, True, True),
        # The wrong way, or no way at all.
        (0.1, 0.2, "blue red green", 5, False, True),
        (0.1, 0.1, "blue red green", 5, False, True),
        (float("nan"), 0.1, "blue red green", 5, False, True),
    ],
)
def test_contrast_pairs(
    open_door: float, shut_door: float, colours: str, right: int, direction: bool, guesses: bool
) -> None:
    outcome = judge(scripted(open_door, shut_door, colours))
    # One door of three is open.
    assert outcome.option_mass == pytest.approx((0.9 + 2 * 0.6) / 3)
    assert (outcome.right, outcome.asked, outcome.predicate_direction) == (right, 6, direction)
    assert outcome.near_chance == guesses


async def test_a_model_that_guesses_is_served_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wrong_way(engine: Any, planner: Any) -> SelfCheck:
        return SelfCheck(0.9, 5, 6, False)

    monkeypatch.setattr(starting, "check", wrong_way)
    async with serving() as running:
        assert running.host.status is Status.READY
        assert "its answers look like guesses: 5 of 6" in running.host.status_message


def test_a_refusal_names_all_that_was_tried() -> None:
    tried = [
        ("the template's own opening", SelfCheck(0.01, 0, 6, True)),
        ("a space", SelfCheck(0.02, 0, 6, True)),
    ]
    assert refusal(tried[:1], 0.05) == (
        "the model puts only 0.01 of its probability on the letters of the options (least allowed: 0.05); "
        "use an instruction-tuned model, another profile, or serve it all the same with --min-option-mass 0"
    )
    assert "letters of the options, 0.02 behind a space (least" in refusal(tried, 0.05)
