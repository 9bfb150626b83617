"""Two live statements of one namespace that contradict each other: which are found, and which not."""

import pytest
from hypothesis import given, settings, strategies as st

import memplane
from memplane.pack.layout import parse_block
from memplane.pack.report import chain_of, compared
from memplane.projections import ledger
from memplane.projections.ledger import COMPARED_MAX, Cards, differ, keys_of, statement_words
from memplane.upkeep.reports import story

DIFFER = [
    ("The upload limit is 20 MB", "The upload limit is 50 MB"),
    ("Sessions expire after 30 minutes", "Sessions expire after 60 minutes"),
    ("The API must answer within 200 ms", "The API must answer within 500 ms"),
    ("Deploy on Fridays", "Do not deploy on Fridays"),
    ("We squash commits before merging", "We never squash commits before merging"),
    ("Tests are run in parallel", "Tests are not run in parallel"),
    ("The default branch is main", "The default branch is develop"),
    ("The primary database is PostgreSQL", "The primary database is SQLite"),
    ("Our deadline is 12 March", "Our deadline is 19 March"),
    ("The owner of billing is Ana", "The owner of billing is Bruno"),
    ("Use tabs for indentation", "Use spaces for indentation"),
    ("Caching is enabled in production", "Caching is disabled in production"),
    ("The field is required", "The field is optional"),
    ("We use Redis for session storage", "We use Memcached for session storage"),
    ("The staging host is stage.example.org", "The staging host is test.example.org"),
    ("The service listens on port 8080", "The service listens on port 9090"),
    ("The cache holds 500 entries", "The cache holds 1000 entries"),
    (
        "Decision: the retention time is 30 days, because audits need it",
        "Decision: the retention time is 90 days",
    ),
    ("My favorite colour is blue", "My favorite colour is green"),
    ("The team has 5 members", "The team now has 7 members"),
    ("Ana lives in Lisbon", "Ana lives in Porto"),
    ("The build takes 12 minutes", "The build takes 4 minutes"),
    ("The main language is Go", "The main language is Rust"),
    ("Backups are kept for 7 days", "Backups are kept for 14 days"),
    ("We can't use GPL code", "We can use GPL code"),
    ("The timeout should be 10 seconds", "The timeout should be 30 seconds"),
    ("The API returns XML", "The API doesn't return XML"),
    ("The price is $20", "The price is $25"),
]
AGREE = [
    ("Step 2 is done", "Step 3 is done"),
    ("Release 1.2 is out", "Release 1.3 is out"),
    ("The API is fast", "The API is documented"),
    ("The API server runs on port 8080", "The admin server runs on port 9090"),
    ("We use Postgres", "We use Redis"),
    ("Ana likes tea", "Ana likes coffee"),
    ("The parser was 20 % slower", "The parser was 30 % slower"),
    ("The limit is 100 for guests", "The limit is 200 for members"),
    ("The limit is 100, for guests", "The limit is 200, for members"),
    ("Migrated to Python 3.11", "Migrated to Python 3.12"),
    ("Issue 12 is fixed", "Issue 14 is fixed"),
    ("Run 3 tests for the parser", "Run 4 tests for the lexer"),
    ("The reviewers are Ana, Bruno", "The reviewers are Ana, Carla"),
    ("Is the limit 20?", "Is the limit 30?"),
    ("If the cache is cold, the limit is 20", "If the cache is warm, the limit is 30"),
    ("Alice has 2 cats", "Bruno has 3 cats"),
    ("Prefer small commits", "Prefer short functions"),
    ("Use black for formatting", "Use ruff for linting"),
    ("The index is stored in RAM", "The index is stored in files"),
    ("The tests are in tests/unit", "The tests are in tests/golden"),
    ("Docs live in docs", "Docs live in docs and wiki"),
    ("Never log passwords", "Never log tokens"),
    ("The config is read from YAML", "The config is read from JSON"),
    ("We met on 3 March", "We met on 4 March"),
    ("Chapter 3 has 20 pages", "Chapter 4 has 20 pages"),
    ("Amendment 3 is agreed", "Amendment 4 is agreed"),
    ("Fix typo in module a", "Fix typo in module b"),
    ("The dog's name is Rex", "The cat's name is Tom"),
    ("The service supports OAuth", "The service supports SAML"),
    ("The upload limit is 20 MB", "The download limit is 50 MB"),
]
SAME = [  # one value, written otherwise or measured in another unit
    ("The upload limit is 20MB", "The upload limit is 20 MB"),
    ("The limit is 10%", "The limit is 10 %"),
    ("The price is $20", "The price is 20$"),
    ("The cache holds 1000 entries", "The cache holds 1_000 entries"),
    ("The upload limit is 1000", "The upload limit is 1,000"),
    ("The timeout is 5.0 seconds", "The timeout is 5 seconds"),
    ("The meeting time is 09:00", "The meeting time is 9:00"),
    ("Our deadline is 5 May", "Our deadline is May 5"),
    ("The owner is Ana Lopes", "The owner is Lopes Ana"),
    ("The version is 3.11", "The version is v3.11"),
    ("The limit is 5 MB", "The limit is 5000 KB"),
    ("The API must answer within 200ms", "The API must answer within 0.2s"),
]
OTHER = [  # and as like to those as another value can be
    ("The upload limit is 20MB", "The upload limit is 50 MB"),
    ("The limit is 10%", "The limit is 15 %"),
    ("The upload limit is 1,000", "The upload limit is 1,500"),
    ("The cache holds 100 entries", "The cache holds 1000 entries"),
    ("The API must answer within 200ms", "The API must answer within 500ms"),
    ("The meeting time is 10:30", "The meeting time is 11:30"),
    ("Our deadline is 5 May", "Our deadline is June 5"),
    ("The staging host is a.b.example", "The staging host is b.a.example"),
    ("The version is 3.1", "The version is 3.10"),
]


