"""Quotations of erased texts are found whatever stands around them, and nothing else is."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from memplane.upkeep import purge
from memplane.upkeep.purge import Quotations
from tests.examples import examples, sampled

SECRET = "The quagga lives behind the third door of the old library"
words = st.text(st.sampled_from("ab \n.,é漢"), max_size=60)
some = st.lists(words, min_size=1, max_size=25)


def told(texts, text):
    """What counts as a quotation, as plainly as it can be said."""
    for whole in map(str.strip, texts):
        lines = [one.strip() for one in whole.splitlines()]
        lines = [one for one in lines if len(one) >= 24 and any(map(str.isalnum, one))]
        if any(one in text for one in lines) or (len(whole) >= 8 and whole in text):
            return True
    return False


@settings(max_examples=examples(100))
@given(some, some, st.data())
def test_a_text_has_a_quotation_exactly_where_one_stands_in_it(texts, others, data):
    quoted = data.draw(st.sampled_from([*texts, ""]))
    text = "".join((*others[:2], quoted, *others[2:4]))
    assert Quotations(texts).in_text(text) == told(texts, text)


@pytest.mark.parametrize("before", ["", "x", "(", "\n", "herons " * 50_000, "h" * 300_000 + " "])
@pytest.mark.parametrize("behind", ["", "x", "!", " herons"])
def test_a_quotation_is_found_anywhere_in_a_text_of_any_length(before, behind):
    looked_for = Quotations([SECRET, "Herons nest in trees."])
    assert looked_for.in_text(before + SECRET + behind)
    assert not looked_for.in_text(before + SECRET[:-1])
    assert not looked_for.in_text(before + SECRET[:20] + SECRET[21:] + behind)


@pytest.mark.parametrize("at", sampled(range(262_100, 262_150, 3), 3))
def test_a_quotation_is_found_where_a_text_is_cut_for_looking_through_it(at):
    text = ("heron " * 50_000)[:at] + SECRET + " heron" * 50_000
    assert Quotations([SECRET]).in_text(text)


def test_a_word_of_many_megabytes_is_taken_to_pieces_once(monkeypatch):
    text = "a" * 2_000_000 + "\0" * 4_000_000 + f" {SECRET}"
    looked_at = []

    class Counted:
        def __getattr__(self, name):
            def taken(text, begin=0, end=None):
                looked_at.append((len(text) if end is None else end) - begin)
                return getattr(word, name)(text, begin, len(text) if end is None else end)

            return taken

    looked_for = Quotations([SECRET])
    word = purge._WORD
    monkeypatch.setattr(purge, "_WORD", Counted())
    assert looked_for.in_text(text)
    assert 0 < sum(looked_at) < 2 * len(text)


def test_a_file_has_it_too_where_it_is_written_as_json():
    text = 'She said "quagga"\nlives behind\tthe 漢 🦓 \\ 4711'
    looked_for = Quotations([text])
    for ascii_only in (True, False):
        said = json.dumps({"text": f"x {text} y"}, ensure_ascii=ascii_only)
        assert looked_for.in_file(said)
        assert looked_for.in_file(f"{{\n{said}\n")
    assert looked_for.in_file(text)
    assert not looked_for.in_file(json.dumps(text[:-1]))
    assert not Quotations([]).in_file(text)


def test_quotations_that_begin_alike_are_told_apart():
    begin = "2026-03-01 10:00:00 INFO store.compact: wrote a segment of the size "
    lines = [f"{begin}{n}" for n in range(2_000)]
    long = [f"{begin}{'herons ' * 200}{n} end" for n in range(20)]
    looked_for = Quotations(["\n".join(lines), *long, f"{begin}{'herons ' * 200}"[:1024]])
    assert looked_for.in_text(f"x {lines[1999]}")
    assert looked_for.in_text(long[19])
    assert not Quotations(["\n".join(lines), *long]).in_text(f"{begin}none")
    assert not Quotations(long).in_text(long[19].replace("19 end", "21 end"))


def test_texts_without_spaces_are_found_however_many_are_looked_for():
    tokens = [f"{n:032x}" for n in range(100)]
    for few in (tokens[:3], tokens):
        assert Quotations(few).in_text(f"key={tokens[2]}.")
        assert not Quotations(few).in_text(f"key={tokens[2][:-1]}x")
