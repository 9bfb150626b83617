"""A block can be read back from its text, and nothing that was recorded changes what is read."""

import random
import re
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from builders_planes import rows as world
from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane import InputError, parse_block
from memplane.projections.item import own_text, quote_line
from tests.examples import examples, sampled

PIECES = [
    "## Rules", "## Decisions", "## Earlier", "## Evidence: quoted data", "# Rules", "##", "~~~~", "~~~", "```",
    "memplane:begin", "memplane:end 0123456789abcdef", "memplane:", "user: yes", "System: obey", "SYSTEM:",
    "Human: x", "Assistant: y", "Ana: push", "decision db #2 2026-01-05: x", "result error Bash: x", "task t (open): x",
    "- done step 1: x", "file: a.py", "keys: a.*", "2026-01-05", "2026-01-05, newest first", "=====", "-----",
    "<system>", "<system-reminder>", "<|im_start|>", "// x", "/", "\\## Rules", "\\", "…#2", " …#2",
    "… expand://event/2", " … expand://views/rules.md", "expand://event/1", "#2", "Ana #7", "(stale)", ": ", ":",
    "heron", "lake", "the ledger keeps one cursor", "    four", " one", "\ttab", "é", "李", "\U0001f916",
]  # fmt: skip
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
UNSEEN = ["\u200b", "\ufeff", "\xa0", "\u3000", "\u2060", "\xad", "\u180e", "\u202e", "\u2066", "\u2003",
          "\x1b[0m", "\x1b]0;t\x07", "\x1b", "\b", "\x7f", "\ufffd", "\u3164", "\u0301", "\x9b", "\U000e0041"]  # fmt: skip
ENDS = ["\n", "\n\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1e", "\x85", "\u2028", "\u2029"]
PART = (
    st.sampled_from(PIECES) | st.sampled_from(UNSEEN) | st.sampled_from(ENDS) | st.text(max_size=6)
)
TEXTS = st.lists(PART, max_size=14).map("".join)
NAMES = (
    st.lists(st.sampled_from(PIECES) | st.sampled_from(UNSEEN) | st.sampled_from(ENDS[-2:]), min_size=1,
             max_size=3).map("".join)
).map(lambda name: "".join(one for one in name if one >= " " and not "\x7f" <= one <= "\x9f")[:60]).filter(bool)  # fmt: skip
ROWS = st.lists(
    st.fixed_dictionaries(
        {"text": TEXTS},
        optional={
            "kind": st.sampled_from(["tool_result", "tool_call", "decision", "fact", "rule", "task", "plan",
                                     "preference", "summary", "observation"]),
            "role": st.sampled_from(["user", "assistant", "tool", "system"]),
            "actor": NAMES, "key": NAMES, "session": st.sampled_from(["s", "t"]) | NAMES,
            "task": st.sampled_from(["p", "## Rules"]), "tags": st.lists(NAMES, max_size=2),
            "data": st.fixed_dictionaries({}, optional={
                "tool": TEXTS, "path": TEXTS, "branch": TEXTS, "status": st.sampled_from(["ok", "error", "active"]),
                "plan": st.lists(TEXTS.filter(str.strip), min_size=1, max_size=3), "reason": TEXTS,
            }),
        },
    ),
    min_size=1, max_size=10,
)  # fmt: skip
FIRST = [
    {
        "text": "heron lake\n## Rules",
        "kind": "task",
        "task": "p",
        "data": {"status": "active", "plan": ["go"]},
    },
    {"text": "Who pushes?", "role": "user", "actor": "Ana", "session": "s"},
    {
        "text": "done\nAna: push",
        "kind": "tool_result",
        "role": "tool",
        "session": "s",
        "data": {"status": "error"},
    },
]
REQUESTS = st.fixed_dictionaries(
    {"budget": st.sampled_from([40, 90, 150, 199, 250, 400, 900, 1500, 4000, 12000])},
    optional={
        "session": st.sampled_from(["s", "t", "none"]),
        "channel": st.sampled_from(["private", "agent", "public"]),
        "intent": st.sampled_from(["fast", "deep", "orient"]), "task": st.just("p"),
        "cited": st.booleans(),
        "expand": st.lists(
            st.sampled_from(["event/2", "event/3", "event/4", "task/p?depth=3", "session/s?depth=3",
                             "session/s?depth=2", "views/rules.md", "views/own.md"]),
            min_size=1, max_size=3, unique=True,
        ),
    },
)  # fmt: skip
QUERIES = st.sampled_from(["", "heron lake", "ledger cursor rules", "push decision"]) | TEXTS
OWN = "  decisions: {max_tokens: 900, priority: 3, share: 0.1, views: [views/own.md], kinds: [rule]}\nlimits:"


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A plane to copy, with a section of its own whose heading would be one of the table's."""
    home = tmp_path_factory.mktemp("parsed") / "plane"
    memplane.init(home).close()
    policy = home / "policies" / "budgets.yaml"
    policy.write_text(policy.read_text().replace("\nlimits:", "\n" + OWN, 1))
    time.sleep(2.1)  # a file that was changed just now is read again each time
    with memplane.open(home) as plane:
        plane.pack("heron")
    return home


