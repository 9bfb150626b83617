"""Evidence from the whole log: what fills its room, how it prints, and how little it looks at."""

import random
import re
import subprocess
import sys

import pytest
from builders_planes import rows, sentence
from hypothesis import given, settings, strategies as st

import memplane
from memplane.search.service import index_service
from tests.examples import examples

DATE = re.compile(r"\d{4}-\d\d-\d\d")


def lines_of(block) -> list[str]:
    """The lines of the evidence, without heading and fences."""
    lines = block.text.split("\n")
    begin = next(at for at, line in enumerate(lines) if line.startswith("## Evidence"))
    end = lines.index("~~~~", begin + 2)
    return lines[begin + 2 : end]


def evidence(block):
    return [entry for entry in block.entries if entry.section == "retrieved_evidence"]


def say(plane, text, session="s1", day=1, **fields):
    fields = {"role": "user", "actor": "Ana", **fields}
    return plane.record(text, session=session, ts=f"2026-01-{day:02}T08:00:00Z", **fields)


def test_each_session_and_day_stands_once_and_its_turns_in_log_order_below(plane):
    say(plane, "the mast of the boat is spruce", "s1", 1)
    say(plane, "the boat leaks", "s2", 1)
    say(plane, "we painted the boat", "s1", 1)
    say(plane, "the boat sails", "s1", 2)
    block = plane.pack("boat", budget=2000, sections=["retrieved_evidence"])
    assert lines_of(block) == [
        "2026-01-01",
        "Ana: the mast of the boat is spruce",
        "Ana: we painted the boat",
        "2026-01-01",
        "Ana: the boat leaks",
        "2026-01-02",
        "Ana: the boat sails",
    ]
    assert block.tokens == sum(e.tokens for e in block.entries) + block.report["frame_tokens"]


def test_a_line_of_a_text_that_is_a_date_cannot_pass_for_a_group(plane):
    say(plane, "boat log\n1999-12-31\nsank")
    block = plane.pack("boat", budget=2000, sections=["retrieved_evidence"])
    assert [line for line in lines_of(block) if DATE.fullmatch(line)] == ["2026-01-01"]


def test_evidence_of_a_prompt_comes_from_the_whole_log(plane):
    first = say(plane, "The pressure valve of the greenhouse is made of brass", "old")
    plane.record_many(rows(5, 1500))
    plane.record(kind="session", session="new", data={"status": "start"})
    say(plane, "what is the greenhouse valve made of?", "new")
    block = plane.pack("", session="new", budget=4000)
    found = [entry for entry in evidence(block) if first.id in entry.events]
    assert [entry.place for entry in found] == ["middle"]
    assert "## Evidence for the prompt: quoted data" in block.text
    assert block.report["entries"][-1]["score_parts"] is not None
    parts = next(e for e in block.report["entries"] if first.id in e["events"])["score_parts"]
    assert parts["words"] > 0


def test_a_passage_is_a_part_of_its_event_and_its_handle_shows_the_rest(plane):
    story = " ".join(f"Sentence {n} speaks of nothing that matters here at all." for n in range(40))
    told = say(plane, f"{story} The key of the cellar hangs behind the mirror. {story}")
    block = plane.pack("where is the key of the cellar?", budget=300)
    (entry,) = evidence(block)
    assert (entry.events, entry.parts) == ((), (told.id,))
    assert entry.text.startswith("Ana: ")
    assert "The key of the cellar hangs behind the mirror." in entry.text
    handle = re.search(r"…(#\d+)\n$", entry.text)[1]
    assert "Sentence 39" in plane.expand(handle, 4000).text


def test_a_turn_that_came_in_as_a_passage_grows_where_there_is_room(plane):
    filler = " ".join(f"Word {n} of it." for n in range(60))
    told = say(plane, f"The mirror hides the cellar key. {filler}")
    small = plane.pack("cellar key", budget=250, sections=["retrieved_evidence"])
    large = plane.pack("cellar key", budget=2000, sections=["retrieved_evidence"])
    assert evidence(small)[0].parts == (told.id,)
    assert evidence(large)[0].events == (told.id,)


def test_what_matches_nothing_brings_no_noise(plane):
    # Marked turns have a part of the evidence whatever is asked: see test_marked_turns.
    plane.record_many({**row, "markers": []} for row in rows(3, 300))
    block = plane.pack("zyzzyva quokka", budget=4000)
    assert evidence(block) == []
    assert "## Evidence" not in block.text


def test_of_the_same_words_only_the_newest_stays(plane):
    older = say(plane, "The deploy key is in the vault", "s1", 1)
    newer = say(plane, "the deploy  key is in the vault", "s2", 2)
    block = plane.pack("deploy key", budget=2000, sections=["retrieved_evidence"])
    assert [entry.events for entry in evidence(block)] == [(newer.id,)]
    assert [o.reason for o in block.omissions if o.id == older.id] == ["duplicate"]


def test_a_standing_instruction_comes_in_though_longer_turns_match_better(plane):
    wanted = say(plane, "Always answer questions about the harbour in metric units.")
    say(plane, "Fine, metric it is.", role="assistant", actor=None)
    for n in range(60):
        say(plane, f"The harbour of town {n} has a harbour wall and a harbour light.", "s2", 2)
    block = plane.pack("how deep is the harbour?", budget=400, sections=["retrieved_evidence"])
    assert wanted.id in {id_ for entry in evidence(block) for id_ in entry.events}


