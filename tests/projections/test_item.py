"""An item's text is cut to its tokens, however little of it was counted for that."""

from pathlib import Path

from hypothesis import given, settings, strategies as st

import memplane.tokens
from memplane.event import Event
from memplane.projections.item import Item, limits, plain_text
from memplane.tokens import cut, make, scaled
from tests.examples import examples

PACKED = Path(memplane.tokens.__file__).with_name("bound1.xz").read_bytes()
BOUND = make("bound/1", table=lambda: PACKED)
COUNTERS = [BOUND, scaled(BOUND, 1_700_000)]
WORDS = st.sampled_from(
    ["heron", "a", "Ω", "왜가리", "x" * 30, "1,000", "don't", "🪶", "\t", "\n", "  "]
)
TEXTS = st.lists(WORDS | st.text(max_size=6), max_size=160).map(" ".join)


class Counted:
    def __init__(self, counter):
        self.counter, self.texts = counter, []

    def count(self, text):
        self.texts.append(text)
        return self.counter.count(text)


def item_of(text, kind="message"):
    event = Event(1, "e1", "2026-03-01T10:00:00.000000Z", "", kind, role="user", text=text)
    return Item.of(event, len(text) // 4)


@settings(max_examples=examples(100))
@given(TEXTS, st.sampled_from(["message", "tool_call", "fact"]), st.sampled_from(COUNTERS))
def test_a_text_is_always_cut_to_what_the_kind_may_show(text, kind, counter):
    item = item_of(text, kind)
    whole, said = item.whole, plain_text(item.text)
    kept = cut(counter, said, limits(kind)[0])
    item.finish(counter)
    if whole:
        assert item.whole == (kept == said)
        assert item.text == (kept if kept == said else kept.rstrip())
    lines = item._lines(item._head(), item.text, whole=item.whole)
    assert item.cost == counter.count(lines)


def test_a_short_text_is_counted_once():
    counter = Counted(COUNTERS[0])
    item_of("The heron stood in the shallow water for an hour.").finish(counter)
    assert len(counter.texts) == 1
