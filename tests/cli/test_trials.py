"""`memplane eval`: what it prints, what it writes, and what it refuses."""

import json

import pytest

import memplane

EVENTS = [
    {"conversation_id": "garden", "event_id": "g1", "session_id": "s", "role": "user",
     "speaker": "Ann", "ts": "2026-01-05T12:00:00Z", "text": "Frost took the beans on Tuesday."},
    {"conversation_id": "garden", "event_id": "g2", "session_id": "s", "role": "assistant",
     "speaker": "Bo", "ts": "2026-01-05T12:01:00Z", "text": "Cover the seedlings with fleece."},
    {"conversation_id": "boat", "event_id": "b1", "session_id": "s", "role": "user",
     "speaker": "Cy", "ts": "2026-01-05T12:00:00Z", "text": "The mast is spruce."},
]  # fmt: skip
QUESTIONS = [
    {"conversation_id": "garden", "question_id": "q1", "question": "What did the frost take?",
     "category": "fact", "evidence_event_ids": ["g1", "g9"]},
    {"conversation_id": "boat", "question_id": "q1", "question": "What is the mast made of?",
     "category": "stuff", "evidence_event_ids": ["b1"]},
]  # fmt: skip


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def set_(tmp_path):
    """The options that name the two files."""
    return (
        "--events", jsonl(tmp_path / "events.jsonl", EVENTS),
        "--questions", jsonl(tmp_path / "questions.jsonl", QUESTIONS),
    )  # fmt: skip


@pytest.fixture
def policies(tmp_path):
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "budgets.yaml").write_text("version: 1\ncounter: len4\n")
    return folder


def test_a_table_on_stdout_and_what_is_odd_about_the_set_on_stderr(run, set_, policies):
    done = run("eval", *set_, "--policies", policies, "--budgets", "1000,300", "--by", "category")
    assert done.code == 0
    assert done.err == "memplane: 1 evidence id of no event, the first: ['garden', 'q1', 'g9']\n"
    lines = done.out.splitlines()
    assert lines[0] == (
        "2 conversations (a plane for each), 3 events, 2 questions, 2 with evidence"
    )
    assert [line for line in lines if line.startswith(("all", "category"))][:3] == [
        "all questions", "category fact", "category stuff",
    ]  # fmt: skip
    rows = [line.split() for line in lines if line.startswith("memplane")]
    assert [row[1:4] for row in rows[:2]] == [["300", "2", "75.0"], ["1000", "2", "75.0"]]
    assert max(map(len, lines)) <= 100


def test_json_is_one_value_with_the_figures_and_the_report_has_each_question(
    run, set_, policies, tmp_path
):
    report = tmp_path / "report.json"
    done = run(
        "eval", *set_, "--policies", policies, "--budgets", "300", "--baselines",
        "recency, rank_bm25", "--folds", "2", "--together", "--json", "--report", report,
    )  # fmt: skip
    assert (done.code, done.out.count("\n")) == (0, 1)
    answer = json.loads(done.out)
    assert [row["system"] for row in answer["groups"][0]["rows"]] == [
        "memplane", "recency", "rank_bm25",
    ]  # fmt: skip
    assert (answer["counter"], answer["asked"]["together"]) == ("len4", True)
    assert "questions" not in answer
    kept = json.loads(report.read_text())
    assert {**kept, "questions": 0, "searched": 0} == {**answer, "questions": 0, "searched": 0}
    assert kept["questions"][0]["missing"] == ["g9"]


def test_the_policies_of_the_plane_here_are_in_force_and_it_is_left_as_it_was(
    run, set_, home, stored
):
    before = stored(home)
    done = run("eval", *set_, "--budgets", "300", "--home", home, "--json")
    assert done.err.startswith(f"memplane: under the policies of {home}\n")
    answer = json.loads(done.out)
    with memplane.open(home) as plane:
        assert answer["policies"] == dict(sorted(plane.upkeep.policies.hashes.items()))
    assert answer["counter"] == "len4"
    assert stored(home) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--budgets", "many"], "--budgets: expected numbers of tokens above 0"),
        (["--budgets", "0,100"], "--budgets: expected numbers of tokens above 0"),
        (["--by", "weather"], "--by: expected category, found 'weather'"),
        (["--baselines", "bm26"], "expected some of recency, rank_bm25, lexical; found 'bm26'"),
        (["--folds", "3"], "found 3 folds of 2 conversations"),
        (["--channel", "no such"], "no such"),
        (["--report", "/nowhere/at/all.json"], "--report: /nowhere/at: no such folder"),
        (["--policies", "/nowhere"], "--policies: /nowhere: no such folder"),
        (["--questions", "/nowhere"], "questions: /nowhere: expected a file"),
        (["--limit", "0"], "0 is not in the range"),
    ],
)
def test_wrong_use_is_named_and_exits_with_two(run, set_, policies, options, said):
    done = run("eval", *set_, "--policies", policies, *options)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_without_a_set_it_says_what_it_needs(run, home):
    done = run("eval", "--home", home)
    assert (done.code, "expected --events and --questions" in done.err) == (2, True)


def test_mistakes_of_the_set_come_with_file_and_line(run, set_, policies):
    jsonl(set_[3], [{**QUESTIONS[0], "conversation_id": "gardn"}])
    done = run("eval", *set_, "--policies", policies)
    assert (done.code, f"{set_[3]}:1: conversation_id: no event is of 'gardn'" in done.err) == (
        2, True,
    )  # fmt: skip


def test_broken_policies_and_a_home_that_is_none_exit_with_three(run, set_, policies, tmp_path):
    (policies / "budgets.yaml").write_text("version: nine\n")
    done = run("eval", *set_, "--policies", policies)
    assert (done.code, "budgets.yaml:1" in done.err) == (3, True)
    assert run("eval", *set_, "--home", tmp_path / "none").code == 3


def test_weights_are_chosen_without_the_conversations_that_judge_them(
    run, set_, policies, tmp_path
):
    worse = tmp_path / "worse.yaml"
    worse.write_text("version: 1\nevidence_floor: 1.0\nretrieval: {bigrams: 0, prefixes: 0}\n")
    done = run(
        "eval", *set_, "--policies", policies, "--budgets", "300", "--candidate", worse,
        "--folds", "2", "--json",
    )  # fmt: skip
    answer = json.loads(done.out)
    assert list(answer["fitted"]) == ["the weights in force", str(worse)]
    assert [one["fold"] for one in answer["folds"]] == [0, 1]
    assert answer["honest"] == pytest.approx(0.75)
    words = run(
        "eval", *set_, "--policies", policies, "--budgets", "300", "--candidate", worse,
        "--folds", "2",
    ).out  # fmt: skip
    assert words.splitlines()[-1] == " 75.0  each fold under weights chosen without it"


def test_a_broken_candidate_is_named_before_anything_is_measured(run, set_, policies, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("version: 1\nevidence_flor: 1.0\n")
    done = run("eval", *set_, "--policies", policies, "--candidate", broken, "--folds", "2")
    assert done.code == 3
    assert "evidence_flor" in done.err
