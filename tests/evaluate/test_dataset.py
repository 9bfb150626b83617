"""Reading a labelled set: what is taken, and how what is wrong with it is named."""

import gzip
import json

import pytest

from memplane.errors import InputError
from memplane.evaluate import read_dataset


def told(write, events, questions):
    """What reading says about these rows, without the folder."""
    paths = write("e.jsonl", events), write("q.jsonl", questions)
    with pytest.raises(InputError) as caught:
        read_dataset(*paths)
    return str(caught.value).replace(f"{paths[0].parent}/", "").splitlines()


def test_plain_and_gzip_files_give_the_same_set(write, rows):
    events, questions = rows
    plain = read_dataset(write("e.jsonl", events), write("q.jsonl", questions))
    zipped = read_dataset(write("e.jsonl.gz", events), write("q.jsonl.gz", questions))
    assert plain == zipped
    assert list(plain.conversations) == ["garden", "boat"]
    assert (plain.events, len(plain.questions), len(plain.asked)) == (8, 4, 3)
    assert plain.conversations["boat"].ids["b2"] == "jsonl:boat:b2"
    assert plain.sizes == {"garden": 2, "boat": 1}


def test_every_mistake_of_both_files_is_named_with_its_line_and_key(write, rows):
    events, questions = rows
    del events[1]["event_id"]
    events[2]["event_id"] = "g1"
    events.insert(3, "{broken")
    questions[0]["conversation_id"] = "gardn"
    questions[1]["question"] = " "
    questions[2] = {**questions[3], "asked_at": "yesterday"}
    del questions[3]["evidence_event_ids"]
    questions.append([1, 2])
    said = told(write, events, questions)
    assert said[:4] == [
        "e.jsonl:2: event_id: expected a name, found nothing",
        "e.jsonl:3: event_id: 'g1' is another event already, in line 1",
        "e.jsonl:4: expected one JSON object, found '{broken'",
        "q.jsonl:1: conversation_id: no event is of 'gardn'",
    ]
    assert said[4] == "q.jsonl:2: question: expected a text, found ' '"
    assert said[5].startswith("q.jsonl:3: asked_at: ")
    assert said[6:] == [
        "q.jsonl:4: question_id: 'q1' was asked already, in line 3",
        "q.jsonl:4: evidence_event_ids: expected a list of event ids, found 'nothing'",
        "q.jsonl:5: expected one JSON object, found '[1, 2]'",
    ]


def test_of_very_many_mistakes_twenty_are_listed_and_all_counted(write, rows):
    said = told(write, ["{"] * 50, rows[1][:1])
    assert len(said) == 21
    assert said[-1] == "and 31 more"


def test_a_file_that_was_cut_short_is_named_where_it_ends(write, rows, tmp_path):
    whole = "".join(json.dumps(row) + "\n" for row in rows[0] * 200).encode()
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(whole)[:-40])
    with pytest.raises(InputError, match=r"cut\.jsonl\.gz:\d+: damaged"):
        read_dataset(tmp_path / "cut.jsonl.gz", write("q.jsonl", rows[1]))


def test_a_file_that_is_not_there_and_a_folder_are_named_by_their_option(files, tmp_path):
    with pytest.raises(InputError, match=r"^events: .*no such file"):
        read_dataset(tmp_path / "none", files[1])
    with pytest.raises(InputError, match=r"^questions: .*it is a folder"):
        read_dataset(files[0], tmp_path)


def test_a_set_without_evidence_measures_nothing_and_says_so(write, rows):
    assert "there is nothing to measure" in told(write, rows[0], rows[1][2:3])[0]


def test_the_same_line_twice_is_one_event_and_evidence_named_twice_is_one(write, rows):
    events, questions = rows
    questions[0]["evidence_event_ids"] = ["g4", "g4"]
    found = read_dataset(write("e.jsonl", [*events, events[0]]), write("q.jsonl", questions))
    assert found.events == 8
    assert found.questions[0].evidence == ("g4",)


def test_evidence_of_no_event_is_listed_and_so_is_evidence_that_no_importer_takes(asking):
    found = asking(
        [("garden", "q1", "Who?", "", ["g4", "g9", "g5"]), ("boat", "q2", "What?", 7, [])],
        {"garden": [("g4", "s", "user", "Ann", "Frost."), ("g5", "s", "user", "Ann", " ")],
         "boat": [(1, "s", "user", "Cy", "A mast.")]},
    )  # fmt: skip
    assert found.unresolved == [("garden", "q1", "g9"), ("garden", "q1", "g5")]
    assert [question.category for question in found.questions] == ["none", "7"]
    assert found.conversations["boat"].ids == {"1": "jsonl:boat:1"}


def test_a_limit_takes_questions_with_evidence_from_all_over_the_file(asking):
    found = asking(
        [("garden", f"q{at}", "Frost?", "", ["g4"] if at % 2 else []) for at in range(20)]
    ).limited(3)
    assert [question.id for question in found.questions] == ["q1", "q7", "q13"]
    assert found.limited(5) is found
