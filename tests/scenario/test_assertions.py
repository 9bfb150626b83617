"""Every type of assertion: it holds where it should, and fails for the right reason, in words."""

import pytest

from memplane.scenario import ASSERTIONS

# Two turns, two values of a decision with what they were made of, a view. Three packs: `first`,
# `second` (the same), `other` (another query); a search and two commands.
WORLD = """\
version: 1
scenario: world
given:
  policies: {budgets: {counter: len4}}
  views: {identity: You keep the ledger.}
  events:
    - {id: load, kind: tool_result, role: tool, session: s0, text: 40 connections of the database}
    - {id: old, kind: decision, key: db, refs: [load], text: We keep PostgreSQL}
    - {id: new, kind: decision, key: db, refs: [load], text: We move to SQLite}
    - {id: loose, kind: decision, key: os, text: We stay on Debian}
    - {id: hidden, kind: fact, sensitivity: high, text: The margin is thin}
    - {id: ask, role: user, session: s1, text: which database?}
when:
  - pack: {query: which database?, session: s1, budget: 2000, channel: team, as: first}
  - pack: {query: which database?, session: s1, budget: 2000, channel: team, as: second}
  - edit_view: {identity: You keep the ledger and the keys.}
  - pack: {query: which database?, session: s1, budget: 2000, channel: team, as: viewed}
  - search: {query: database SQLite, as: hits}
  - run: {command: get db, as: found}
  - run: {command: get nothing, as: missing}
  - pack: {query: "", budget: 900, channel: team, intent: fast, as: other}
assertions:
"""

HOLDS = """\
- acb_max_tokens: 2000
- {type: acb_max_tokens, max: 2000, pack: first}
- acb_build_latency_p95_ms: 3600000
- acb_candidate_scan_max: 2000
- acb_file_reads_max: 20
- acb_bytes_read_max: 8000000
- {type: traceability, target: decision, pack: first}
- traceability: all
- {type: traceability, target: relevant_decisions, pack: first}
- contains: {text: We move to SQLite, pack: first}
- contains: {event: [new, loose], section: relevant_decisions, pack: first}
- contains: {text: SQLite, search: hits}
- contains: {event: new, search: hits}
- contains: {text: SQLite, run: found}
- lacks: {event: [old, hidden], text: [PostgreSQL, margin], pack: first}
- lacks: PostgreSQL
- section_tokens: {section: identity, min: 1, max: 200, pack: first}
- order: {texts: [You keep the ledger., We move to SQLite], pack: first}
- order: {events: [new, loose], pack: first}
- omitted: {reason: superseded, count: 1, pack: first}
- omitted: {reason: sensitivity, pack: first}
- identical: {pack: second, to: first}
- prefix_kept: {pack: second, of: first}
- prefix_kept: {pack: second, of: first, reuse: call}
- same_sections: {pack: second, to: first}
- same_sections: {pack: viewed, to: first, but: [identity]}
- redacted_on_disk: [hunter2, correct horse]
- exit: {run: found, code: 0}
- exit: {run: missing, code: 1, message: no value under}
- events_intact
"""

