"""What sessions leave, without a model: the digest of each, and what holds beyond it.

Composed of quotes (`memplane.projections.digests`) of which the reader may see each, so that what
is hidden, forgotten or replaced leaves no word. The same quotes give the same bytes. Output of
tools is not quoted, but for what git says it did and the names of linters' rules.

**Digest**: what a session was about, what came of it, what is left. The order of the lines is
fixed, each is dropped where there is nothing for it:

    "Title" on branch
    Issue: the one that the branch is named after
    Asked: the first wish, where the title is not that; the last one, where nothing was said to it
    Came to: 3 of 5 steps done, last: ...; what the last report says
    Decided: the last decisions, the newest first
    Decided on: keys, whose values are not quoted: a later one would leave the old one standing here
    Left: steps not done, what the last answer asks or calls open, what was put off
    Failed, still open: checks
    Done: commits and pull requests
    Files: the ones that were changed, the last first

What has a key is named by it and never quoted, since a later value of the key would leave the old
one standing here. The summary that is generated at a session's end is the digest of its own events;
its refs name every event that is quoted or named.

**Standing notes**, by counts of words alone. A wish stands where it says so ("from now on",
"always"), or where the same one was said on two days; what was wanted once, here, is none. Of two
that are the same but for a "not" the later one holds. A trap is a file that is not there with the
one that is, a call that was wrong with the one that worked, a linter's rule that bit twice with
what was said of it.

**Reversals**: of decisions that were made of what people answered, those stand that no later answer
turned round. Such a decision has no key by which a later one could replace it. Structure says which
it is of: the same question was answered again; another plan was accepted in its session, or one of
the same heading; "no, ..." was said to what it is about, in its session. The later one then holds,
for who sees both: nothing is written, so that a decision whose reversal is forgotten holds again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from memplane.event import GLOBAL, SENSITIVITIES, UPKEEP_KINDS, Event
from memplane.lazy import NamedTuple, regex
from memplane.ports import TokenCounter
from memplane.projections.digests import ANSWERED, OPEN, REPORTED, SessionParts, parts_of
from memplane.projections.in_force import out_of_time
from memplane.projections.item import Item
from memplane.projections.ledger import DERIVED_TAGS
from memplane.projections.reports import (
    TITLE_WORDS_MAX,
    clipped_words,
    is_lasting_wish,
    meaning_words,
)
from memplane.projections.tasks import EventQuote
from memplane.tokens import clip

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


_DECISIONS: Final = 5
_FAILURES: Final = 3
_LEFT: Final = 6
_DONE: Final = 4
_FILES: Final = 6
_DECISION_WORDS: Final = 25
_ASKED_AS: Final = 9
_CHOSEN_WORDS: Final = 12
_STEP_WORDS: Final = 16
_QUOTE_LEAST: Final = 16  # tokens that one of several may take before they share alike
_ASKED_WORDS: Final = 3  # content words of a prompt that says what is unfinished
_ENDS_LABEL: Final = regex(r": | - | \(| \u2013 |\. ")
_MARK: Final = " \u2026"
_CAME_TO: Final = "Came to"
# Parts of the tokens, among those that have something; what one leaves goes to the next.
_SHARES: Final = {
    "Issue": 18,
    "Asked": 10,
    "Left": 22,
    "Failed, still open": 10,
    "Done": 14,
    "Decided": 26,
    "Decided on": 8,
    _CAME_TO: 34,
    "Files": 12,
}
_ORDER: Final = (
    "Issue",
    "Asked",
    _CAME_TO,
    "Decided",
    "Decided on",
    "Left",
    "Failed, still open",
    "Done",
    "Files",
)
_NAMES: Final = frozenset(("Decided on", "Files"))  # lists of names, none of which is cut
_WHOLE: Final = frozenset((*_NAMES, "Decided"))  # what was decided stands at the end of a quote


class SessionDigest(NamedTuple):
    """A digest: its text in lines, and the quotes that it is made of.

    `title` and `branch` stand in the first line, each may be "". `sensitivity` is the highest of
    the sources.
    """

    text: str
    title: str
    branch: str
    sources: tuple[EventQuote, ...]

    @property
    def sensitivity(self) -> str:
        return max((one.sensitivity for one in self.sources), key=SENSITIVITIES.index)

    def after(self, label: str) -> str:
        """What the digest says behind a label (`Came to`, `Left`, ...); "" where it has no such."""
        start = f"{label}: "
        lines = self.text.split("\n")
        return next((one.removeprefix(start) for one in lines if one.startswith(start)), "")

    @property
    def day(self) -> str:
        """The day of the first event that is told of."""
        return min(one.ts for one in self.sources)[:10]

    @property
    def refs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.id for one in self.sources))


class _Quote(NamedTuple):
    text: str
    source: EventQuote


def session_digest(
    session: SessionParts,
    sees: Sees,
    *,
    counter: TokenCounter,
    tokens_max: int,
    redact: Callable[[str], str],
) -> SessionDigest | None:
    """Compose the digest within `tokens_max` tokens; None where there is nothing to tell of."""
    seen = _Seen(session, sees)
    titled, branch = seen.title(), branch_of(session, sees)
    head: list[tuple[str, list[EventQuote]]] = []
    if titled is not None:
        title = redact(titled.text)
        named = redact(branch.more[0]) if branch is not None else ""
        line = first_line(title, named)
        if counter.count(line) <= tokens_max // 2:
            head = [(line, [titled.source, *([branch] if branch is not None else [])])]
    room = tokens_max - sum(counter.count(f"{line}\n") for line, _ in head)
    lines = [*head, *_lines(seen, titled, room, counter, redact)]
    if not lines:
        return None
    while len(lines) > 1 and counter.count(_joined(lines)) > tokens_max:
        lines.pop()
    if counter.count(_joined(lines)) > tokens_max:
        return None
    sources = [one for _, used in lines for one in used]
    title, named = title_in(lines[0][0]) if head else ("", "")
    return SessionDigest(_joined(lines), title, named, tuple(dict.fromkeys(sources)))


def session_label(day: str, text: str) -> tuple[str, str]:
    """How a session is called, `session 01-21 "Agent name in logs"`, and the rest of its digest.

    `day` is its first one, `text` its digest.
    """
    first, _, rest = text.partition("\n")
    if not first.startswith('"'):
        return f"session {day[5:10]}", text
    return f"session {day[5:10]} {first}", rest


def first_line(title: str, branch: str) -> str:
    """The first line of a digest: `"Title" on branch`."""
    # A colon would end the label that the line becomes.
    plain = " ".join(title.split()).replace('"', "'").replace(": ", " \u2013 ")
    return f'"{plain}" on {branch}' if branch else f'"{plain}"'


def title_in(line: str) -> tuple[str, str]:
    """The title and the branch of a digest's first line, "" each where it has none."""
    if not line.startswith('"'):
        return "", ""
    title, _, rest = line[1:].partition('"')
    return title, rest.removeprefix(" on ") if rest.startswith(" on ") else ""