def found(older, newer):
    one, other = statement_words(older), statement_words(newer)
    if one is None or other is None or set(keys_of(one)).isdisjoint(keys_of(other)):
        return False
    return differ(one, other)


@pytest.mark.parametrize(("older", "newer"), DIFFER)
def test_a_number_a_not_or_the_one_value_of_a_thing_makes_two_statements_differ(older, newer):
    assert found(older, newer)
    assert found(newer, older)


@pytest.mark.parametrize(("older", "newer"), AGREE)
def test_what_may_both_be_so_is_never_said_to_differ(older, newer):
    assert not found(older, newer)
    assert not found(newer, older)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_value_written_in_two_ways_is_no_contradiction(one, other):
    assert not found(one, other)
    assert not found(other, one)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_another_value_written_in_another_way_is_still_one(one, other):
    assert found(one, other)
    assert found(other, one)


@given(st.text(max_size=200))
@settings(max_examples=200)
def test_no_statement_ever_differs_from_itself(text):
    words = statement_words(text)
    assert words is None or not differ(words, words)


@pytest.fixture
def plane(tmp_path):
    with memplane.init(tmp_path / "p", trusted=False) as plane:
        yield plane


def policy(plane, rule):
    file = plane.home / "policies" / "plane.yaml"
    file.write_text(f"version: 1\nstatements: {{contradictions: {rule}}}\n")


LIMITS = ("The upload limit is 20 MB", "The upload limit is 50 MB")


def limits(plane, **more):
    return [plane.record(text, kind="decision", **more).event for text in LIMITS]


def test_both_stand_in_the_block_and_the_newer_one_alone_names_the_older(plane):
    older, newer = limits(plane)
    before = plane.head()
    for text in (plane.pack("what is the upload limit?").text, plane.pack("").text):
        assert f"decision: {LIMITS[0]}" in text
        assert f"decision (differs from #{older.seq}): {LIMITS[1]}" in text
    assert plane.head() == before  # nothing is written
    block = plane.pack("what is the upload limit?")
    said = {entry.said for entry in parse_block(block.text).entries}
    assert set(LIMITS) <= said
    assert block.text == plane.pack("what is the upload limit?").text
    assert newer.seq > older.seq


def test_the_newer_one_stands_right_before_the_older(plane):
    older = plane.record(LIMITS[0], kind="decision").event
    plane.record("Herons are counted once a week", kind="decision")
    for size in (50, 80):
        plane.record(f"The upload limit is {size} MB", kind="decision")
    plane.record("Storks are counted twice", kind="decision")
    texts = [entry.text for entry in plane.pack("").entries]
    assert [text.partition(": ")[2][:24] for text in texts] == [
        "The upload limit is 80 M",
        "The upload limit is 50 M",
        "The upload limit is 20 M",
        "Herons are counted once ",
        "Storks are counted twice",
    ]
    assert older.seq == 2


