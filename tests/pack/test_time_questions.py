"""A question for a time and nothing else is answered with what was done then."""

import pytest
from hypothesis import given, settings, strategies as st

import memplane
from memplane.explain.replay import replay_pack
from memplane.upkeep import reports
from tests.examples import examples

NOW = "2026-03-05T09:00:00.000000Z"  # a Thursday
DAYS = {
    "mon": ("2026-03-02", "We decided to keep the heron parser.", "The heron parser is kept now."),
    "tue": ("2026-03-03", "Please speed up the crane index.", "The crane index is twice as fast."),
    "wed": ("2026-03-04", "Mend the failing stork test.", "The stork test passes again now."),
}
BIRDS = {"mon": "heron", "tue": "crane", "wed": "stork"}


@pytest.fixture
def week(plane):
    for name, (day, asked, told) in DAYS.items():
        for minute, (role, text) in enumerate((("user", asked), ("assistant", told))):
            time = f"{day}T10:{minute:02}:00Z"
            plane.record(text, role=role, session=name, ts=time)
    return plane


def told(block):
    return {name for name, bird in BIRDS.items() if bird in block.text}


def ask(plane, query, **asked):
    return plane.pack(query, **{"budget": 1500, "now": NOW, **asked})


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("What did we do yesterday?", {"wed"}),
        ("What did we do on Tuesday?", {"tue"}),
        ("What did we do on 2 March?", {"mon"}),
        ("what happened since Tuesday", {"tue", "wed"}),
        ("recap of this week", {"mon", "tue", "wed"}),
        ("What did we do in the last session?", {"wed"}),
        ("and the session before?", {"tue"}),
        ("Was haben wir vorgestern gemacht?", {"tue"}),
        ("What did we do last week?", set()),
    ],
)
def test_it_shows_the_sessions_of_that_time_and_no_other(week, query, days):
    block = ask(week, query)
    assert told(block) == days
    assert block.report["intent"] == "orient"
    assert block.report["intent_rule"].startswith("time: ")


def test_the_users_words_and_the_answers_stand_there(week):
    text = ask(week, "What did we do yesterday?").text
    assert "Mend the failing stork test." in text
    assert "The stork test passes again now." in text


def test_a_question_for_something_at_a_time_searches_for_it(week):
    block = ask(week, "What did we decide about the heron parser yesterday?")
    assert block.report["intent"] == "deep"
    assert "heron" in block.text


def test_a_time_that_the_request_names_is_not_read_from_its_words(week):
    block = ask(week, "What did we do yesterday?", since="2026-03-03T00:00:00Z")
    assert not block.report["intent_rule"].startswith("time: ")
    assert ask(week, "yesterday", intent="deep").report["intent_rule"] == "asked"


def test_a_request_that_names_handles_or_sections_gets_these(week):
    block = ask(week, "What did we do yesterday?", expand=["session/mon"])
    assert "heron" in block.text.partition("## Expansions")[2]
    only = ask(week, "What did we do yesterday?", sections=["relevant_decisions"])
    assert set(only.report["sections"]) == {"relevant_decisions"}
    for one in (block, only):
        assert not one.report["intent_rule"].startswith("time: ")


def test_a_section_of_the_policys_own_stays(week):
    path = week.home / "policies" / "budgets.yaml"
    own = "  birds: {max_tokens: 500, priority: 5, share: 0.1, kinds: [fact]}\n"
    text = path.read_text()
    path.write_text(text.replace("sections:\n", f"sections:\n{own}", 1))
    week.record("An osprey was seen.", kind="fact", ts="2026-03-04T12:00:00Z")
    week.record("A kite was seen.", kind="fact", ts="2026-03-02T12:00:00Z")
    text = ask(week, "What did we do yesterday?").text
    assert "osprey" in text
    assert "kite" not in text


def test_the_asking_session_and_sessions_in_which_nothing_was_said_are_not_counted(week):
    week.record(
        kind="session", session="empty", data={"status": "start"}, ts="2026-03-04T12:00:00Z"
    )
    week.record("Hello there.", role="user", session="now", ts="2026-03-05T08:00:00Z")
    block = ask(week, "What did we do in the last session?", session="now")
    part = block.text.partition("## Last sessions")[2]
    assert "stork" in part
    assert "crane" not in part


def test_in_a_session_the_question_moves_nothing_before_it(week):
    week.record("Let us begin.", role="user", session="now", ts="2026-03-05T08:00:00Z")
    before = ask(week, "", session="now", budget=2000)
    week.record("What did we do yesterday?", role="user", session="now", ts="2026-03-05T08:01:00Z")
    after = ask(week, "", session="now", budget=2000)
    end = before.report["prefix"]["stable_bytes"]["prompt"]
    assert after.text.encode().startswith(before.text.encode()[:end])
    assert "stork" in after.text


def test_what_a_reader_may_not_see_is_no_session_of_that_time(week):
    before = ask(week, "What did we do yesterday?", channel="public")
    week.record(
        "Hidden words.",
        role="user",
        session="secret",
        sensitivity="high",
        ts="2026-03-04T11:00:00Z",
    )
    week.record(
        "More hidden.", role="user", session="mon", sensitivity="high", ts="2026-03-04T11:00:00Z"
    )
    after = ask(week, "What did we do yesterday?", channel="public")
    assert after.text == before.text
    back = ask(week, "What did we do in the last session?", channel="public")
    assert told(back) == {"wed"}


def test_what_was_forgotten_is_not_told(week):
    week.forget(session="wed")
    assert told(ask(week, "What did we do yesterday?")) == set()


def test_it_is_a_function_of_the_log_and_the_request(week):
    report = ask(week, "What did we do yesterday?", save_report=True)
    again = ask(week, "What did we do yesterday?")
    assert again.text == report.text
    with memplane.open(week.home) as other:
        assert ask(other, "What did we do yesterday?").text == report.text
    week.record("Said later.", role="user", session="wed", ts="2026-03-04T23:00:00Z")
    replayed = replay_pack(week, reports.find_report(week.home, "last"))
    assert (replayed.same, replayed.block.text) == (True, report.text)


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(60, 3000), st.sampled_from(["yesterday", "this week", "last time"]))
def test_no_block_passes_its_budget(tmp_path_factory, budget, query):
    home = tmp_path_factory.mktemp("plane") / "home"
    with memplane.init(home, durability="os") as plane:
        for name, (day, asked, answer) in DAYS.items():
            for n in range(5):
                plane.record(f"{asked} Part {n}.", role="user", session=name, ts=f"{day}T10:00:00Z")
                plane.record(
                    answer * (n + 1), role="assistant", session=name, ts=f"{day}T11:00:00Z"
                )
        assert ask(plane, query, budget=budget).tokens <= budget


def test_at_most_a_thousand_lines_of_a_session_are_read(week, monkeypatch):
    rows = [
        {"text": f"Line {n} of a very long talk.", "role": "user", "session": "long",
         "ts": "2026-03-04T15:00:00Z"}
        for n in range(3000)
    ]  # fmt: skip
    week.record_many(rows)
    ask(week, "What did we do yesterday?")  # folds what was recorded
    read = []
    log = week.context.log
    whole = log.read
    monkeypatch.setattr(
        type(log), "read", lambda _, *span: read.append(span) or whole(*span), raising=True
    )
    block = ask(week, "What did we do yesterday?")
    assert 0 < sum(last - first for first, last in read) <= 1000 + 8
    assert "Line 2999 of" in block.text
