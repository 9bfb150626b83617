"""What holds beyond its session: wishes that stand, traps with their mend, decisions not reversed.

Composed of quotes (`memplane.projections.digests`) of which the reader may see each, by counts of
words alone. A wish stands where it says so ("from now on", "always"), or where the same one was
said on two days; what was wanted once, here, is none. Of two that are the same but for a "not" the
later one holds. A trap is a file that is not there with the one that is, a call that was wrong with
the one that worked, a linter's rule that bit twice with what was said of it. Texts of tools are not
quoted, but for the names of such rules.

Of decisions that were made of what people answered, those stand that no later answer turned round.
Such a decision has no key by which a later one could replace it. Structure says which it is of: the
same question was answered again; another plan was accepted in its session, or one of the same
heading; "no, ..." was said to what it is about, in its session. The later one then holds, for who
sees both: nothing is written, so that a decision whose reversal is forgotten holds again.

The same quotes give the same notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from memplane.event import SENSITIVITIES, Event
from memplane.lazy import NamedTuple, regex
from memplane.projections.item import Item
from memplane.projections.ledger import DERIVED_TAGS
from memplane.projections.reports import clipped_words, is_lasting_wish, meaning_words
from memplane.projections.tasks import EventQuote

_WORDS_MAX: Final = 30
_SHARED: Final = 3  # words of meaning that the same wish has in common, at least
_STEM: Final = 5
_DAYS_SHOWN: Final = 2
_NAMED_WORDS: Final = 3  # of a command that ask for it
_WISHES_READ: Final = 400
_NOT: Final = regex(r"(?i)\b(?:not|never|no|without|avoid|stop)\b|n't\b|\b(?:nicht|nie|kein\w*)\b")

Sees = Callable[[EventQuote], bool]
Quotes = Callable[[str], Sequence[EventQuote]]


class StandingNote(NamedTuple):
    """A wish or a trap: its line, what it is of, and for a trap the names that ask for it.

    A text asks for it that has all of the names.

    `label` names the days, `01-12, 02-01`.
    """

    label: str
    text: str
    sources: tuple[EventQuote, ...]
    names: tuple[str, ...] = ()

    @property
    def sensitivity(self) -> str:
        """The highest of the sources."""
        return max((one.sensitivity for one in self.sources), key=SENSITIVITIES.index)

    @property
    def refs(self) -> tuple[str, ...]:
        """The ids of the events that it is of."""
        return tuple(dict.fromkeys(one.id for one in self.sources))


class _Wish(NamedTuple):
    said: list[EventQuote]
    words: frozenset[str]
    refuses: bool


def standing_wishes(quotes: Quotes, sees: Sees) -> list[StandingNote]:
    """What the users want from now on, the newest first.

    `quotes` gives the quotes of a sort in the order of time. Looks at the newest 400 sentences.
    """
    wishes: list[_Wish] = []
    said = sorted([*quotes("standing"), *quotes("wishes")], key=lambda one: (one.ts, one.seq))
    for quote in [one for one in said if sees(one)][-_WISHES_READ:]:
        wish = _Wish([quote], _stems(quote.text), _NOT.search(quote.text) is not None)
        same = next((one for one in wishes if _is_same_wish(one, wish)), None)
        if same is None:
            wishes.append(wish)
        elif same.refuses == wish.refuses:
            wishes.remove(same)
            wishes.append(_Wish([*same.said, quote], wish.words, wish.refuses))
        else:  # said the other way round: that replaces it
            wishes.remove(same)
            wishes.append(wish)
    return [_note(one.said) for one in reversed(wishes) if _stands(one.said)]


def _is_same_wish(one: _Wish, other: _Wish) -> bool:
    both = len(one.words & other.words)
    return both >= _SHARED and 2 * both >= len(one.words | other.words)


def _stands(said: Sequence[EventQuote]) -> bool:
    days = {one.ts[:10] for one in said}
    return len(days) > 1 or any(is_lasting_wish(one.text) for one in said)


def _note(said: Sequence[EventQuote]) -> StandingNote:
    """The wish in the words in which it was said last, with its days."""
    days = list(dict.fromkeys(one.ts[5:10] for one in said))[-_DAYS_SHOWN:]
    text = clipped_words(" ".join(said[-1].text.split()), _WORDS_MAX)
    return StandingNote(", ".join(days), text, tuple(said[-_DAYS_SHOWN:]))


def standing_traps(quotes: Quotes, sees: Sees) -> list[StandingNote]:
    """The traps, the newest first, each once."""
    mends = {one.id: one for one in quotes("mends") if sees(one)}
    found: dict[tuple[str, str], StandingNote] = {}
    for one in quotes("traps"):
        mend = mends.get(one.call)
        if mend is None or not sees(one):
            continue
        sort, wrong, right = one.more
        names = (wrong,) if sort == "path" else _names_in(wrong)
        label = one.ts[5:10]
        if sort == "path":
            text = f"{wrong} does not exist; {right} does"
        else:
            text = f"`{wrong}` fails; `{right}` works"
        found.pop((sort, wrong), None)
        found[sort, wrong] = StandingNote(label, text, (one, mend), names)
    notes = [*found.values(), *_rules(quotes, sees)]
    return sorted(notes, key=lambda one: -max(source.seq for source in one.sources))


def _names_in(command: str) -> tuple[str, ...]:
    """What asks for a command that is wrong: its program and the words behind it."""
    words = [word for word in command.split() if word[0].isalnum() and "&" not in word]
    return tuple(words[:_NAMED_WORDS])


def _rules(quotes: Quotes, sees: Sees) -> Iterator[StandingNote]:
    """The rules of linters that bit twice, each with what an agent said of it last."""
    bites: dict[str, list[EventQuote]] = {}
    for one in quotes("bites"):
        if sees(one):
            bites.setdefault(one.more[0], []).append(one)
    for rule, bitten in bites.items():
        if len(bitten) > 1:
            said = [one for one in quotes("mends") if one.call == rule and sees(one)][-1:]
            told = f": {said[0].text}" if said else ""
            check = bitten[-1].more[1]
            text = f"{check} complained of {rule} {len(bitten)} times{told}"
            names = tuple(rule.split())
            yield StandingNote(bitten[-1].ts[5:10], text, (*bitten[-_DAYS_SHOWN:], *said), names)


def named_in(notes: Iterable[StandingNote], text: str) -> list[StandingNote]:
    """The notes all of whose names stand in a text."""
    lower = text.lower()
    return [
        one
        for one in notes
        if one.names and all(_stands_in(name.lower(), lower) for name in one.names)
    ]


def _stands_in(name: str, text: str) -> bool:
    at = text.find(name)
    while at >= 0:
        before, behind = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or behind.isalnum()):
            return True
        at = text.find(name, at + 1)
    return False


# The tags by which an importer or a hook says how it found a decision.
_ANSWERS: Final = frozenset(("answer", "numbered", "pick"))
_PLAN: Final = "plan"
_CORRECTION: Final = "correction"
_RULES: Final = DERIVED_TAGS
_JOINTS: Final = (" \u2192 ", ' "')  # between a question and its answer
_QUESTION_WORDS: Final = 3  # words of meaning of a question that may be asked again elsewhere
_CORRECTED: Final = 3  # words of meaning that a correction has of what it corrects
_READ_MAX: Final = 200


class DerivedDecision(NamedTuple):
    """A decision without a key that was made of turns. `rule`: how it was found."""

    seq: int
    session: str | None
    rule: str
    text: str

    @property
    def question(self) -> str:
        """The question that it answers, or the heading of its plan; "" where it names none."""
        if self.rule == _PLAN:
            return self.text.removeprefix("Plan: ").partition(": ")[0]
        if self.rule not in _ANSWERS:
            return ""
        found = (self.text.partition(joint)[0] for joint in _JOINTS if joint in self.text)
        return next((one for one in found if one), "")


def derived(event: Event | Item | EventQuote) -> DerivedDecision | None:
    """The decision as it is compared here; None for one with a key, or that was stated as such."""
    tags = event.more if isinstance(event, EventQuote) else event.tags
    rule = next((tag for tag in tags if tag in _RULES), "")
    if event.kind != "decision" or event.role != "user" or event.key is not None or not rule:
        return None
    return DerivedDecision(event.seq, event.session, rule, event.text)


def reversed_by(decisions: Iterable[DerivedDecision | None]) -> dict[int, int]:
    """Which decisions do not hold any more: seq -> that of the later one that turned it round.

    `decisions` in log order; of None nothing is said. Compares the newest 200.
    """
    rows = [one for one in decisions if one is not None][-_READ_MAX:]
    words = {one.seq: _stems(one.text) for one in rows}
    asked = {one.seq: _stems(one.question) for one in rows}
    found: dict[int, int] = {}
    for at, later in enumerate(rows):
        before = [one for one in rows[:at] if one.seq not in found]
        if later.rule == _CORRECTION:
            own = [
                one
                for one in before
                if one.session == later.session
                and len(words[one.seq] & words[later.seq]) >= _CORRECTED
            ]
            before = own[-1:]
        else:
            before = [
                one
                for one in before
                if _is_same_matter(one, later, asked[one.seq], asked[later.seq])
            ]
        found.update((one.seq, later.seq) for one in before)
    return found


def _is_same_matter(
    one: DerivedDecision, later: DerivedDecision, words: frozenset[str], others: frozenset[str]
) -> bool:
    """Whether two answer the same question, or are plans for the same."""
    together = one.session is not None and one.session == later.session
    if _PLAN in (later.rule, one.rule):
        return one.rule == later.rule and (together or (bool(words) and words == others))
    if not words or words != others:
        return False
    return len(words) >= _QUESTION_WORDS or (together and one.question == later.question)


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in meaning_words(text))