def test_in_a_session_a_new_one_moves_nothing_that_its_blocks_have(plane):
    plane.work.sessions.start("s")
    plane.record(LIMITS[0], kind="decision", session="s")
    plane.record("go on", role="user", session="s")
    first = plane.pack("", session="s")
    plane.record(LIMITS[1], kind="decision", session="s")
    second = plane.pack("", session="s")
    part = first.text.encode()[: first.report["prefix"]["stable_bytes"]["call"]]
    assert second.text.encode().startswith(part)
    assert "differs" in second.text


@pytest.mark.parametrize(
    ("rule", "note"), [("off", ""), ("flag", " (differs from #2)"), ("ask", ": ask the user)")]
)
def test_the_policy_says_what_is_said_of_it(plane, rule, note):
    limits(plane)
    policy(plane, rule)
    text = plane.pack("what is the upload limit?").text
    assert note in text
    assert ("differs" in text) == (rule != "off")


def test_the_mark_goes_with_the_older_one_by_a_listed_cause(plane):
    older, _ = limits(plane)
    plane.work.sessions.start("s")
    plane.record("what is the limit?", role="user", session="s")
    blocks = [plane.pack("", session="s")]
    assert "differs" in blocks[0].text
    plane.forget(id=older.id)
    blocks.append(plane.pack("", session="s"))
    assert "differs" not in blocks[1].text
    reports = [
        {**one.report, "prefix": {**one.report["prefix"], "chain": chain_of(one)}} for one in blocks
    ]
    held = compared(reports[0], reports[1], "before", story(plane.context, *reports))
    assert held["break"]["cause"] == "forgotten"


def test_a_hidden_statement_is_never_named(plane):
    plane.record(LIMITS[0], kind="decision", sensitivity="high")
    plane.record(LIMITS[1], kind="decision")
    assert "differs" not in plane.pack("upload limit", channel="agent").text
    assert "differs" not in plane.pack("upload limit").text  # of another group of readers


def test_other_keys_namespaces_and_speakers_are_other_things(plane):
    for pair in (("key", "a", "b"), ("ns", "/global", "/task/t"), ("actor", "ann", "bo")):
        name, one, other = pair
        plane.record("The cat is 4 kg heavy", kind="decision", **{name: one})
        plane.record("The cat is 5 kg heavy", kind="decision", **{name: other})
        plane.forget(id=plane.event(plane.head().seq - 1).id)
        plane.forget(id=plane.event(plane.head().seq - 1).id)
    assert "differs" not in plane.pack("cat").text


def test_a_value_that_was_replaced_contradicts_nothing(plane):
    limits(plane, key="limit")
    assert "differs" not in plane.pack("limit").text


def test_an_answer_that_a_later_answer_turns_round_is_left_to_that(plane):
    limits(plane, tags=["answer"], role="user")
    assert "differs" not in plane.pack("limit").text


def test_a_new_statement_is_compared_with_so_many_and_no_more(plane, monkeypatch):
    compared_with = []
    real = ledger.contradicts
    monkeypatch.setattr(
        ledger, "contradicts", lambda *pair: compared_with.append(pair) or real(*pair)
    )
    rows = [
        {"kind": "fact", "text": f"The upload limit is {n} MB for guest {n}"} for n in range(95)
    ]
    plane.record_many(rows)
    plane.pack("")
    compared_with.clear()
    plane.record("The upload limit is 7 MB for guest seven", kind="fact")
    plane.pack("")
    assert 0 < len(compared_with) <= COMPARED_MAX


def test_the_pair_is_folded_once_and_kept_by_a_checkpoint(plane):
    limits(plane)
    projector = memplane.projections.ledger.Decisions()
    state = projector.initial()
    for line in plane.context.log.read():
        projector.apply(state, line)
    again = projector.load(projector.dump(state))
    assert [one.differs for one in again.active()] == [0, 2]
    assert projector.dump(again) == projector.dump(state)
    assert Cards().initial().active() == []