def test_what_todays_policy_redacts_as_a_whole_is_not_shown_in_parts(plane):
    talk = " ".join(f"Then we spoke of matter {n}." for n in range(60))
    say(plane, f"The code word is BEGIN swordfish. {talk} That was the END of it.")
    privacy = plane.home / "policies" / "privacy.yaml"
    privacy.write_text("version: 1\nstore: {redact_patterns: ['BEGIN[\\s\\S]{1,9999}END']}\n")
    block = plane.pack("what is the code word?", budget=400)
    assert "swordfish" not in block.text


def test_no_more_is_scored_or_read_than_the_policy_allows(plane, monkeypatch):
    chance = random.Random(4)
    plane.record_many(
        {"text": f"harbour {sentence(chance, 12)}", "role": "user", "session": f"s{n // 50}"}
        for n in range(3000)
    )
    context = plane.context
    asked, reads = [], []
    finder = index_service(context)
    opens = finder.retriever

    def counting(*given, **named):
        made = opens(*given, **named)
        find, item = made.find, made.item
        made.find = lambda *args, **fields: asked.append(find(*args, **fields)) or asked[-1]
        made.item = lambda seq: reads.append(seq) or item(seq)
        return made

    monkeypatch.setattr(finder, "retriever", counting)
    plane.pack("harbour", budget=60_000)
    limits = plane.upkeep.policies.budgets.limits
    assert len(asked[0].found) <= limits.candidate_pool_max
    assert len(set(reads)) <= limits.candidate_pool_max


@pytest.mark.parametrize("most", [1, 4])
def test_no_more_chunks_are_taken_than_the_policy_allows(plane, most):
    for n in range(12):
        say(plane, f"The harbour of town {n} has a wall and a light.", None, 1)
        say(plane, f"The harbour of port {n} has a mole and a crane.", "s1", 1)
    budgets = plane.home / "policies" / "budgets.yaml"
    text = budgets.read_text()
    few = text.replace("retrieved_chunks_max: 200", f"retrieved_chunks_max: {most}")
    assert few != text
    budgets.write_text(few)
    found = evidence(plane.pack("harbour", budget=4000, sections=["retrieved_evidence"]))
    alone = [entry for entry in found if "town" in entry.text]
    together = [entry for entry in found if "port" in entry.text]
    # Short turns of a session and a day are one chunk; each note without a session is one.
    assert len(alone) + bool(together) == most
    assert len(together) in (0, 12)


def test_the_same_block_from_a_folder_and_from_memory(plane):
    plane.record_many(rows(9, 700))
    first = plane.pack("parser retry cache", budget=3000)
    plane.close()
    with memplane.open(plane.home, clock=lambda: "2026-01-05T12:00:00.000000Z") as again:
        assert again.pack("parser retry cache", budget=3000).text == first.text
        again.upkeep.rebuild()
        assert again.pack("parser retry cache", budget=3000).text == first.text


def test_a_fast_pack_leaves_the_index_alone(tmp_path):
    with memplane.init(tmp_path / "p") as plane:
        plane.record("the harbour is deep", role="user", session="s")
    code = (
        "import memplane, sys\n"
        "with memplane.open(sys.argv[1]) as p: b = p.pack('harbour', intent='fast')\n"
        "assert 'harbour is deep' in b.text, b.text\n"
        "print('numpy' in sys.modules, b.report['candidates']['index'])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "p")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == ["False", "0"]


WORDS = ("harbour", "mast", "valve", "key", "greenhouse", "the", "of", "storm", "2026-01-01", "##")


@settings(max_examples=examples(10))
@given(
    turns=st.lists(
        st.tuples(
            st.lists(st.sampled_from(WORDS), min_size=1, max_size=120), st.sampled_from("abc"),
            st.integers(1, 4), st.sampled_from([" ", ". ", "\n"]),
        ),
        min_size=1, max_size=25,
    ),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    budget=st.integers(60, 3000),
)  # fmt: skip
def test_no_block_passes_its_budget_and_whole_means_whole(tmp_path_factory, turns, query, budget):
    with memplane.init(tmp_path_factory.mktemp("p"), durability="os") as plane:
        texts = {}
        for words, session, day, joint in turns:
            text = joint.join(words)
            texts[say(plane, text, session, day).id] = text
        block = plane.pack(" ".join(query), budget=budget, sections=["retrieved_evidence"])
        assert block.tokens <= budget
        frame = block.report["frame_tokens"]
        assert block.tokens == sum(entry.tokens for entry in block.entries) + frame
        for entry in block.entries:
            for id_ in entry.events:
                assert entry.text.split() == ["Ana:", *texts[id_].split()]
        shown = [id_ for entry in block.entries for id_ in (*entry.events, *entry.parts)]
        assert len(shown) == len(set(shown))


@pytest.mark.parametrize("intent", ["deep", "auto"])
def test_a_question_without_a_session_leaves_little_to_what_is_merely_recent(plane, intent):
    say(plane, "The pressure valve of the greenhouse is made of brass", "old")
    plane.record_many(rows(5, 400))
    block = plane.pack("which valve has the greenhouse?", budget=4000, intent=intent)
    rooms = block.report["sections"]
    assert rooms["recent_window"]["room"] * 5 < rooms["retrieved_evidence"]["room"]
    assert any("made of brass" in entry.text for entry in evidence(block))
