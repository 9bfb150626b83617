"""The contract of `memplane.ports.Detector`: what a plane does with one, and with one that fails."""

import json
import re

import pytest

import memplane
from memplane.errors import InputError
from memplane.intake import Redactor
from memplane.ports import Detector, Span

SECRET = "zebra-4711"


class Zebras:
    """Finds `zebra-` and digits; the kind is the number of digits."""

    name = "zebras"

    def find(self, text):
        return [
            Span(*match.span(), f"digits-{len(match[1])}")
            for match in re.finditer(r"zebra-(\d+)", text)
        ]


class Unordered(Zebras):
    """Gives the same spans backwards, twice, and an empty one."""

    def find(self, text):
        found = super().find(text)
        return [*reversed(found), *found, Span(0, 0, "nothing")]


class Overlapping(Zebras):
    """Gives the number once more by itself."""

    def find(self, text):
        return [
            one
            for span in super().find(text)
            for one in (span, Span(span.start + 6, span.end, "number"))
        ]


KEEPING = [Zebras, Unordered, Overlapping]


@pytest.fixture(params=KEEPING)
def detector(request) -> Detector:
    return request.param()


def test_what_it_finds_is_masked_under_its_name_and_counted_with_its_kind(detector):
    redactor = Redactor((), detector)
    text, counts = redactor.redact(f"one {SECRET}, two zebra-1 and api_key=a1b2c3d4e5")
    assert (
        text == "one [redacted:zebras], two [redacted:zebras] and api_key=[redacted:secret-value]"
    )
    assert counts == {"secret-value": 1, "zebras:digits-4": 1, "zebras:digits-1": 1}
    assert redactor.redact(text) == (text, {})


def test_it_looks_at_what_our_own_rules_left_and_never_breaks_a_mark(detector):
    class Greedy(type(detector)):
        def find(self, text):
            at = text.find("redacted")
            return [*super().find(text), *([Span(at, at + 3, "part")] if at >= 0 else [])]

    redactor = Redactor((r"stripe-\d+",), Greedy())
    once = redactor.redact(f"stripe-1 {SECRET}")[0]
    assert once == "[redacted:policy-1] [redacted:zebras]"
    assert redactor.redact(once) == (once, {})


def test_on_write_in_every_field_and_on_emit_of_what_was_stored_before(detector, tmp_path):
    with memplane.init(tmp_path / "home") as plane:
        plane.record(f"before {SECRET}", kind="decision", key="a", session="s", data={"x": SECRET})
    with memplane.open(tmp_path / "home", detector=detector) as plane:
        receipt = plane.record(f"now {SECRET}", tags=[SECRET], data={"x": [SECRET], "n": 1})
        assert receipt.event.text == "now [redacted:zebras]"
        assert receipt.event.tags == ("[redacted:zebras]",)
        assert receipt.event.data == {
            "x": ["[redacted:zebras]"], "n": 1, "redactions": {"zebras:digits-4": 3},
        }  # fmt: skip
        with pytest.raises(InputError, match="key: holds what looks like a secret"):
            plane.record("a", key=SECRET)
        said = [
            plane.pack("zebra", session="s").text, plane.get("a").text, plane.work.decisions()[0].text,
            str(list(plane.events())), plane.expand("expand://event/2").text,
            plane.at(2).event(2).text, plane.text(plane.event(2)),
            json.dumps(plane.pack(f"where is {SECRET}?").report),
        ]  # fmt: skip
        assert [words for words in said if SECRET in words] == []


def test_in_an_audit_it_finds_what_was_stored_without_it(detector, tmp_path):
    with memplane.init(tmp_path / "home") as plane:
        plane.record(f"before {SECRET}")
        assert plane.upkeep.audit().clean
    with memplane.open(tmp_path / "home", detector=detector) as plane:
        report = plane.upkeep.audit()
        assert [(f.seq, f.field, f.rule, f.times) for f in report.findings] == [
            (2, "text", "zebras:digits-4", 1)
        ]
        assert SECRET not in repr(report)


class Failing:
    """Raises, with the text in its message."""

    name = "failing"

    def find(self, text):
        if SECRET in text:
            raise RuntimeError(text)
        return []


class Outside(Failing):
    """Names characters that are not there."""

    def find(self, text):
        return [Span(0, len(text) + 1, "x")] if SECRET in text else []


class Nonsense(Failing):
    """Answers with something else than spans."""

    def find(self, text):
        return [text] if SECRET in text else []


@pytest.mark.parametrize("wrong", [Failing, Outside, Nonsense])
def test_where_it_fails_the_event_is_refused_and_named_and_nothing_is_stored(wrong, tmp_path):
    with memplane.init(tmp_path / "home", detector=wrong()) as plane:
        plane.record("fine")
        head = plane.head()
        for fields in (
            {"text": SECRET},
            {"data": {"a": SECRET}},
            {"tags": [SECRET]},
            {"key": SECRET},
        ):
            with pytest.raises(InputError, match="the detector `failing`") as error:
                plane.record(**fields)
            assert SECRET not in f"{error.value} {error.value.__cause__} {error.value.__context__}"
        receipt = plane.record_many([{"text": SECRET}, {"text": "fine too"}], strict=False)
        assert (receipt.count, len(receipt.refused)) == (1, 1)
        assert plane.head().seq == head.seq + 1


def test_where_it_fails_nothing_is_shown_either(tmp_path):
    with memplane.init(tmp_path / "home") as plane:
        plane.record(SECRET)
    with memplane.open(tmp_path / "home", detector=Failing()) as plane:
        for shows in (lambda: plane.event(2), lambda: plane.pack("x"), plane.upkeep.audit):
            with pytest.raises(InputError, match="the detector `failing`"):
                shows()


@pytest.mark.parametrize("name", ["", "Upper", "a b", "x" * 41, None, "a:b"])
def test_a_name_that_a_mark_could_not_carry_is_refused(name):
    broken = Zebras()
    broken.name = name
    with pytest.raises(InputError, match=r"detector\.name: expected a name of 1 to 40"):
        Redactor((), broken)


def test_a_kind_that_could_hold_a_secret_counts_as_other():
    class Telling(Zebras):
        def find(self, text):
            return [Span(s, e, text[s:e] + " found!") for s, e, _ in super().find(text)]

    assert Redactor((), Telling()).redact(f"a {SECRET}")[1] == {"zebras:other": 1}
