"""What people and agents said, in sentences: what was asked, what it came to, what is left.

An agent tells what it did in the last of its longer answers. Between them stand words that say
only what it does next ("Let me look at ..."), and around the report words that say nothing
("Done!"). Texts are read as their readers see them: without fenced code, marks of lists and
headings, the rules of tables. The tables of words are English.

Pure; each text is read up to a bound, and the same text gives the same parts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from memplane.kernel import Literals, kernel_twin
from memplane.lazy import NamedTuple, regex
from memplane.projections.function_words import SMALL_WORDS

OUTCOME_CHARS_MAX: Final = 420
TITLE_WORDS_MAX: Final = 14
_CHARS_READ: Final = 12_000
_SENTENCES_READ: Final = 160
_REPORT_WORDS: Final = 12  # of the shortest report
_NARRATION_WORDS: Final = 40  # a longer text that begins so tells more than what comes next
_LEAD_IN_WORDS: Final = 60
_FILLER_WORDS: Final = 9
_LEFT_MAX: Final = 3
_LINE_WORDS: Final = 30
_ABOUT_WORDS: Final = 24
_ITEMS_READ: Final = 8
_MEANT_READ: Final = 5
_TITLE_LEAST: Final = 3  # content words
_WISH_WORDS: Final = (3, 24)  # content words of a wish, at least and at most
_STANDING_WORDS: Final = 2  # of one that says by itself that it is to hold
_WISH_CHARS: Final = 300
_WISHES_MAX: Final = 4  # of one text
_PASTED_CHARS: Final = 1_500  # of a text that is longer than people type

_FENCE: Final = regex(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)")
_TABLE_RULE: Final = regex(r"[\s|:+=\u2500-\u257f-]*")
_MARKS: Final = regex(
    r"^[\s>]*(?:#{1,6}\s+|[-*+\u2022]\s+|\(?\d{1,3}[.)]\s+|[\u2713\u2705\u274c]\s*)*"
)
_ITEM: Final = regex(r"\s*(?:[-*+\u2022]|\(?\d{1,3}[.)])\s+\S")
_HEADING: Final = regex(r"\s*(?:#{1,6}\s+|\*\*[^*]+\*\*:?\s*$)")
# The number of an item, and a point within a name, end nothing.
# It begins with what ends a sentence, because `re` passes quickly over all that a pattern cannot
# begin with.
_END: Final = regex(r"[.!?](?<![\s(]\d[.!?])(?:[\"')\]*`]+)?(?=\s+[\"'(*`\[]*[A-Z0-9]|\s*$)")
# People write small letters behind a full stop, too.
_END_TYPED: Final = regex(r"[?!.](?:(?<=[?!])[?!]*|(?<=\.)(?<!\b[ei]\.[ge]\.)(?<!\betc\.))(?=\s|$)")
_WORD: Final = regex(r"[^\W_][\w'-]*")
# What an agent says before it does something.
_NARRATES: Final = regex(
    r"(?i)^\W*(?:(?:now|ok|okay|first|next|then|also|good|great|perfect|right|alright|got it|yes|"
    r"i see|sure|done|excellent|ah)\b[\s,.!:-]*)*"
    r"(?:let me|let's|let us|i'll|i will|i'm going to|i am going to|i need to|i should|i can see|"
    r"now i|looking|checking|running|reading|updating|starting|next, i|time to)\b"
)
_EXCLAIMS: Final = (
    r"(?:done|perfect|great|good|excellent|got it|nice|awesome|there (?:it is|we go|you go)|"
    r"yes|sure|fixed|noted|ok|okay|all (?:set|done|good)|you're welcome|understood|right)"
)
_LEADING: Final = regex(rf"(?i)^\W*(?:{_EXCLAIMS}\b\s*[!.,:;\u2014]+\s*)+(?=\S)")
# What says that checks are green, or that something is finished, and not what.
_FILLER: Final = regex(
    rf"(?i)^\W*(?:{_EXCLAIMS}"
    r"|(?:(?:all|both|the|every|unit|integration|of|e2e)\W+)*(?:tests?|checks?|suites?|lint\w*|"
    r"builds?)\b.{0,40}\b(?:pass\w*|clean|green|succeed\w*|ok|fine)\b.{0,30}"
    r"|no (?:lint|linter|type|test)\w* (?:issues|errors|failures).{0,20}"
    r"|(?:the |this |that )?(?:\w+ )?(?:is|are) (?:now )?(?:complete|done|ready|finished)"
    r"|(?:here(?:'s| is| are)|below is)\b.{0,60}|summary(?: of .{0,40})?|changes(?: made)?"
    r"|what (?:was|has been|i) \w+)\W*$"
)
_GREEN: Final = regex(
    r"(?i)\b(?:tests?|checks?|suites?|lint\w*|builds?)\b.*\b(?:pass\w*|clean|green|succeed\w*)"
)
_WANTS: Final = regex(
    r"(?i)^\W*(?:(?:hi|hello|hey|ok|okay|yes|so|and|now|please|also|well|thanks|great|perfect|cool)"
    r"\b[\s,.!:-]*)*"
    r"(?:(?:can|could|would|will) you(?: please| also| maybe| help me(?: to)?)*|"
    r"let'?s|let us|i(?:'d| would) like(?: you)? to|i (?:want|need)(?: you)? to|"
    r"we (?:should|need to|have to|want to|must)|you should|please|help me(?: to)?)\s+(?=\S)"
)
# What is said of the wish rather than wished: a call for help, pasted findings, a role.
_NO_TITLE: Final = regex(
    r"(?i)^\W*(?:question\b.{0,12}$|help\b\W*$|help!|hi\b|hello\b|hey\b\W*$|thanks?\b|"
    r"you are (?:a|an|the)\b|"
    r"act as\b|this session is being\b|the (?:comment|finding) on\b|commit (?:this|it|all)\b|"
    r"continue\b\W*$|go on\b\W*$|implement the following plan)"
)
_ASKS_ON: Final = regex(
    r"(?i)\b(?:want me to|would you like|do you want|should (?:i|we)|shall (?:i|we)|may i|"
    r"how (?:do|would|should) (?:you|we|i)|which\b|what (?:do|would|should)|or (?:do|would|should)|"
    r"ready to|next\b|proceed|prefer)"
)
_POLITE: Final = regex(
    r"(?i)\b(?:anything else|make sense|does that help|is that (?:what|clear)|sound good|"
    r"questions\?|look (?:good|right)|help with)\b"
)
_POINTS: Final = regex(r"(?i)\b(?:this|that|these|those|it|them|all (?:two|three|of)|next|both)\b")
_POINTING: Final = regex(r"(?i)^\W*(?:this|that|it|these|those|or|they|which|so)\b")
_STILL: Final = regex(
    r"(?i)\b(?:not yet\b|still (?:need|needs|missing|open|to do|to be|outstanding|fails?|failing|"
    r"shows?|displays?|"
    r"pending|has to)|remain(?:s|ing)?\b(?! (?:the same|unchanged|in place|valid))|left (?:to do|"
    r"for\b|open)|"
    r"to-?do\b|for (?:the )?next time|^next\b[,:]"
    r"|next steps?\b|follow[- ]?ups?\b|out of scope|deferred|uncommitted|"
    r"blocked (?:on|by)|known (?:issue|limitation)s?|haven't (?:been )?\w+ed|larger refactor)"
)
# Of the texts in such a table one is in every sentence in ASCII that the pattern before it finds:
# to look for the pattern itself takes 30 us.
_STAYING: Final = (
    *("not yet", "still ", "remain", "left ", "to-do", "todo", "next", "follow", "out of scope"),
    *("deferred", "uncommitted", "blocked ", "known ", "haven't", "larger refactor"),
)
_DEFERS: Final = regex(
    r"(?i)\b(?:(?:in|as|into|for|with|make|do) (?:it )?(?:a |an )?(?:separate|another|new|later|"
    r"own|"
    r"follow[- ]?up) (?:pr|pull request|issue|ticket|branch|commit|change)|"
    r"(?:create|open|log|file|write|add) (?:a |an )?(?:\w+ )?(?:issue|ticket|new one)\b|"
    r"for later\b|"
    r"not (?:now|in this (?:branch|pr|change))|(?:do|fix|handle|tackle) (?:it |that |"
    r"this )?later\b|"
    r"postpone|defer\b|leave (?:it|that|this) for\b)"
)
_DEFERRING: Final = (
    *(" pr", "pull request", "issue", "ticket", "branch", "commit", "change", "new one"),
    *("later", "not now", "not in this", "postpone", "defer", "leave "),
)
# What is to hold from now on, by its own words: texts as above, and the pattern that needs one.
_STANDS: Final = (
    (
        ("always", "never"),
        regex(
            r"(?i)\b(?<!there )(?:should|must|please|to|we|you|and|but) (?:also |please )?"
            r"(?:always|never)\b|^(?:please )?(?:always|never(?! mind))\b"
        ),
    ),
    (
        ("from now on", "going forward", "in future", "in the future"),
        regex(r"(?i)\bfrom now on\b|\bgoing forward\b|\bin (?:the )?future\b"),
    ),
    (
        ("time you", "time we", "whenever you", "whenever we"),
        regex(r"(?i)\b(?:each|every|any) ?time (?:you|we)\b|\bwhenever (?:you|we)\b"),
    ),
    (
        ("before each ", "before every ", "after each ", "after every "),
        regex(r"(?i)\b(?:before|after) (?:each|every) \w+"),
    ),
    (
        ("remember to", "remember that", "remember this", " prefer", "overriding"),
        regex(
            r"(?i)\bremember (?:to|that|this)\b|\boverriding\b|"
            r"\bi(?:'d| would)?(?: personally| really| always)? prefer\b"
        ),
    ),
    (
        ("claude.md", "agents.md"),
        regex(
            r"(?i)\b(?:claude|agents)\.md\b.{0,60}\b(?:that|so|remember|prevent|add)\b|"
            r"\badd (?:this|it|that) to (?:claude|agents)\.md\b"
        ),
    ),
    (
        ("please use", "please keep", "please write", "please avoid", "please do", "to any"),
        regex(
            r"(?i)\bplease (?:use|keep|write|avoid|don't|do not)\b.{0,60}\b(?:spelling|english|"
            r"german|style|tone|language|comments?|commits?|messages?)\b|\bto any\b"
        ),
    ),
    (
        ("ab jetzt", "ab sofort", "in zukunft", "immer", "nie"),
        regex(
            r"(?i)\b(?:ab (?:jetzt|sofort)|in zukunft|k\u00fcnftig|grunds\u00e4tzlich)\b|"
            r"\b(?:bitte|soll(?:te|ten|en|st)?|muss|m\u00fcssen|du|wir)\b.{0,20}"
            r"\b(?:immer|niemals|nie)\b"
        ),
    ),
)
_ONCE: Final = regex(
    r"(?i)\b(?:for now|this time|just (?:this )?once|in this (?:pr|branch|session|case|commit)|"
    r"here only|only here|never mind|diesmal|f\u00fcr (?:jetzt|heute)|nur hier)\b"
)
_PASSING: Final = (
    *("for now", "this time", "just once", "just this once", "in this ", "here only"),
    *("only here", "never mind", "diesmal", "nur hier"),
)
_INQUIRES: Final = regex(
    r"(?i)^\W*(?:so|and|but|ok|hm+)?[\s,]*(?:what|why|how|where|which|who|when|do|does|did|is|are|was|"
    r"were|has|have|i wonder|was|warum|wie|wo|wer|wann|ist|sind|hat|gibt)\b"
)
_QUOTES: Final = regex(r"^\s*(?:[>$|{}\[\]<]|\d{4}-\d\d|[\w./-]+\.\w{1,5}:\d)")
_COMMIT: Final = regex(
    r"(?m)^\[(?:[^\]\s]+|detached HEAD)(?: \(root-commit\))? ([0-9a-f]{7,40})\] (\S.*)$"
)
_ADDRESS_MAX: Final = 120
_ISSUE_TOOL: Final = regex(r"(?i)issue|ticket")
_ISSUE_TITLE: Final = regex(r'(?<![\w.-])(?:title|summary)=("(?:[^"\\\n]|\\["\\/bfnrt]){1,300}")')
_ISSUE_SHELL: Final = regex(
    r"\bgh issue (?:create|edit)\b[^\n]{0,200}?(?:--title|-t)[= ]"
    r"(?P<mark>[\"'])(?P<title>[^\n]{1,300}?)(?P=mark)"
)
_BRANCH_WORD: Final = regex(r"[a-z0-9]+")
_ISSUE_KEY: Final = regex(
    r'"(?:identifier|key)"\s*:\s*"(?P<key>[A-Z][A-Z0-9]{1,9}-\d{1,7})"'
    r'|"number"\s*:\s*(?P<number>\d{1,7})\b|/issues/(?P<place>\d{1,7})\b'
)
_PULL: Final = regex(r"https?://[^\s/]+/[^\s/]+/[^\s/]+/(?:pull|merge_requests)/(\d{1,7})\b")
_PLAN_HEAD: Final = regex(r"(?m)^#{1,3}[ \t]+(\S.*)$")
_PLAN_WORD: Final = regex(
    r"(?i)^(?:(?:implementation )?plan|design|proposal)\s*(?:[:\u2014-]|for|to)\s*"
)


class Sentence(NamedTuple):
    """A sentence; `heads`: it is a heading, `item`: of a list, `leads`: it ends with a colon."""

    text: str
    heads: bool = False
    item: bool = False

    @property
    def leads(self) -> bool:
        return self.text.endswith(":")


# What is asked of one text is asked in a row, and a summary asks again what a digest has asked.
@lru_cache(maxsize=8)
def sentences_in(text: str, *, typed: bool = False) -> tuple[Sentence, ...]:
    """The sentences of a text in order, at most 160 of its first 12,000 characters.

    A line ends a sentence; the heads of tables are none. `typed`: by a person, whose sentences
    begin with small letters, and who quotes others in lines with a `>`: these are not his.
    """
    found: list[Sentence] = []
    ends = _END_TYPED if typed else _END
    begun = 0  # where the sentences of the last line begin
    read = text[:_CHARS_READ]
    if "```" in read or "~~~" in read:
        read = _FENCE.sub("\n", read)
    for line in read.split("\n"):
        bare = line.lstrip()
        if typed and bare.startswith(">"):
            continue
        heads = item = False
        if not bare[:1].isalpha():  # what begins with a letter is none of these
            if not bare or _TABLE_RULE.fullmatch(line) is not None:
                if "|" in line and "-" in line:  # what stands above it names the columns
                    del found[begun:]
                continue
            heads, item = _HEADING.match(line) is not None, _ITEM.match(line) is not None
        begun = len(found)
        plain = _plain(line)
        start = 0
        for end in ends.finditer(plain):
            found.append(Sentence(plain[start : end.end()].strip(), heads, item))
            start = end.end()
        found.append(Sentence(plain[start:].strip(), heads, item))
        if len(found) > 2 * _SENTENCES_READ:
            break
    said = [one for one in found if one.text[:1].isalnum() or _WORD.search(one.text)]
    return tuple(said[:_SENTENCES_READ])


def _plain(line: str) -> str:
    if not line[:1].isalpha():
        line = _behind(_MARKS, line)
    if line.count("|") > 1:
        line = " \u2013 ".join(cell.strip() for cell in line.strip(" |").split("|") if cell.strip())
    line = line.replace("**", "").replace("__", "")
    if "  " not in line and line.isprintable():  # as a rule: no other blank than single spaces
        return line.strip(" ")
    return " ".join(line.split())


def _behind(opening: re.Pattern[str], text: str) -> str:
    """A text without what a pattern finds at its beginning."""
    found = opening.match(text)
    return text if found is None else text[found.end() :]


def meaning_words(text: str) -> list[str]:
    """The words of a text that carry its meaning, in lower case, in their order."""
    text = text[:_CHARS_READ]
    # What a letter beyond ASCII becomes may depend on those beside it.
    words = (
        _WORD.findall(text.lower())
        if text.isascii()
        else [word.lower() for word in _WORD.findall(text)]
    )
    return [word for word in words if len(word) > 1 and word not in SMALL_WORDS]


def clipped_words(text: str, most: int) -> str:
    """At most so many words of a text, with a mark where some are left out."""
    words = text.split(None, most)
    return (
        " ".join(words) if len(words) <= most else " ".join(words[:most]).rstrip(",;:") + " \u2026"
    )


def is_narration(text: str) -> bool:
    """Whether an answer says only what the agent does next."""
    return _narrates(text, _words_of(text))


def _words_of(text: str) -> int:
    """How many words a text has, as far as it matters here."""
    return len(text.split(None, _LEAD_IN_WORDS))


def _narrates(text: str, words: int) -> bool:
    if words < _LEAD_IN_WORDS and text.rstrip().endswith(":"):
        return True
    return words < _NARRATION_WORDS and _NARRATES.match(text.lstrip("*_# ")) is not None


def is_report(text: str) -> bool:
    """Whether an answer tells at some length of what was done."""
    words = _words_of(text)
    return words >= _REPORT_WORDS and not _narrates(text, words)


def has_outcome(text: str) -> bool:
    """Whether a text plainly has an outcome, without a look at all of it; False: it may have none.

    Its first line begins a sentence, and that leads to nothing.
    """
    line = text.partition("\n")[0]
    begun = line[1:2] if line[:1] == "`" else line[:1]
    return (
        begun.isalpha()
        and not line.rstrip("*_ \t\r").endswith(":")
        and "|" not in text
        and "```" not in text
        and "~~~" not in text
    )


def outcome_of(text: str, chars_max: int = OUTCOME_CHARS_MAX, *, telling: bool = False) -> str:
    """What a report came to: its first and its last sentences, without those that say nothing.

    A sentence that leads to a list takes the first item with it. Where all of them say nothing,
    the first one stands, or with `telling` none.
    """
    told = _telling(sentences_in(text))
    if telling and all(_says_nothing(one) for one in told):
        return ""
    if not told:
        return ""
    told = [*map(_ended, told[:-1]), told[-1]]
    if sum(len(one) + 1 for one in told) <= chars_max:
        return " ".join(told)
    half, front = chars_max // 2, [told[0]]
    back: list[str] = []
    spent = len(told[0])
    rest = told[1:]
    while rest and spent + len(rest[0]) < half:
        spent += len(rest[0]) + 1
        front.append(rest.pop(0))
    while rest and spent + len(rest[-1]) < chars_max:
        spent += len(rest[-1]) + 1
        back.insert(0, rest.pop())
    if not back and len(told[0]) > chars_max:
        return f"{told[0][:chars_max].rpartition(' ')[0]} \u2026"
    return " ".join([*front, *(["\u2026"] if rest else []), *back])


def _telling(found: Sequence[Sentence]) -> list[str]:
    """The sentences with something to tell; those that lead to what follows, joined to it."""
    joined: list[str] = []
    held = ""
    last = len(found) - 1
    for at, one in enumerate(found):
        text = one.text
        if at == last and at and _NARRATES.match(text) is not None and not text.endswith("?"):
            continue
        if one.heads and not text.endswith(("?", ".", "!")):
            held = ""  # a heading names what stands below it
            continue
        if one.leads:
            held = text
            continue
        joined.append(f"{held} {text}" if held else text)
        held = ""
    telling = [one for one in joined if not _says_nothing(one)]
    if not telling:
        return joined[:1]
    bare = _behind(_LEADING, telling[0])
    if bare != telling[0]:
        telling[0] = bare[:1].upper() + bare[1:]
    # That checks are green is worth a word, behind what was done.
    green = [_behind(_LEADING, one) for one in joined if one not in telling and _GREEN.search(one)]
    at = next((at for at, one in enumerate(telling[::-1]) if not one.endswith("?")), 0)
    return [*telling[: len(telling) - at], *green[:1], *telling[len(telling) - at :]]


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", ":", "\u2026", "`", '"', ")")) else f"{text}."


def _says_nothing(text: str) -> bool:
    return len(text.split()) <= _FILLER_WORDS and _FILLER.match(text) is not None


def left_in(text: str) -> list[str]:
    """What a last answer leaves open: what it asks at its end, and what it calls not done yet.

    A question that only points ("Shall I do that?") has the sentence behind it that says what; a
    list that it leads to stands behind it, too.
    """
    found = sentences_in(text)
    lines: list[str] = []
    for at in range(max(0, len(found) - _ITEMS_READ), len(found)):
        question = found[at].text.rstrip("*_) ")
        if not question.endswith("?") or _POLITE.search(question) is not None:
            continue
        listed = [one.text for one in found[at + 2 :]] if at + 2 < len(found) else []
        if at < len(found) - 2 and not (found[at + 1].leads and len(listed) <= _ITEMS_READ):
            continue
        if lines and _ASKS_ON.search(question) is None:
            continue
        about = ", ".join(listed) or _meant(found, at)
        named = f" ({clipped_words(about, _ABOUT_WORDS)})" if about else ""
        lines.append(f"{clipped_words(question, _LINE_WORDS)}{named}")
    for one in found[-12:] if not lines else ():
        if one.heads or one.leads or one.text.endswith("?") or not _stays(one.text):
            continue
        lines.append(clipped_words(one.text, _LINE_WORDS))
    return lines[:_LEFT_MAX]


def _stays(sentence: str) -> bool:
    """Whether a sentence calls something not done yet."""
    return _STAYING in _hints(sentence) and _STILL.search(sentence) is not None


def _meant(found: Sequence[Sentence], at: int) -> str:
    """What a question points at: the last sentence before it that names something itself."""
    question = found[at].text
    if _POINTS.search(question) is None and len(meaning_words(question)) > 3:
        return ""
    for place in range(at - 1, max(-1, at - 1 - _MEANT_READ), -1):
        one = found[place]
        if one.item:  # of a list all that it begins with
            begin = place
            while begin and found[begin - 1].item:
                begin -= 1
            return ", ".join(each.text.rstrip(".") for each in found[begin : place + 1])
        if not one.text.endswith("?") and _POINTING.match(one.text) is None:
            return one.text if len(meaning_words(one.text)) > 3 else ""
    return ""


def ends_in_narration(text: str) -> bool:
    """Whether the last sentence of an answer says what the agent does next."""
    found = sentences_in(text)
    return bool(found) and _NARRATES.match(found[-1].text) is not None


def is_deferred(sentence: str) -> bool:
    """Whether a person puts something off with this sentence: to an issue, to another branch."""
    return _DEFERRING in _hints(sentence) and _DEFERS.search(sentence) is not None


def title_of(text: str) -> str:
    """What a person asked for, as a title: the first sentence that says it; "" where none does."""
    for one in sentences_in(text, typed=True):
        if one.leads or _NO_TITLE.match(one.text) is not None:
            continue
        bare = _behind(_WANTS, one.text)
        if len(meaning_words(bare)) >= _TITLE_LEAST:
            return clipped_words(bare.rstrip(".!,;: "), TITLE_WORDS_MAX)
    return ""


# Asked of a sentence where it is chosen, where it is ranked and where it is kept.
@lru_cache(maxsize=256)
def is_lasting_wish(sentence: str) -> bool:
    """Whether a person wants with this sentence what is to hold from now on."""
    hints = _hints(sentence)
    return bool(hints) and (
        any(texts in hints and stands.search(sentence) is not None for texts, stands in _STANDS)
        and not _is_once(sentence)
        and not (sentence.rstrip().endswith("?") and _INQUIRES.match(sentence) is not None)
    )


def _is_once(sentence: str) -> bool:
    """Whether a wish is for this one time or place."""
    return _PASSING in _hints(sentence) and _ONCE.search(sentence) is not None


_TABLES: Final = (_STAYING, _DEFERRING, _PASSING, *(texts for texts, _ in _STANDS))
_IN_TABLES: Final = {
    text: tuple([one for one in _TABLES if text in one]) for table in _TABLES for text in table
}
_HINTS: Final = kernel_twin(Literals)(tuple(_IN_TABLES))


@lru_cache(maxsize=256)
def _hints(sentence: str) -> tuple[tuple[str, ...], ...]:
    """The tables of texts of which a sentence has any: others' patterns find nothing in it."""
    if not sentence.isascii():  # there are letters that other ones stand for where case is ignored
        return _TABLES
    found = _HINTS.among(sentence.lower())
    return tuple([table for text in found for table in _IN_TABLES[text]]) if found else ()


