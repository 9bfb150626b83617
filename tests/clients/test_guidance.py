"""What an agent is told, as a text: short, known as ours without a record, and gone to the byte."""

import json
import re
import tomllib

import pytest
from builders_settings import texts
from hypothesis import given, strategies as st

from memplane import clients
from memplane.clients.settings_files import Traces
from memplane.errors import InputError
from memplane.mcp import TOOLS
from memplane.wiring import make_counter

COUNTER = make_counter("bound/1", 1_000_000)
PIECES = ["Use tabs.", "\n", "\r\n", " ", "# Rules", "```", "<!-- a -->", "memplane", "\ufeff", "ü"]
rules = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
MEMORIES = [
    "memories = true", "# memories = true", '"memories" = true', "'memories'=true", "memories = 1",
    "features.memories = true", "features = { memories = true }", "[features]", "[other]", "a = 'x'",
    'b = "memories = true"', "",
]  # fmt: skip


@pytest.mark.parametrize("text", [clients.skill_text(), clients.section_text()])
def test_it_costs_at_most_350_tokens_and_names_tools_that_there_are(text):
    assert COUNTER.count(text) <= 350
    assert set(re.findall(r"memory_\w+", text)) <= {tool.name for tool in TOOLS}
    for word in ("secrets", "stale", "no instruction", "memplane record", "with the reason"):
        assert word in " ".join(text.split())


@given(text=rules)
def test_a_section_always_leaves_the_text_before_it_and_comes_out_to_the_byte(text):
    added = clients.add_section(text)
    assert text.strip("\ufeff \t\r\n") == "" or added.text.startswith(text)
    assert clients.add_section(added.text).text == added.text
    assert clients.remove_section(added.text, added.traces).text == text


@given(text=rules, behind=rules)
def test_what_is_written_behind_a_section_is_always_kept(text, behind):
    added = clients.add_section(text)
    left = clients.remove_section(added.text + behind, added.traces).text
    kept = f"{text}\n{behind}".replace("\ufeff", "")  # a blank file may have had a mark
    assert left.replace("\ufeff", "").split() == kept.split()


@given(text=rules)
def test_a_text_without_a_section_of_ours_is_never_changed_by_taking_it_out(text):
    assert clients.remove_section(text, Traces(joint="\n")) == clients.Guided(text)
    assert clients.remove_skill(text, Traces()) == clients.Guided(text)


@given(at=st.integers(0, 10_000), piece=st.sampled_from(["x", "\n", " "]))
def test_an_edit_anywhere_in_our_text_is_always_seen(at, piece):
    skill = clients.skill_text()
    end = skill.index("<!--")
    place = at % end
    edited = skill[:place] + piece + skill[place:]
    assert clients.remove_skill(edited, Traces()) == clients.Guided(edited, edited=True)
    assert clients.add_skill(edited) == clients.Guided(edited, edited=True)


@given(text=rules.filter(lambda text: text.strip("\ufeff \t\r\n")))
def test_a_skill_that_others_wrote_is_always_refused(text):
    with pytest.raises(InputError, match="is not ours"):
        clients.add_skill(text)


def test_git_may_change_the_line_ends_of_either():
    for text, take in (
        (clients.skill_text(), clients.remove_skill),
        (clients.section_text(), clients.remove_section),
    ):
        assert take(text.replace("\n", "\r\n"), Traces()) == clients.Guided("")
    assert clients.add_skill(clients.skill_text().replace("\n", "\r\n")).edited is False


@given(text=texts())
def test_claude_codes_memory_is_always_switched_back_to_the_byte_and_nothing_else_is_touched(text):
    try:
        off = clients.switch_off(text, toml=False)
    except InputError:
        assert not isinstance(
            json.loads(text.removeprefix("\ufeff")).get("autoMemoryEnabled", True), bool
        )
        return
    value = json.loads(off.text.removeprefix("\ufeff"))
    assert value.pop("autoMemoryEnabled") is False
    was = json.loads(text.removeprefix("\ufeff"))
    was.pop("autoMemoryEnabled", None)
    assert value == was
    assert clients.switch_off(off.text, toml=False).text == off.text
    assert clients.switch_back(off.text, off.traces, toml=False).text == text


@given(
    lines=st.lists(st.sampled_from(MEMORIES), max_size=6), newline=st.sampled_from(["\n", "\r\n"])
)
def test_codex_memory_is_always_switched_back_to_the_byte_and_nothing_else_is_touched(
    lines, newline
):
    text = newline.join(lines)
    try:
        was = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    off = clients.switch_off(text, toml=True)
    features = was.get("features")
    if isinstance(features, dict) and features.get("memories") is True:
        features["memories"] = False
    assert tomllib.loads(off.text) == was
    assert clients.switch_back(off.text, off.traces, toml=True).text == text