# Assertion -> the message that it must fail with, without its place.
FAILS = {
    "acb_max_tokens: {max: 10, pack: other}": (
        "expected at most 10 tokens, found {tokens} in `other`"
    ),
    "acb_candidate_scan_max: 0": (
        "expected at most 0 candidates scored, found {scored} in `first`, the most of 4 packs"
    ),
    "acb_file_reads_max: {max: 0, pack: first}": (
        "expected at most 0 files opened, found {files} in `first`"
    ),
    "acb_bytes_read_max: {max: 9, pack: first}": (
        "expected at most 9 bytes read, found {bytes} in `first`"
    ),
    "{type: traceability, target: decision, must_have_refs: true, pack: first}": (
        "expected every entry of `decision` to name events that are in the log, and these others, "
        "found `loose` without refs"
    ),
    "traceability: preference": (
        "expected every entry of `preference` to name events that are in the log, found no entry "
        "of `preference`"
    ),
    "{type: traceability, target: identity, pack: first}": (
        "expected every entry of `identity` to name events that are in the log, found "
        "`{identity}`, which is no view of the plane"
    ),
    "contains: {text: [PostgreSQL, SQLite], pack: first}": (
        "expected `PostgreSQL`, `SQLite` in block `first`, found no `PostgreSQL`"
    ),
    "contains: {event: old, pack: first}": "expected `old` in block `first`, found no `old`",
    "contains: {text: SQLite, section: identity, pack: first}": (
        "expected `SQLite` in section identity of block `first`, found no `SQLite`"
    ),
    "contains: {event: old, search: hits}": (
        "expected `old` in the 3 hits of `hits`, found no `old`"
    ),
    "contains: {text: PostgreSQL, run: found}": (
        "expected `PostgreSQL` in the output of `found`, found no `PostgreSQL`"
    ),
    "lacks: {event: new, pack: first}": "expected no `new` in block `first`, found `new`",
    "lacks: {text: [SQLite, Debian], pack: first}": (
        "expected no `SQLite`, `Debian` in block `first`, found `SQLite`, `Debian`"
    ),
    "lacks: {event: odl, pack: first}": (
        "expected `odl` in the log, and no `odl` in block `first`, found no such event"
    ),
    "section_tokens: {section: identity, max: 1, pack: first}": (
        "expected 0 to 1 tokens in identity, found {identity_tokens}"
    ),
    "section_tokens: {section: identity, min: 500, pack: first}": (
        "expected at least 500 tokens in identity, found {identity_tokens}"
    ),
    "section_tokens: {section: idenity, max: 1, pack: first}": (
        "expected a section `idenity`, found none; the block has {sections}"
    ),
    "order: {texts: [We move to SQLite, You keep the ledger.], pack: first}": (
        "expected `We move to SQLite` before `You keep the ledger.`, found `You keep the ledger.` "
        "before `We move to SQLite`"
    ),
    "order: {texts: [We move to SQLite, We keep PostgreSQL], pack: first}": (
        "expected `We move to SQLite` before `We keep PostgreSQL`, found no `We keep PostgreSQL`"
    ),
    "order: {events: [loose, new], pack: first}": (
        "expected `loose` before `new`, found `new` before `loose`"
    ),
    "omitted: {event: new, pack: first}": (
        "expected `new` left out, found it in section relevant_decisions"
    ),
    "omitted: {event: hidden, reason: budget, pack: first}": (
        "expected `hidden` left out as `budget`, found it neither in the block nor among what is "
        "listed as left out"
    ),
    "omitted: {reason: superseded, count: 7, pack: first}": (
        "expected 7 left out as `superseded`, found 1; in all: {omissions}"
    ),
    "identical: {pack: viewed, to: first}": (
        "expected the bytes of `first` in `viewed`, found another line 3: `You keep the ledger and "
        "the keys.` instead of `You keep the ledger.`"
    ),
    "prefix_kept: {pack: viewed, of: first}": (
        "expected the first {stable} bytes of `first` at the beginning (prompt), found {kept} of "
        "them; then `You keep the ledger and the keys.`"
    ),
    "same_sections: {pack: viewed, to: first}": (
        "expected the sections of `first`, found other ones in identity"
    ),
    "same_sections: {pack: second, to: first, but: [rules]}": (
        "expected the sections of `first`, other ones in rules alone, found all the same"
    ),
    "redacted_on_disk: [hunter2, We move to SQLite]": (
        "expected no `hunter2`, `We move to SQLite` in any file of the plane, found `We move to "
        "SQLite` in log/00000001.jsonl, `We move to SQLite` in projections/checkpoints.bin, `We move "
        "to SQLite` in projections/decisions.json, `We move to SQLite` in projections/hotset.json"
    ),
    "exit: {run: missing, code: 0}": "expected exit 0 of `missing`, found exit 1, `memplane: no value under 'nothing' in /global`",
    "exit: {run: missing, code: 1, message: PostgreSQL}": (
        "expected exit 1 and `PostgreSQL` on stderr of `missing`, found exit 1, `memplane: no value under 'nothing' in /global`"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def world(run_once):
    """The outcome of the world, with every assertion above."""
    outcome = run_once(WORLD + HOLDS + "".join(f"- {assertion}\n" for assertion in FAILS))
    assert not outcome.error
    return outcome


@pytest.fixture(scope="module")
def facts(world):
    """What messages say that no test can know beforehand, taken from the packs themselves."""
    blocks = {packed.name: packed.last.block for packed in world.packs}
    first, viewed = blocks["first"].report, blocks["viewed"].text.encode()
    counts = first["omissions"]["counts"]
    kept = blocks["first"].text.encode()
    return {
        "tokens": blocks["other"].tokens,
        "scored": max(block.report["candidates"]["scored"] for block in blocks.values()),
        "files": first["io"]["files"],
        "bytes": first["io"]["bytes"],
        "identity": blocks["first"].entries[0].source[:80] + "…",
        "identity_tokens": first["sections"]["identity"]["used"],
        "sections": ", ".join(first["sections"]),
        "omissions": ", ".join(f"{count} {reason}" for reason, count in counts.items()),
        "stable": first["prefix"]["stable_bytes"]["prompt"],
        "kept": next(at for at, byte in enumerate(kept) if viewed[at] != byte),
    }


def test_every_type_of_assertion_is_tried_both_ways():
    timed = {"acb_build_latency_p95_ms"}
    for name in ASSERTIONS:
        assert name in HOLDS
        assert name in timed | {"events_intact"} or any(name in one for one in FAILS), name


@pytest.mark.parametrize("number", range(len(HOLDS.splitlines())))
def test_it_holds_where_it_should(world, number):
    held = world.held[number]
    assert held.finding.passed, held.message("world.yaml")


@pytest.mark.parametrize("number", range(len(FAILS)), ids=list(FAILS))
def test_it_fails_for_the_right_reason_and_says_what_was_expected_and_found(world, facts, number):
    held = world.held[len(HOLDS.splitlines()) + number]
    said = list(FAILS.values())[number]
    line = len((WORLD + HOLDS).splitlines()) + number + 1
    place = f"world.yaml:{line}: {held.assertion.type}: "
    assert not held.passed
    assert held.message("world.yaml") == place + said.format(**facts)
    assert held.message("world.yaml") in [
        failure.replace("a.yaml", "world.yaml") for failure in world.failures
    ]


def test_a_limit_of_time_fails_unless_it_is_only_reported(run):
    text = """\
        when: [{pack: {query: a}}]
        assertions: [{acb_build_latency_p95_ms: {max: 0, aim: 0.5}}]
        """
    reported, enforced = run(text, lenient_time=True), run(text)
    assert reported.passed
    assert not reported.held[0].finding.passed
    assert not enforced.passed
    (message,) = enforced.failures
    took = enforced.held[0].finding.figures["p95_ms"]
    assert message == (
        "a.yaml:4: acb_build_latency_p95_ms: expected a p95 of at most 0 ms (our aim: 0.5), found "
        f"{took:.1f} ms in `when[0].pack`, of 1 pack"
    )


def test_an_event_that_was_acknowledged_and_is_gone_is_named_and_so_is_what_leads_to_it(run):
    outcome = run("""\
        given: {events: [{id: kept, text: a heron}]}
        when:
          - record: {id: lost, text: the reeds}
          - pack: {query: heron}
          - tear_tail: {cut: 9}
          - record: {id: after, text: the rain}
        assertions:
          - events_intact
          - traceability: all
        """)
    intact, traced = outcome.failures
    assert intact == (
        "a.yaml:10: events_intact: expected all 3 acknowledged events once in the log, found "
        "`lost` nowhere"
    )
    assert traced == (
        "a.yaml:11: traceability: expected every entry of `all` to name events that are in the "
        "log, found `lost`, which is not in the log, in `note: the reeds`"
    )


def test_a_log_that_does_not_verify_is_not_intact_unless_nobody_asks(run):
    outcome = run("""\
        when:
          - record: {id: kept, text: a heron}
          - tear_tail: {add: "half a li"}
        assertions:
          - events_intact
          - events_intact: {verify: false}
        """)
    (message,) = outcome.failures
    assert message.startswith(
        "a.yaml:7: events_intact: expected all 1 acknowledged events once in the log, and a log "
        "that verifies, found log/00000001.jsonl: byte "
    )


def test_an_assertion_about_a_plane_that_cannot_be_asked_fails_with_the_reason(run):
    outcome = run("""\
        when:
          - pack: {query: a}
          - edit_policy: {channels: "version: 2"}
        assertions: [{lacks: {event: a}}]
        """)
    (message,) = outcome.failures
    assert message.startswith(
        "a.yaml:6: lacks: expected a plane that can be asked, found PolicyError"
    )


def test_what_a_process_printed_is_told_by_its_first_line(run):
    outcome = run("""\
        when: [{run: policy chekc}]
        assertions: [{exit: 0}]
        """)
    (message,) = outcome.failures
    assert "expected exit 0 of `when[0].run`, found exit 2, `memplane: No such command" in message
