"""Files of profiles: what they hold comes back, and what is wrong with one is said."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.decisions.wording import Wording
from dicast_server.profiling.comparison import Comparison, Measured, NotTaken
from dicast_server.profiling.measures import Graded, Measures
from dicast_server.profiling.profile_file import Pins, ProfileFile
from dicast_server.profiling.ways import WAYS
from dicast_server.readouts.profile import OPENJEV, STOCK, OptionStyle, Profile

PINS = Pins(
    model="tiny", weights_hash="a" * 64, template_hash="b" * 64, prompt_version="letters-1-plain-json"
)
MEASURES = Measures.of([Graded((0.7, 0.3), 0), Graded((0.2, 0.8), 0)])
COMPARISON = Comparison(
    "c" * 64,
    [Measured(WAYS[0], MEASURES, {"predicate": MEASURES}, 0.75)],
    [NotTaken(WAYS[6], "has candidates that are not one token of their own")],
)

profiles = st.builds(
    Profile,
    name=st.text(min_size=1, max_size=64),
    style=st.sampled_from(OptionStyle),
    wording=st.sampled_from(Wording),
    temperature=st.none() | st.floats(0.05, 20),
    predicate_slope=st.floats(0.1, 10),
    predicate_clamp=st.floats(0, 0.4),
    readout=st.sampled_from(["letters", "direct", "candidates", "x_own"]),
    correct_prior=st.booleans(),
    settings=st.dictionaries(st.text(), st.booleans() | st.text()).map(lambda each: tuple(each.items())),
)


@given(profiles)
def test_a_profile_comes_back_from_its_file(profile: Profile) -> None:
    assert ProfileFile.from_json(ProfileFile.of(profile, PINS).to_json()).profile == profile


def test_published_profiles_come_back_but_for_the_models_that_they_match() -> None:
    for profile in (STOCK, OPENJEV):
        file = ProfileFile.of(profile, PINS)
        assert file.profile == replace(profile, model_pattern="")


def test_what_was_measured_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(ProfileFile.of(STOCK, PINS, COMPARISON).to_json(), "utf-8")
    read = ProfileFile.read(path)
    assert read == ProfileFile.of(STOCK, PINS, COMPARISON)
    body = json.loads(path.read_text("utf-8"))
    assert body["version"] == 1
    assert body["temperature"] is None
    assert body["made_for"]["prompt_version"] == "letters-1-plain-json"
    assert body["comparison"]["probe_set_hash"] == "c" * 64
    first = body["comparison"]["measured"][0]
    assert first["way"] == {
        "name": "letters, plain",
        "readout": "letters",
        "settings": {"style": "plain"},
        "orders": 1,
    }
    assert first["overall"]["accuracy"]["value"] == 0.5


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"weights_hash": "d" * 64},
            r"other weights, tiny \(aaaaaaaaaaaa\); these are tiny \(dddddddddddd\)",
        ),
        ({"template_hash": "d" * 64}, r"another chat template or tokenizer \(bbbbbbbbbbbb\)"),
        ({"prompt_version": "letters-2"}, "version letters-1-plain-json; this server writes letters-2"),
    ],
)
def test_a_profile_of_something_else_is_told_apart(changed: dict[str, str], words: str) -> None:
    found = PINS.model_copy(update=changed)
    said = ProfileFile.of(STOCK, PINS).mismatch(found)
    assert said is not None
    with pytest.raises(ValueError, match=words):
        raise ValueError(said)


def test_the_name_of_the_same_model_does_not_matter() -> None:
    assert ProfileFile.of(STOCK, PINS).mismatch(PINS.model_copy(update={"model": "renamed"})) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version: Input should be 1"),
        ({"style": "round"}, "style: Input should be 'plain' or 'bracket'"),
        ({"temperature": 0}, "temperature: Input should be greater than or equal to 0.05"),
        ({"correct_prior": "yes"}, "correct_prior: Input should be a valid boolean"),
        ({"settings": {"hide_names": 1}}, "settings.hide_names"),
        ({"made_for": {**PINS.model_dump(), "weights_hash": "abc"}}, "made_for.weights_hash: String should"),
        ({"temprature": 1}, "temprature: Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({**json.loads(ProfileFile.of(STOCK, PINS).to_json()), **change}), "utf-8")
    with pytest.raises(ValueError, match="cannot be read as a profile") as caught:
        ProfileFile.read(path)
    assert words in str(caught.value)


@pytest.mark.parametrize(("text", "words"), [("{", "Invalid JSON"), ("[]", "Input should be an object")])
def test_a_file_of_something_else_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=words):
        ProfileFile.read(path)
    with pytest.raises(ValueError, match="No such file or directory"):
        ProfileFile.read(tmp_path / "none.json")
