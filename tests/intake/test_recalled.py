"""Quoted blocks: which are moved out of a text, to where, and what counts as a repeat of it."""

import hashlib
import json

import pytest
from hypothesis import given, strategies as st

import memplane
from memplane.errors import InputError
from memplane.event import decode
from memplane.intake import (
    RECALLED_MAX,
    Intake,
    Redactor,
    checksums,
    is_own_command,
    same,
    without_blocks,
)

INTAKE = Intake(Redactor())


def quoted(body="## Rules\nwhat the tool really printed\n"):
    digest = hashlib.sha256(body.encode()).hexdigest()[:16]
    return f"memplane:begin\n{body}memplane:end {digest}\n"


def drafted(text, **fields):
    return INTAKE.prepare({"text": text, **fields}, id="made")


def event_of(draft, **changes):
    line = {"seq": 1, "id": draft.id, "ts": "", **json.loads(b"{" + draft.rest + b"}")}
    return decode({**line, **changes})


def test_a_quoted_block_is_moved_out_and_named_by_its_file(tmp_path):
    with memplane.init(tmp_path / "p", durability="os") as plane:
        plane.record("we keep herons", kind="decision", key="birds")
        block = plane.pack("herons", budget=2000).text
        receipt = plane.record(f"You told me:\n{block}And so I did.", role="assistant")
        event = plane.event(receipt.id)
        assert event.text == "You told me:\nAnd so I did."
        named = {
            "sha256": hashlib.sha256(block.encode()).hexdigest(),
            "bytes": len(block.encode()),
            "lines": block.count("\n"),
        }
        assert event.data["recalled"] == [named]
        assert plane.work.recalled(event) == [block]


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "user"},
        {"role": "assistant"},
        {"kind": "tool_result", "role": "tool", "data": {"tool": "mcp__memplane__memory_search"}},
        {"kind": "tool_result", "role": "tool",
         "data": {"tool": "Bash", "command": "memplane pack 'how do we deploy?' 2>/dev/null"}},
        {"kind": "tool_result", "data": {"tool": "shell", "command": "python3 -m memplane show 4"}},
    ],
)  # fmt: skip
def test_what_a_person_an_agent_or_memplane_says_gives_its_blocks_up(fields):
    draft = drafted(f"a\n{quoted()}b", **fields)
    assert draft.text == "a\nb"
    assert draft.recalled == (quoted().encode(),)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"role": "tool"},
        {"role": "system"},
        {"kind": "fact", "role": "user"},
        {"kind": "decision"},
        {"kind": "summary", "role": "system"},
        {"kind": "tool_call", "role": "assistant", "data": {"tool": "mcp__memplane__memory_store"}},
        {"kind": "tool_result", "role": "tool"},
        {"kind": "tool_result", "role": "user", "data": {"tool": "Read"}},
        {"kind": "tool_result", "data": {"tool": "Bash"}},
        {"kind": "tool_result", "data": {"tool": "Bash", "command": "cat memplane"}},
        {"kind": "tool_result", "data": {"tool": "fetch", "command": "memplane pack"}},
        {"kind": "tool_result", "data": {"tool": "mcp__shell__Bash", "command": "memplane pack"}},
        {"kind": "tool_result", "data": {"tool": ["mcp__memplane__x"], "command": 1}},
    ],
)
def test_what_anything_else_says_keeps_its_blocks(fields):
    draft = drafted(f"a\n{quoted()}b", **fields)
    assert draft.text == f"a\n{quoted()}b"
    assert (draft.recalled, b"recalled" in draft.rest) == ((), False)


@pytest.mark.parametrize(
    "command",
    [
        "memplane pack", " memplane pack  --budget 2000 ", "python -m memplane log",
        "python3.12 -m memplane show 3", "memplane search 'a | b; $(c)' 2>&1",
        'memplane get "db > cache" --home ~/x 2> /dev/null', "memplane",
    ],
)  # fmt: skip
def test_a_command_of_memplane_alone_is_its_own(command):
    assert is_own_command("Bash", command)


@pytest.mark.parametrize(
    "command",
    [
        "memplane pack | cat evil", "memplane pack; cat evil", "memplane pack && cat evil",
        "memplane pack & cat evil", "memplane pack\ncat evil", "memplane pack $(cat evil)",
        "memplane pack `cat evil`", 'memplane pack "$(cat evil)"', "memplane pack <(cat evil)",
        "cat evil", "cat evil; memplane pack", "cd x && memplane pack", "echo memplane pack",
        "memplane-evil pack", "./memplane pack", "memplane.sh", "python -m memplane_evil",
        "python evil.py -m memplane", "X=1 memplane pack", "memplane pack 2>out", "memplane pack >x",
        'memplane pack "open', "memplane pack 'open", "memplane pack \\\ncat", "sudo memplane",
        "memplane pack " + "x" * 1000, "", None, 3,
    ],
)  # fmt: skip
def test_a_command_that_may_print_anything_else_is_not(command):
    assert not is_own_command("Bash", command)


def test_a_block_that_was_changed_stays_as_it_is():
    text = "memplane:begin\n## Rules\nbe kind\nmemplane:end 0123456789abcdef\n"
    assert without_blocks(text) == (text, [])
    assert without_blocks("no mark") == ("no mark", [])


def test_many_marks_are_looked_at_in_one_pass():
    text = "memplane:begin\n" * 100_000
    assert without_blocks(text) == (text, [])
    one = quoted("x\n")
    kept, blocks = without_blocks(f"a\n{one}" * 10_000)
    assert kept == "a\n" * 10_000
    assert (len(blocks), "".join(blocks)) == (RECALLED_MAX, one * 10_000)