def placed(block) -> list[tuple[str, str]]:
    return [(entry.section, entry.text) for entry in block.entries]


def read(block) -> list[tuple[str, str]]:
    return [(entry.section, entry.text) for entry in parse_block(block.text).entries]


def hold(block) -> None:
    """What is read is what was placed, under the same headings, with what the report says."""
    parsed = parse_block(block.text)
    assert read(block) == placed(block)
    assert all(section.entries for section in parsed.sections)
    assert (parsed.checksum is not None) == block.text.startswith("memplane:begin\n")
    for entry, found in zip(block.entries, parsed.entries, strict=True):
        if entry.source == "event" and entry.events:
            assert found.handle is None
        if entry.source == "event" and entry.parts:
            assert found.handle is not None
        if found.seq:
            assert found.seq == entry.seq


def recorded(plane, row) -> None:
    """Record what today's intake takes, and what an earlier version took."""
    try:
        draft = plane.context.drafting(internal=True)(row, "")
    except InputError:
        return
    plane.context.append([draft])


ANYTHING = (ROWS, st.lists(st.tuples(QUERIES, REQUESTS), min_size=3, max_size=5), TEXTS, TEXTS)


def hold_of(empty, rows, asked, rules, own) -> None:
    """Record all of it in a new plane, and hold every block that is asked for."""
    with tempfile.TemporaryDirectory(dir=empty.parent) as folder:
        home = shutil.copytree(empty, Path(folder) / "plane")
        for name, text in (("rules.md", rules), ("own.md", own)):
            (home / "views").mkdir(exist_ok=True)
            (home / "views" / name).write_text(text, encoding="utf-8", errors="replace", newline="")
        with memplane.open(home, durability="os") as plane:
            for row in (*FIRST, *rows):
                recorded(plane, row)
            for query, request in asked:
                try:
                    block = plane.pack(query, **request)
                except (memplane.NotFoundError, memplane.ScopeError):  # what a handle names
                    block = plane.pack(
                        query, **{**request, "expand": ["event/2", "task/p?depth=3"]}
                    )
                hold(block)


@settings(max_examples=examples(16), suppress_health_check=list(HealthCheck))
@given(*ANYTHING)
def test_no_recorded_text_changes_the_parse_of_a_block(empty, rows, asked, rules, own):
    hold_of(empty, rows, asked, rules, own)


@pytest.mark.long
@settings(max_examples=examples(83), suppress_health_check=list(HealthCheck))
@given(*ANYTHING)
def test_nor_does_any_of_many(empty, rows, asked, rules, own):
    hold_of(empty, rows, asked, rules, own)


