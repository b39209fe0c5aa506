"""Tables of costs: what they say between their points, and what is no table."""

import itertools
import json
from pathlib import Path

import pytest
import tiny_models
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.engine.costs import Costs, sizes
from dicast_server.engine.measuring import measure
from dicast_server.engine.reader import Reader

TABLE = Costs("here", ((1, 10.0), (8, 17.0), (16, 17.0), (32, 49.0)))


@pytest.mark.parametrize(
    ("tokens", "milliseconds"),
    [(1, 10.0), (3, 12.0), (8, 17.0), (12, 17.0), (24, 33.0), (32, 49.0), (40, 65.0)],
)
def test_between_and_behind_its_points_a_table_is_straight(tokens: int, milliseconds: float) -> None:
    assert TABLE.of(tokens) == pytest.approx(milliseconds)


@given(st.integers(1, 500))
def test_more_tokens_never_cost_less(tokens: int) -> None:
    assert TABLE.of(tokens + 1) >= TABLE.of(tokens)


def test_a_file_holds_all_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_text(TABLE.to_json(), "utf-8")
    assert Costs.read(tmp_path / "costs.json") == TABLE


def test_the_hash_is_that_of_the_points_alone() -> None:
    assert TABLE.hash == Costs("elsewhere", TABLE.points).hash
    assert TABLE.hash != Costs("here", TABLE.points[1:]).hash


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_table_ships_for_every_device(device: str) -> None:
    table = Costs.shipped(device)
    assert table.points[0][0] == 1
    assert table.of(256) > table.of(1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"device": "x"}',
        json.dumps({"device": "x", "forward_ms": [[1, 2]]}),
        json.dumps({"device": "x", "forward_ms": [[1, 2], [1, 3]]}),
        json.dumps({"device": "x", "forward_ms": [[1, 2], [2, 1]]}),
        json.dumps({"device": "x", "forward_ms": [[0, 1], [2, 1]]}),
        '{"device": "x", "forward_ms": [[1, 2], [2, NaN]]}',
        json.dumps({"device": "x", "forward_ms": [[1, 2], [2, None]]}),
    ],
)
def test_what_is_no_table_is_said_with_its_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"odd\.json cannot be read as a table of costs"):
        Costs.read(tmp_path / "odd.json")


def test_a_file_that_is_not_there_is_said() -> None:
    with pytest.raises(ValueError, match="nowhere cannot be read"):
        Costs.read(Path("nowhere"))


@given(st.integers(2, 5000))
def test_sizes_reach_from_one_token_to_the_most(most: int) -> None:
    measured = sizes(most)
    assert (measured[0], measured[-1]) == (1, most)
    assert all(fewer < more <= max(2 * fewer, fewer + 1) for fewer, more in itertools.pairwise(measured))


@pytest.mark.parametrize("family", ["llama", "mamba2"])
def test_measuring_gives_a_table_of_all_sizes(family: str) -> None:
    reader = Reader(tiny_models.family(family), range(60, 68), 32)
    table = measure(reader, range(60, 68), "tiny", runs=1)
    assert [tokens for tokens, _ in table.points] == list(sizes(32))
    assert Reader(tiny_models.family(family), range(60, 68), 32, costs=table).costs.hash == table.hash
