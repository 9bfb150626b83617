"""What a pack's expansion cuts goes on, by the handle it ends with, exactly where it stopped."""

import re

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from memplane.pack.block import parse_handle
from tests.examples import examples

ALONE = {"sections": ["expansions"], "now": "2026-01-05T12:00:00Z"}
MARK = re.compile(r" … (expand://\S+)\n\Z")
WORDS = st.lists(
    st.tuples(st.text("abcdefghé鷺", min_size=1, max_size=12), st.sampled_from(" \n\t")),
    min_size=1, max_size=400,
)  # fmt: skip


def told(block):
    """What the one expansion of a block says, and the handle that it ends with."""
    (entry,) = [entry for entry in block.entries if entry.section == "expansions"]
    said = entry.text.partition(": ")[2]
    mark = MARK.search(said)
    return (said, None) if mark is None else (said[: mark.start()], mark[1])


def followed(plane, handle, budget):
    """All that is told by a handle and those after it, without its blanks."""
    said, steps = "", 0
    while handle is not None:
        text, following = told(plane.pack(budget=budget, expand=[handle], **ALONE))
        if following is not None:
            start, behind = parse_handle(handle).start, parse_handle(following).start
            assert behind > start, "each goes further"
        said, handle = said + text, following
        steps += 1
    return "".join(said.split()), steps


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=WORDS, budget=st.integers(60, 500), kind=st.sampled_from(["message", "fact"]))
def test_an_event_goes_on_exactly_where_its_text_stopped(plane, words, budget, kind):
    text = "".join(word + blank for word, blank in words)
    seq = plane.record(text, kind=kind, role="user").seq
    said, _ = followed(plane, f"event/{seq}", budget)
    assert said == "".join(text.split())


def long_text():
    return "".join(f"Heron {number} nests in a tree.\n" for number in range(300))


@pytest.mark.parametrize("budget", [100, 400])
def test_an_artifact_goes_on_by_its_own_handle(plane, tmp_path, budget):
    path = tmp_path / "herons.md"
    path.write_text(long_text())
    added = plane.work.artifacts.add(path, "said of it")
    plane.work.artifacts.approve(added.receipt.seq)
    digest = added.facts.digits
    for handle in (f"artifact/{digest}", f"#{added.receipt.seq}", f"artifact/{digest}?page=1"):
        block = plane.pack(budget=budget, expand=[handle], **ALONE)
        shown, following = told(block)
        assert following.startswith(f"expand://artifact/{digest}?page=2&from=")
        rest = plane.expand(following, 60_000).text
        assert "".join((shown + rest).split()) == "".join(long_text().split())
        said, steps = followed(plane, handle, 4 * budget)
        assert said == "".join(long_text().split())
        assert steps > 1


def test_a_page_names_the_next_one_and_the_last_page_names_none(plane, tmp_path):
    path = tmp_path / "herons.md"
    path.write_text(long_text())
    added = plane.work.artifacts.add(path)
    plane.work.artifacts.approve(added.receipt.seq)
    name = f"artifact/{added.facts.sha256}"
    shown, following = told(plane.pack(budget=8000, expand=[f"{name}?page=2"], **ALONE))
    page = plane.expand(f"{name}?page=2", 1000)
    assert "".join(shown.split()) == "".join(page.text.split())
    assert following == page.next
    whole, end = told(plane.pack(budget=8000, expand=[name], **ALONE))
    assert end is None
    assert "".join(whole.split()) == "".join(long_text().split())


@pytest.mark.parametrize("name", ["session/s?depth=3", "memory/global/birds"])
def test_what_no_page_of_a_session_or_memory_holds_goes_on_by_its_event(plane, name):
    seq = plane.record(long_text(), kind="fact", key="birds", session="s").seq
    block = plane.pack(budget=400, expand=[name], **ALONE)
    (entry,) = [entry for entry in block.entries if entry.section == "expansions"]
    shown, following = told(block)
    if name.startswith("session"):
        following = re.search(r" … (expand://event\S+)\n", entry.text)[1]
        shown = entry.text.partition("fact birds: ")[2].partition(" … expand")[0]
    assert following.startswith(f"expand://event/{seq}?from=")
    rest = plane.expand(following, 60_000).text
    assert "".join((shown + rest).split()) == "".join(long_text().split())
    alone = plane.expand(name, 400).text
    assert f" … expand://event/{seq}?from=" in alone


def test_a_secret_on_which_the_room_ends_is_not_told_in_part(plane):
    """A token that today's rules take is taken from the whole text, before any of it is cut."""
    privacy = plane.home / "policies" / "privacy.yaml"
    plane.record("x " * 150 + "heron-" + "7" * 80 + " y" * 300, kind="fact", key="k", session="s")
    text = privacy.read_text()
    assert "redact_patterns: [" in text
    privacy.write_text(text.replace("redact_patterns: [", "redact_patterns: ['heron-7{80}', "))
    for name in ("session/s?depth=3", "memory/global/k", "event/2"):
        for budget in range(80, 460, 20):
            assert "777" not in plane.pack(budget=budget, expand=[name], **ALONE).text
            assert "777" not in plane.expand(name, budget).text


def test_a_view_goes_on_exactly_where_its_lines_stopped(plane):
    views = plane.home / "views"
    views.mkdir(exist_ok=True)
    (views / "identity.md").write_text(long_text())
    handle, said = "views/identity.md", ""
    while handle is not None:
        block = plane.pack(budget=500, expand=[handle], **ALONE)
        (entry,) = [entry for entry in block.entries if entry.section == "expansions"]
        lines = entry.text.partition(": ")[2].splitlines(keepends=True)
        handle = lines.pop().strip("… \n") if lines[-1].startswith(" …") else None
        said += "".join([lines[0], *(line.removeprefix(" ") for line in lines[1:])])
    assert said == long_text()


# --- a `from` behind the end ---


@pytest.mark.parametrize("start", [10, 11, 999])
def test_a_pack_says_that_a_handle_begins_behind_the_end(plane, start):
    seq = plane.record("ten chars.", role="user").seq
    block = plane.pack(budget=900, expand=[f"event/{seq}?from={start}"], **ALONE)
    (lost,) = [one for one in block.omissions if one.section == "expansions"]
    assert (lost.id, lost.reason) == (f"expand://event/{seq}?from={start}", "past_end")
    last = plane.pack(budget=900, expand=[f"event/{seq}?from=9"], **ALONE)
    assert told(last) == (".\n", None)