def branch_of(session: SessionParts, sees: Sees) -> EventQuote | None:
    """The quote that names the branch with the most edits in its `more`; None without any."""
    edits: dict[str, int] = {}
    last: dict[str, EventQuote] = {}
    for one in session.quotes("files"):
        if one.more[0] and sees(one):
            edits[one.more[0]] = edits.get(one.more[0], 0) + int(one.more[1])
            last[one.more[0]] = one
    if edits:
        most = max(edits, key=lambda branch: (edits[branch], last[branch].seq))
        return last[most]
    named = [one for one in session.quotes("branches") if one.more and sees(one)]
    return named[-1] if named else None


def _joined(lines: list[tuple[str, list[EventQuote]]]) -> str:
    return "\n".join(line for line, _ in lines)


class _Seen:
    """The quotes of a session that the reader may see."""

    def __init__(self, session: SessionParts, sees: Sees) -> None:
        self._session, self._sees = session, sees

    def all(self, sort: str) -> list[EventQuote]:
        return [one for one in self._session.quotes(sort) if self._sees(one)]

    def plain(self, sort: str) -> list[EventQuote]:
        """Those without a key: what has one is named by it."""
        return [one for one in self.all(sort) if one.key is None]

    def title(self) -> _Quote | None:
        """The client's own title or a plan's heading, else the first thing that was asked for."""
        titles = self.plain("titles")
        named = [one for one in titles if one.kind == "session"] or titles
        found = named[-1:] or self.plain("asked")[:1]
        if not found:
            first = self.plain("first")[:1]
            found = [one for one in first if len(meaning_words(one.text)) > 1]
        return _Quote(clipped_words(found[0].text, TITLE_WORDS_MAX), found[0]) if found else None

    def steps(self) -> tuple[EventQuote, list[list[str]]] | None:
        """The to-do list that was written last, with its steps."""
        plans = self.all("plans")
        return (plans[-1], plans[-1].more) if plans and plans[-1].more else None

    @property
    def turn(self) -> int:
        return self._session.turn(self._sees)

    def parts(self, titled: _Quote | None) -> Iterator[tuple[str, list[_Quote]]]:
        """Each label with the quotes that may follow it, the most important first."""
        for one in self.plain("issues")[-1:]:
            yield "Issue", [_Quote(f"{one.more[0]} {one.text}", one)]
        asked = [one for one in self.plain("asked") if titled is None or one != titled.source]
        if titled is None:
            asked = self.plain("first") or self.plain("last")
        first = asked[:1] if titled is None or titled.source.kind == "session" else []
        shown = [one.id for one in first] + ([] if titled is None else [titled.source.id])
        last = [one for one in self._open_prompt(1) if one.id not in shown]
        if self._open_prompt(_ASKED_WORDS):  # stands as what is left
            last = []
        yield "Asked", [_Quote(one.text, one) for one in (*first, *last)]
        yield _CAME_TO, list(self._came_to())
        decided = self.all("decisions")
        gone = reversed_by(map(derived, decided))
        decisions = [one for one in decided[::-1] if one.seq not in gone]
        plain = [one for one in decisions if one.key is None]
        yield "Decided", [_Quote(_decided(one), one) for one in plain[:_DECISIONS]]
        keyed: dict[str, EventQuote] = {}
        for one in decisions:
            if one.key is not None:
                keyed.setdefault(one.key, one)
        yield "Decided on", [_Quote(key, one) for key, one in keyed.items()][:_DECISIONS]
        yield "Left", list(self._left())[:_LEFT]
        failures = self.all("failures")[::-1]
        yield "Failed, still open", [_Quote(_named(one), one) for one in failures[:_FAILURES]]
        done = list(self._done())
        yield "Done", done
        files = self.plain("files")[::-1]
        yield "Files", [_Quote(one.path, one) for one in files[:_FILES]]

    def _came_to(self) -> Iterator[_Quote]:
        steps = self.steps()
        if steps is not None:
            quote, made = steps
            done = [step for step, state in made if state == "done"]
            if len(done) < len(made):
                last = f", last: {clipped_words(done[-1], _STEP_WORDS)}" if done else ""
                yield _Quote(f"{len(done)} of {len(made)} steps done{last}", quote)
        reports = self.plain("reports")[-1:] or self.plain("answers")[-1:]
        for one in reports:
            # What it leaves open stands in the line of that.
            text = one.text
            for line in one.more if self.turn == REPORTED else ():
                text = _without(text, line.partition(" (")[0].removesuffix(_MARK))
            yield _Quote(text, one)

    def _left(self) -> Iterator[_Quote]:
        steps = self.steps()
        if steps is not None:
            for step, state in steps[1]:
                if state != "done":
                    yield _Quote(clipped_words(step, _STEP_WORDS), steps[0])
        last, reports = self._open_prompt(_ASKED_WORDS), self.plain("reports")[-1:]
        if last:
            yield _Quote(f"unfinished: {clipped_words(last[0].text, 20)}", last[0])
            reports = [one for one in reports if one.seq > last[0].seq]
        if self.turn != ANSWERED:
            for one in reports:
                yield from (_Quote(line, one) for line in one.more)
        for one in self.plain("deferred"):
            yield _Quote(f"put off: {one.text}", one)

    def _open_prompt(self, least: int) -> list[EventQuote]:
        """The last prompt where nothing was said to it, and it has so many words of meaning."""
        if self.turn != OPEN:
            return []
        last = self.plain("last")[-1:]
        return [one for one in last if len(meaning_words(one.text)) >= least]

    def _done(self) -> Iterator[_Quote]:
        done = self.all("done")[::-1]
        for one in done[:_DONE]:
            yield _Quote(one.text, one)
        if len(done) > _DONE:
            yield _Quote(f"{len(done) - _DONE} more", done[_DONE])


