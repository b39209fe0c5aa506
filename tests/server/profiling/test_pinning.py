"""Which profile a model is read with."""

from dataclasses import replace

import pytest

from dicast_server.profiling.comparison import pick
from dicast_server.profiling.pinning import Identity, profile_of, prompt_version
from dicast_server.profiling.probes import ProbeSet
from dicast_server.profiling.profile_file import ProfileFile, shipped
from dicast_server.profiling.ways import WAYS, default_way
from dicast_server.readouts import candidates, direct, letters
from dicast_server.readouts.profile import OPENJEV, STOCK, Profile, profile_for

READOUTS = {kind.name: kind for kind in (letters.KIND, direct.KIND, candidates.KIND)}
HERE = Identity("tiny", "a" * 64, "b" * 64)
OTHER = Identity("tiny", "d" * 64, "b" * 64)


def file(profile: Profile = STOCK, identity: Identity = HERE) -> ProfileFile:
    return ProfileFile.of(replace(profile, name="measured"), identity.pins(profile, READOUTS))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_every_way_can_be_pinned_and_used_again(way: object) -> None:
    (found,) = (each for each in WAYS if each is way)
    profile = replace(found.under(STOCK), name="measured")
    assert profile_of(HERE, file(profile), READOUTS, []) == profile


def test_a_profile_by_name_is_used_for_any_model() -> None:
    assert profile_of(HERE, OPENJEV, READOUTS, [file()]) is OPENJEV


def test_without_one_asked_for_the_shipped_one_of_the_model_is_used() -> None:
    assert profile_of(HERE, None, READOUTS, [file(identity=OTHER), file()]).name == "measured"


def test_without_a_shipped_one_the_id_decides() -> None:
    assert profile_of(HERE, None, READOUTS, [file(identity=OTHER)]) is STOCK
    assert profile_of(replace(HERE, model="openjev"), None, READOUTS, []) is OPENJEV


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(HERE, weights_hash="d" * 64), "made for other weights, tiny .*dicast profile"),
        (replace(HERE, template_hash="d" * 64), "made for another chat template or tokenizer"),
    ],
)
def test_a_profile_of_another_model_is_refused(other: Identity, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        profile_of(HERE, file(identity=other), READOUTS, [])


def test_a_profile_of_other_prompts_is_refused_also_where_it_is_shipped() -> None:
    pins = file().made_for.model_copy(update={"prompt_version": "letters-0"})
    old = file().model_copy(update={"made_for": pins})
    for asked, coming in ((old, []), (None, [old])):
        with pytest.raises(ValueError, match=r"version letters-0; this server writes letters-1-plain-json"):
            profile_of(HERE, asked, READOUTS, coming)


def test_a_readout_or_settings_that_this_server_does_not_know_are_refused() -> None:
    missing = file().model_copy(update={"readout": "x_own"})
    with pytest.raises(ValueError, match="'x_own', which is not installed here; there are letters, direct"):
        profile_of(HERE, missing, READOUTS, [])
    wrong = file().model_copy(update={"readout": "direct", "settings": {"hide_names": "yes"}})
    with pytest.raises(ValueError, match="settings of the profile measured are wrong: must be true or false"):
        profile_of(HERE, wrong, READOUTS, [])


def test_the_version_of_prompts_is_that_of_the_readout_with_its_settings() -> None:
    versions = {prompt_version(way.under(STOCK), READOUTS) for way in WAYS}
    assert {"letters-1-plain-json", "letters-1-bracket-json", "direct-options-v1"} < versions


def test_shipped_profiles_fit_the_prompts_and_were_measured_on_the_probes_of_this_version() -> None:
    for each in shipped():
        assert prompt_version(each.profile, READOUTS) == each.made_for.prompt_version
        assert each.comparison is not None
        assert each.comparison.probe_set_hash == ProbeSet.built_in().hash
        picked = pick(each.comparison.measured, default_way(profile_for(each.made_for.model)))
        assert replace(picked.way.under(STOCK), name=each.name) == each.profile