def wishes_in(text: str) -> list[str]:
    """What a person may want more than once: the sentences of a typed text that say something.

    At most four, those that say by themselves that they are to hold first; none of what is longer
    than people type, and no line that was pasted.
    """
    if len(text) > _PASTED_CHARS:
        return []
    found = [
        one.text
        for one in sentences_in(text, typed=True)
        if not one.leads
        and len(one.text) <= _WISH_CHARS
        and _QUOTES.match(one.text) is None
        and not _is_once(one.text)
        and _may_last(one.text)
    ]
    return sorted(found, key=lambda one: not is_lasting_wish(one))[:_WISHES_MAX]


def _may_last(sentence: str) -> bool:
    least, most = _WISH_WORDS
    words = len(meaning_words(sentence))
    return (_STANDING_WORDS if is_lasting_wish(sentence) else least) <= words <= most


def heading_of(plan: str) -> str:
    """The heading of a plan, without the word for what it is; "" where it has none."""
    found = _PLAN_HEAD.search(plan[:_CHARS_READ])
    if found is None:
        return ""
    named = _plain(found[1])
    return clipped_words(_PLAN_WORD.sub("", named) or named, TITLE_WORDS_MAX)


def commits_in(output: str) -> Iterator[str]:
    """The commits that git says it made, as `hash subject`."""
    for found in _COMMIT.finditer(output[:_CHARS_READ]):
        yield f"{found[1][:7]} {clipped_words(found[2], _LINE_WORDS)}"