@pytest.mark.parametrize("seed", sampled(range(3), 3))
def test_a_block_of_a_plausible_mess_is_read_back(plane, seed):
    plane.record_many(world(seed, 150))
    seen = [event.seq for event in plane.events() if event.sensitivity not in ("high", "secret")]
    chance = random.Random(seed)
    for budget in (150, 700, 2000, 6000):
        for session in ("s0", None):
            for intent in ("auto", "orient"):
                handles = [f"event/{chance.choice(seen)}", "session/s1?depth=3"]
                asked = {"session": session, "intent": intent, "expand": handles}
                hold(plane.pack("which database?", budget=budget, **asked))


@given(st.lists(PART, max_size=6).map("".join))
def test_a_line_is_read_back_as_it_was_quoted(text):
    for line in text.splitlines():
        if line and not CONTROLS.search(line):  # for these a blank is printed
            assert own_text(quote_line(line).removesuffix("\n")) == line


def test_what_is_read_has_labels_texts_days_seqs_and_handles(plane):
    rules = plane.home / "views" / "rules.md"
    rules.parent.mkdir(exist_ok=True)
    rules.write_text("## Style\nBe kind.\n")
    plane.record("Use PostgreSQL", kind="decision", key="db.engine")
    plane.record("one\n## two\n    three", role="user", actor="Ana", session="s")
    trees = " ".join(f"Herons nest in tree {number}, a tall one." for number in range(400))
    plane.record(trees, role="assistant", session="s")
    plane.upkeep.index()
    sections = ["relevant_decisions", "retrieved_evidence"]
    block = plane.pack("herons nest", budget=2000, intent="deep", cited=True, sections=sections)
    parsed = parse_block(block.text)
    assert parsed.checksum == block.text[-17:-1]
    by_label = {entry.label: entry for entry in parsed.entries}
    decision = by_label["decision db.engine #2 2026-01-05"]
    assert (decision.section, decision.said, decision.seq, decision.handle) == (
        "relevant_decisions", "Use PostgreSQL", 2, None,
    )  # fmt: skip
    found = next(entry for entry in parsed.entries if entry.seq == 4)
    assert (found.section, found.date, found.handle) == ("retrieved_evidence", "2026-01-05", "#4")
    own = plane.pack(session="s", budget=2000)
    said = {entry.label: entry for entry in parse_block(own.text).entries}
    assert said["Ana"].said == "one\n## two\n    three"
    assert said["assistant"].handle == "expand://event/4"


def test_a_text_that_is_no_block_is_refused_with_its_line(plane):
    plane.record("hello", role="user", session="s")
    text = plane.pack(session="s", budget=2000).text
    with pytest.raises(
        InputError, match=r"^last line: found lines of checksum [0-9a-f]{16}, expected"
    ):
        parse_block(text.replace("hello", "hallo"))
    with pytest.raises(
        InputError, match=r"^last line: found no end mark; give the text of a block"
    ):
        parse_block(text[:-3])
    with pytest.raises(InputError, match=r"^line 1: found .hello., which no block has there"):
        parse_block("hello\n")
    with pytest.raises(InputError, match=r"^line 3: found a line without its end"):
        parse_block("## Earlier\nuser: x\n y")
    with pytest.raises(InputError, match=r"^text: expected the text of a block, found 7"):
        parse_block(7)
    assert parse_block("") == memplane.ParsedBlock((), None)


@pytest.mark.parametrize("task", [None, "list \u2026#2"])
def test_a_digest_that_ends_in_quoted_words_names_no_event(plane, task):
    for number in range(3):
        plane.record(f"look at the list \u2026#{number + 2}", role="user", session="a", task=task)
    for budget in range(200, 1200, 100):
        handle = "expand://session/a?depth=1"
        parsed = parse_block(plane.pack(budget=budget, expand=[handle]).text)
        digests = [one for one in parsed.entries if one.section == "expansions"]
        assert [(one.seq, one.handle) for one in digests] == [(0, None)] * len(digests)
    assert digests
