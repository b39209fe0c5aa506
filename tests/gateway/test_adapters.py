"""Adapters through the gateway: names alone, on both routes and in the list of models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import labelled_rows
import pytest
import served_adapters
from gateway.served import Loop
from gateway.tiny import Tiny, tiny_served

from dicast import Predicate
from dicast_server.calibration import file
from dicast_server.cli import calibrate
from dicast_server.service.adapters import Adapters

ROUTES: dict[str, dict[str, Any]] = {
    "/v1/systemone": {
        "state": "The door is open.",
        "questions": {"open": {"type": "noul", "instructions": "Is it?"}},
    },
    "/v1/decisions": {
        "input": "The door is open.",
        "questions": [{"type": "predicate", "name": "open", "instructions": "Is it?"}],
    },
}


@pytest.fixture(scope="module")
def tiny(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiny]:
    folder: Path = tmp_path_factory.mktemp("adapters")
    served_adapters.write(folder / "support")
    (folder / "broken").mkdir()
    (folder / "broken" / "dicast.json").write_text("{}")
    with tiny_served(loop) as tiny:
        loop.run(Adapters(tiny.running.host, lambda _: folder).scan())
        yield tiny


@pytest.mark.parametrize("route", ROUTES)
def test_an_adapter_is_asked_by_its_name(tiny: Tiny, route: str) -> None:
    by_model = {}
    for model in ("tiny", "tiny:support", "jev-latest:support"):
        reply = tiny.http.post(route, json={**ROUTES[route], "model": model})
        assert reply.status_code == 200, reply.text
        by_model[model] = reply.json()["answers"]
        assert reply.json()["model"] == model.replace("jev-latest", "tiny")
    assert by_model["tiny"] != by_model["tiny:support"] == by_model["jev-latest:support"]
    asked = tiny.grpc.decide("The door is open.", {"open": Predicate("Is it?")}, model="tiny:support")
    (answer,) = by_model["tiny:support"].values() if route == "/v1/systemone" else by_model["tiny:support"]
    assert asked.predicate("open").probability in answer.values()


@pytest.mark.parametrize(("route", "status"), [("/v1/systemone", 400), ("/v1/decisions", 404)])
def test_one_that_is_not_there(tiny: Tiny, route: str, status: int) -> None:
    reply = tiny.http.post(route, json={**ROUTES[route], "model": "tiny:sales"})
    assert reply.status_code == status
    assert "tiny:support" in reply.text


@pytest.mark.parametrize("route", ROUTES)
def test_one_that_is_refused(tiny: Tiny, route: str) -> None:
    reply = tiny.http.post(route, json={**ROUTES[route], "model": "tiny:broken"})
    assert reply.status_code == 503
    assert "no adapter's" in reply.text


def test_those_that_answer_are_listed(tiny: Tiny) -> None:
    listed = tiny.http.get("/v1/models").json()
    names = ["tiny", "jev-latest", "jev-preview", "tiny:support"]
    assert [each["id"] for each in listed["data"]] == names
    assert [each["name"] for each in listed["models"]] == names


def test_a_state_is_prewarmed_for_an_adapter(tiny: Tiny) -> None:
    body = {"state": "A state. " * 40, "model": "tiny:support", "time_to_live_s": 60}
    first, again = (tiny.http.post("/v1/prewarm", json=body).json() for _ in range(2))
    assert first["model"] == "tiny:support"
    assert first["cached_tokens"] == 0
    assert again["cached_tokens"] == again["prompt_tokens"] == first["prompt_tokens"]


def test_the_client_says_what_an_adapter_is(tiny: Tiny) -> None:
    told = tiny.grpc.model("tiny:support").adapter
    assert told is not None
    assert (told.name, told.base, told.rank, told.readout) == ("support", "tiny", 4, "letters")
    assert tiny.grpc.model().adapter is None
    broken = tiny.grpc.model("tiny:broken")
    assert broken.status == "refused"
    assert broken.adapter is not None
    assert (broken.adapter.hash, broken.adapter.made_at) == ("", None)


def test_one_is_calibrated_where_it_runs(tiny: Tiny, tmp_path: Path) -> None:
    data = str(labelled_rows.write(tmp_path / "rows.jsonl", labelled_rows.rows()))
    keys = {}
    for name, more in (
        ("support", []),
        ("bracket", ["--readout", 'letters:{"style":"bracket"}']),
        ("base", []),
    ):
        model = "" if name == "base" else "/tiny:support"
        out = tmp_path / f"{name}.json"
        flags = ["--server", f"{tiny.running.address}{model}", "--out", str(out), *more]
        assert calibrate.main([data, *flags]) == 0
        keys[name] = file.read(out).key
    told = tiny.grpc.model("tiny:support").adapter
    assert told is not None
    assert [key.adapter for key in keys.values()] == [told.hash, told.hash, ""]
    assert {key.model for key in keys.values()} == {"tiny"}
    assert [key.profile for key in keys.values()] == ["adapter", "adapter", "stock"]
    assert keys["support"].constants == keys["bracket"].constants == (1.0, 1.0, 0.0)
    assert keys["support"].weights_hash == keys["bracket"].weights_hash == keys["base"].weights_hash
