"""What is generated is a file of labelled questions, the same for the same seed."""

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from dicast_server.calibration.dataset import read_dataset
from training import domains
from training.case import Case
from training.generate import cases, main, write

ROOT = Path(__file__).parents[2]


def test_every_row_is_a_labelled_question(made: list[Case], tmp_path: Path) -> None:
    path = tmp_path / "made.jsonl"
    rows = write(path, iter(made))
    questions = read_dataset(path).questions
    assert len(questions) == rows
    asked = [each for case in made for each in case.asked]
    for question, each in zip(questions, asked, strict=True):
        if each.kind == "noul":
            assert question.label == (0 if each.expected else 1)
        elif each.kind == "score":
            assert question.label == each.expected


def test_questions_about_one_state_are_a_group(made: list[Case]) -> None:
    for case in made:
        assert {row["group"] for row in case.rows()} == {case.id}
    assert len({case.id for case in made}) == len(made)


def test_a_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    for path, seed in ((one, "4"), (two, "4"), (three, "5")):
        main(["--seed", seed, "--cases", "200", "--out", str(path)])
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes() != three.read_bytes()


def test_no_order_of_a_set_reaches_the_file(tmp_path: Path) -> None:
    made = []
    for seed in ("1", "2"):
        path = tmp_path / seed
        command = [sys.executable, "-m", "training.generate", "--cases", "400", "--out", str(path)]
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed})
        made.append(path.read_bytes())
    assert made[0] == made[1]


def test_more_cases_begin_with_the_same_ones() -> None:
    chosen = domains.names()
    short = [list(case.rows()) for case in cases(2, 70, chosen)]
    long = [list(case.rows()) for case in cases(2, 140, chosen)]
    assert long[:70] == short


def test_a_domain_held_out_lends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "made.jsonl"
    held_out = "tool_routing,news"
    main(["--cases", "600", "--out", str(path), "--held-out", held_out])
    text = path.read_text("utf-8")
    for name in held_out.split(","):
        for topics in domains.load(name).topics:
            for topic in topics.topics:
                assert not any(line in text for line in topic.lines)
                assert topic.clause not in text


def test_an_unknown_domain_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--domains", "expenses,alchemy"])
    assert "not among the domains: alchemy" in capsys.readouterr().err


def test_without_a_file_the_domains_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--held-out", "news"])
    assert capsys.readouterr().out.split() == [name for name in domains.names() if name != "news"]


def test_most_states_are_short_and_some_are_long(made: list[Case]) -> None:
    words = sorted(case.words for case in made)
    assert 20 <= median(words) <= 45
    assert words[len(words) // 20] >= 7
    assert 70 <= words[len(words) * 19 // 20] <= 200
    assert 200 <= words[-1] <= 400


def test_few_states_occur_twice(made: list[Case]) -> None:
    states = {repr(case.state) for case in made}
    assert len(states) >= 0.985 * len(made)


def test_there_are_more_than_forty_domains(made: list[Case]) -> None:
    assert len(domains.names()) >= 55
    counts = [sum(case.domain == name for case in made) for name in domains.names()]
    assert max(counts) - min(counts) <= 1