def _without(text: str, sentence: str) -> str:
    """The text without a sentence that begins so."""
    at = text.find(sentence)
    if at < 0 or not sentence:
        return text
    end = text.find(". ", at + len(sentence) - 1)
    return f"{text[:at]}{text[end + 2 :] if end >= 0 else ''}"


def _decided(quote: EventQuote) -> str:
    """A decision in few words: of what was chosen the name, behind what was asked."""
    for mark in (" = ", " \u2192 "):
        asked, found, chosen = quote.text.partition(mark)
        if found:
            label = _ENDS_LABEL.split(chosen, 1)[0] if mark == " = " else chosen
            label = chosen if label.count("`") % 2 else label  # the end of it is within a name
            return f"{clipped_words(asked, _ASKED_AS)}{mark}{clipped_words(label, _CHOSEN_WORDS)}"
    return clipped_words(quote.text, _DECISION_WORDS)


def _named(quote: EventQuote) -> str:
    return quote.key if quote.key is not None else quote.text


def _lines(
    seen: _Seen,
    titled: _Quote | None,
    room: int,
    counter: TokenCounter,
    redact: Callable[[str], str],
) -> list[tuple[str, list[EventQuote]]]:
    """The lines in their order; those with the most exact words are given room first."""
    parts = {label: quotes for label, quotes in seen.parts(titled) if quotes}
    whole = sum(_SHARES[label] for label in parts)
    made: dict[str, tuple[str, list[EventQuote]]] = {}
    spare = 0
    for label in (one for one in _SHARES if one in parts):
        most = room * _SHARES[label] // whole + spare
        line, used = _line(label, parts[label], most, counter, redact)
        spare = most
        if line:
            made[label] = line, used
            spare -= counter.count(f"{line}\n")
    return [made[label] for label in _ORDER if label in made]