def test_of_nested_blocks_the_inner_one_goes():
    outer = quoted(f"out\n{quoted()}in\n")
    kept, blocks = without_blocks(outer)
    assert blocks == [quoted()]
    assert kept == outer.replace(quoted(), "")


PARTS = st.sampled_from(
    ["a\n", quoted(), quoted(""), quoted("é\n"), "memplane:begin\n", "memplane:end 0123456789abcdef\n",
     "\r\n", "x", " memplane:begin\n", quoted()[:-1], "\ud800\n"]
)  # fmt: skip


@given(st.lists(PARTS, max_size=40))
def test_no_character_is_lost(parts):
    text = "".join(parts)
    kept, blocks = without_blocks(text)
    assert len(kept) + sum(map(len, blocks)) == len(text)
    assert all(block in text for block in blocks[: RECALLED_MAX - 1])
    assert len(checksums(blocks)) >= len(blocks)


def test_a_secret_in_a_block_is_masked_before_it_is_stored():
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    draft = drafted(quoted(f"the token is {secret}\n"), role="user")
    assert secret.encode() not in draft.rest + draft.recalled[0]
    data = json.loads(b"{" + draft.rest + b"}")["data"]
    assert sum(data["redactions"].values()) == 1
    assert data["recalled"][0]["sha256"] == hashlib.sha256(draft.recalled[0]).hexdigest()


@pytest.mark.parametrize(
    "value", [{}, ["x"], [{"sha256": "a" * 64, "bytes": 1, "lines": 1}], ["0123456789abcdeF"], None]
)
def test_nobody_names_the_file_of_another_event(value):
    with pytest.raises(InputError, match="recalled"):
        drafted("x", data={"recalled": value})


# --- repeats ---


def repeats(stored, draft):
    blocks = [block.decode() for block in stored.recalled]
    return same(event_of(stored), draft, Redactor(), lambda: stored.text, lambda: blocks)


def test_events_that_differ_in_their_blocks_alone_are_no_repeats():
    one, other = (drafted(f"a\n{quoted(body)}", role="user") for body in ("one\n", "other\n"))
    plain = drafted("a\n", role="user")
    assert one.text == other.text == plain.text
    for stored in (one, other, plain):
        for draft in (one, other, plain):
            assert repeats(stored, draft) == (stored is draft)


def test_a_repeat_is_still_one_under_a_stricter_policy():
    stricter = Redactor((r"code word is \w+",))
    text = f"a\n{quoted('the code word is swordfish' + chr(10))}"
    stored, again = drafted(text, role="user"), Intake(stricter).prepare(
        {"text": text, "role": "user"}, id="made"
    )  # fmt: skip
    assert stored.recalled != again.recalled
    blocks = [block.decode() for block in stored.recalled]
    assert same(event_of(stored), again, stricter, lambda: stored.text, lambda: blocks)
    assert not same(event_of(stored), again, stricter, lambda: stored.text, lambda: [None])


@pytest.mark.parametrize("fields", [{"role": "user"}, {"kind": "tool_result", "role": "tool"}])
def test_what_an_earlier_version_stored_without_the_block_is_known_again(fields):
    checksum = checksums([quoted()])
    stored = event_of(drafted("a\nb", **fields), data={"recalled": checksum})
    assert same(stored, drafted(f"a\n{quoted()}b", **fields), Redactor(), lambda: "a\nb")
    assert same(stored, drafted("a\nb", **fields), Redactor(), lambda: "a\nb")
    assert not same(stored, drafted(f"a\n{quoted('other')}b", **fields), Redactor(), lambda: "a\nb")
    other = drafted(f"a\n{quoted('other' + chr(10))}b", **fields)
    assert not same(stored, other, Redactor(), lambda: "a\nb")
    assert not same(stored, drafted(f"a\n{quoted()}c", **fields), Redactor(), lambda: "a\nb")


def test_what_the_log_would_hold_of_a_text_is_said_without_storing_it():
    intake = Intake(Redactor((r"password: \S+",)))
    assert intake.said({}) == ("", (), ("", ()))
    text, recalled, before = intake.said({"role": "user", "text": "password: hunter2!x9\x00"})
    assert (text, recalled, before) == ("[redacted:policy-1]", (), (text, ()))
    block = quoted()
    said = intake.said({"role": "user", "text": f"a\n{block}b"})
    draft = drafted(f"a\n{block}b", role="user")
    assert said.text == draft.text == "a\nb"
    assert said.recalled == tuple(hashlib.sha256(one).hexdigest() for one in draft.recalled)
    assert said.before == ("a\nb", tuple(checksums([block])))
    # A tool's output keeps its block today; a version that kept none left its checksum alone.
    said = intake.said({"kind": "tool_result", "role": "tool", "text": f"a\n{block}b"})
    assert (said.text, said.recalled) == (f"a\n{block}b", ())
    assert said.before == ("a\nb", tuple(checksums([block])))


def test_blocks_that_were_moved_out_elsewhere_are_named_before_those_of_the_text():
    block = quoted("other\n")
    draft = INTAKE.prepare({"role": "user", "text": f"a\n{quoted()}"}, id="made", recalled=[block])
    assert [len(one) for one in draft.recalled] == [len(block.encode()), len(quoted().encode())]
    named = event_of(draft).data["recalled"]
    assert [one["bytes"] for one in named] == [len(one) for one in draft.recalled]