def issue_title(tool: str, call: str) -> str:
    """The title that a call gives to an issue of a tracker, "" where it gives none.

    `call` is the text of a call as it is recorded, of a tracker's own tool or of `gh issue`.
    """
    if _ISSUE_TOOL.search(tool) is not None:
        found = _ISSUE_TITLE.search(call[:_CHARS_READ])
        return "" if found is None else clipped_words(str(json.loads(found[1])), _LINE_WORDS)
    if "gh issue " not in call:
        return ""
    typed = _ISSUE_SHELL.search(call[:_CHARS_READ])
    return "" if typed is None else clipped_words(typed["title"], _LINE_WORDS)


def issue_of_branch(branch: str, answer: str) -> str:
    """The key of the issue that a tracker answers with, where a branch is named after it.

    `ENT-96` for `me/ent-96-summaries`, `#12` for `12-summaries`; "" for an issue of another branch.
    """
    words = f" {' '.join(_BRANCH_WORD.findall(branch.lower()))} "
    for found in _ISSUE_KEY.finditer(answer[:_CHARS_READ]):
        number = found["number"] or found["place"]
        key = found["key"] or number
        if f" {key.lower().replace('-', ' ')} " in words:
            return f"#{number}" if number else key
    return ""


def pull_request_in(output: str) -> str:
    """The pull request whose address an output gives, as `#12 https://...`; "" for none."""
    found = _PULL.search(output[:_CHARS_READ])
    return "" if found is None else f"#{found[1]} {found[0][:_ADDRESS_MAX]}"