def _line(
    label: str,
    quotes: list[_Quote],
    room: int,
    counter: TokenCounter,
    redact: Callable[[str], str],
) -> tuple[str, list[EventQuote]]:
    """One line of what fits, and the events it quotes; "" where nothing does."""
    names = label in _NAMES
    line, joint = f"{label}: ", ", " if names else ". " if label == _CAME_TO else "; "
    used: list[EventQuote] = []
    for place, quote in enumerate(quotes):
        before = f"{line}{joint}" if used else line
        text = " ".join(redact(quote.text).split())
        whole = f"{before}{text}"
        if not text:
            continue
        spent = counter.count(f"{before}\n")
        fair = max(_QUOTE_LEAST, (room - spent) // (len(quotes) - place))
        most = room if label in _WHOLE else min(room, spent + fair)
        if counter.count(f"{whole}\n") > most:
            cut = not names and not (used and label in _WHOLE)
            whole = _shortened(before, text, most, counter) if cut else ""
            if not whole:
                break
        line = whole
        used.append(quote.source)
    return (line, used) if used else ("", [])


def _shortened(before: str, text: str, room: int, counter: TokenCounter) -> str:
    """The line with as much of the text as fits, up to a word's end, marked."""
    made = clip(
        counter,
        text,
        room,
        lambda kept: f"{before}{kept}{_MARK}\n",
        around=counter.count(f"{before}{_MARK}\n"),
        ended=_to_word,
    )
    return "" if made is None else made[0].removesuffix("\n")


def _to_word(text: str) -> str:
    """The text up to the end of a word; "" if it is too short: one word of a script with blanks."""
    kept = text.rstrip()
    return "" if " " not in kept and (kept.isascii() or not kept) else kept


EVENTS_MIN: Final = 3  # a session of fewer events is its own summary
_UNREAD: Final = frozenset((*UPKEEP_KINDS, "secret", "artifact", "approval", "episode"))
# Events of a session's own that say what it is called, or what came of it.
_TELLING: Final = frozenset(("title", "note"))


class Extract(NamedTuple):
    """What a summary event takes: text, namespace, ids quoted, the highest sensitivity of them."""

    text: str
    ns: str
    refs: tuple[str, ...]
    sensitivity: str


def is_readable(event: Event, now: str) -> bool:
    """Whether a model would read the event, and may still do so tomorrow.

    A secret is no source, nor is what has a time to end: the summary has none. The steps of a
    to-do list are text, too: clients write its goal once.
    """
    return (
        (bool(event.text) or (event.kind == "task" and isinstance(event.data.get("plan"), list)))
        and event.kind not in _UNREAD
        and (event.kind != "session" or event.data.get("status") in _TELLING)
        and event.sensitivity != "secret"
        and event.valid_until is None
        and out_of_time(event, now) is None
        and not (event.kind == "summary" and event.data.get("extract") is True)
    )


def extract(
    events: Sequence[Event],
    *,
    counter: TokenCounter,
    tokens_max: int,
    redact: Callable[[str], str],
) -> Extract | None:
    """Sum up the readable events of one session, in log order; None where that is no gain.

    At most `tokens_max` tokens and 32 refs. Events of several namespaces beside /global give a
    summary of what is in /global alone.
    """
    if sum(event.kind != "session" for event in events) < EVENTS_MIN:
        return None
    ns, sources = one_space(events)
    session = parts_of(sources)
    if session is None:
        return None
    made = session_digest(session, _all, counter=counter, tokens_max=tokens_max, redact=redact)
    return None if made is None else Extract(made.text, ns, made.refs, made.sensitivity)


def _all(_: EventQuote) -> bool:
    return True


def one_space(events: Sequence[Event]) -> tuple[str, list[Event]]:
    """The namespace that a summary of the events is in, and those of them that it may quote."""
    others = sorted({event.ns for event in events} - {GLOBAL})
    if len(others) > 1:  # nothing may leak from one into another
        return GLOBAL, [event for event in events if event.ns == GLOBAL]
    return (others[0] if others else GLOBAL), list(events)
