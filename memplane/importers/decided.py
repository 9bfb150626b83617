"""Decisions in what people answer their agents, told by structure. Pure; hooks use it.

A decision is recorded only where somebody decided: a question of the client was answered, a plan
was accepted, one of the options that the agent offered was picked, a call was refused with what to
do in its place, "no" was said with the same. Each is a row of kind `decision` and role `user` that
names the turns it is of in its `refs`; the reason that stands beside it is its `rationale`. Its tag
says by which rule it was found (`RULES`).

    ASK    an answered question of the client        question -> answer
           (AskUserQuestion, request_user_input)
    PLAN   a plan that was approved, or taken into   Plan: heading: its goal
           a session of its own
    PICK   "B", "let's go with option 2"             "the reply" = the option's text
    NUMBER answers under numbers to numbered         question -> answer
           questions
    YES    "yes" to "Want me to ...?"                Agreed: the act
    NO     "no, ..."                                 "the reply" (to: the question)
    REFUSE why a call was refused                    "the reason" (to: the call)

What only moves the work on (commit, run the tests, go on) is none, nor is a question. Lists of
words are English; what they do not know is left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from memplane.importers.rows import REPLY_CHARS, begins_decision, short_text
from memplane.lazy import NamedTuple, regex
from memplane.projections.reports import clipped_words, heading_of, meaning_words, sentences_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memplane.importers.rows import Row

RULES: Final = ("answer", "plan", "pick", "numbered", "agreed", "correction", "refusal")
PLAN_LEAD: Final = "Implement the following plan:"
# What Codex says for the person who accepts a plan, and how it marks one.
_IMPLEMENTS: Final = regex(r"(?i)^\W*implement the plan\W*$")
_PROPOSED: Final = regex(r"(?s)<proposed_plan>(?P<plan>.*?)(?:</proposed_plan>|\Z)")
_SAID_WORDS: Final = 25
_OPTION_WORDS: Final = 25
_GOAL_WORDS: Final = 60
_REASON_WORDS: Final = 40
_ANSWER_CHARS: Final = 12_000
_OPTIONS_MAX: Final = 20
_ANSWERS_KEPT: Final = 2
_TALKS_KEPT: Final = 4  # sessions of a file
_KEPT_CHARS: Final = 6_000
_NEAR_WORDS: Final = 8  # behind a key, that may say that it is chosen
_BEHIND_WORDS: Final = 14  # behind a key; more is another wish

_FENCE: Final = regex(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)")
_KEY: Final = r"(?:[A-Ha-h]|[1-9]\d?)"
_OPTION: Final = regex(
    r"(?im)^[ \t]*(?:\|[ \t]*)?(?:[-*\u2022][ \t]+)?(?:#{1,6}[ \t]*)?(?:\*\*|__)?[ \t]*"
    r"(?:(?:option|approach|choice|alternative|solution|plan|variant|fix)[ \t]+)?"
    rf"\(?(?P<key>{_KEY})(?:[.):]|[ \t]+[-\u2013\u2014:])(?:\*\*|__)?:?[ \t]+(?P<text>\S.*)$"
)
_LEADS: Final = (
    r"(?:(?:i(?:'d| would)?(?: think| like| prefer| choose| vote(?: for)?| go (?:with|for)| say)|"
    r"let'?s (?:go (?:with|for)|do|use|take|try|start with|pick)|go (?:with|for)|"
    r"(?:yes|ok(?:ay)?|sure|hm+|good|great|thanks)[,.!]?|do|use|take|pick|choose|implement|fix|"
    r"maybe|probably|just|only|then|please|definitely)\s+)*"
)
_PICK: Final = regex(
    rf"(?i)^\W*{_LEADS}(?:the\s+)?(?:option|approach|number|choice|variant|solution|plan|nr\.?|"
    rf"#)?\s*"
    rf"(?P<key>{_KEY})(?P<behind>\s*$|\s*[.,;:)!\u2013\u2014-]|"
    r"\s+(?:is|are|please|for|with|but|and|sounds?|seems?|looks?|then|it is|makes)\b)"
)
_SECOND_KEY: Final = regex(
    r"(?m)(?:^\s*|[,&+/]\s*|\b(?:and|or|plus)\s+)(?:option\s+)?(?:[A-H]|[1-9]\d?)(?:[.):]\s|"
    r"\s*(?:$|"
    r"[,;&.]|and\b|or\b))"
)
_CHOOSES: Final = regex(
    r"(?i)\b(?:fine|good|best|prefer|think|like|option|go with|sounds|makes sense|let'?s|"
    r"choose|yes)\b"
)
_NUMBERED: Final = regex(
    r"(?m)^[ \t]*(?:[-*][ \t]+)?(?:\*\*)?\(?(\d{1,2})[.):](?:\*\*)?[ \t]+(\S.*)$"
)
_YES: Final = regex(
    r"(?i)^\W*(?:yes|yep|yeah|yup|ya|ok(?:ay)?|sure|agreed?|go ahead|go for it|do (?:it|that|so)|"
    r"please do|let'?s do (?:it|that)|sounds good|makes sense|correct|exactly|absolutely|"
    r"definitely|"
    r"\+1)\b(?P<rest>[^?]*)$"
)
_OFFER: Final = regex(
    r"(?i)\b(?:want me to|would you like(?: me)? to|do you want(?: me)? to|should (?:i|we)|"
    r"shall (?:i|we)|may i)\s+(?P<act>[^?]{3,400})\?"
)
_NO: Final = regex(
    r"(?i)^\W*(?:no|nope|nah)\b(?!\s+(?:idea|worries|problem|need to worry|"
    r"rush))[\s,.:;!-]*(?P<rest>.+)$"
)
# What moves the work on, and settles nothing of it.
_PROCESS: Final = regex(
    r"(?i)\b(?:(?:force[- ])?push|commit|rebase|merge|cherry[- ]pick|stash|pull|check ?out|branch|"
    r"pull request|\bpr\b|deploy|release|review|look (?:at|into)|investigate|debug|explore|explain|"
    r"summari[sz]e|show|read|check|verify|double[- ]check|run|re-?run|test (?:it|this|that)|"
    r"continue|"
    r"proceed|go on|move on|keep going|start|begin|stop|wait|next (?:step|task|one|issue|fix|pr)|"
    r"what(?:'s| is) next|anything else|help|try (?:it|this|that|again)|plan(?:ning)?|brainstorm|"
    r"discuss|think|ask|tell|linear|ticket|issue tracker|undo|revert (?:it|this|that))\b"
)
_NEXT: Final = regex(
    r"(?i)\b(?:what|how|which)\b.{0,40}\b(?:next|proceed|continue|start(?: with)?|first|first step|"
    r"approach to (?:testing|committing))\b|\bready\b|force[- ]push|\bwhich (?:pr|branch|commit)\b|"
    r"(?:push|commit|merge|deploy)\b.{0,30}\?|\bwould you like to\b.{0,20}\b(?:do|next)\b"
)
# An answer that takes none of what was offered, and says nothing in its place.
_NO_ANSWER: Final = regex(
    r"(?i)\W*(?:none(?: of (?:these|those|them|the above))?|neither(?: of (?:these|them))?|"
    r"(?:something |any)?(?:else|other)|other|skip(?: (?:this|it))?|not sure(?: yet)?|"
    r"i(?: do not|(?:'| a)?m not sure| don't) ?(?:know|care)?|no (?:answer|preference|idea)|"
    r"no answer provided|let me think(?: about it)?|later|"
    r"keine(?:s|r)?(?: davon)?|nichts davon|wei\u00df (?:ich )?nicht|egal)\W*"
)
_MOVES_ON: Final = regex(
    r"(?i)^\W*(?:commit|push|merge|rebase|continue|proceed|go on|move on|stop|wait|review|next|"
    r"run (?:the )?(?:tests?|lint\w*)|(?:open|create) (?:a )?(?:new )?(?:pr|pull request|branch))\b"
    r"(?!-)"
)
# Who does the work, and in which order, is nothing of the work itself.
_MANNER: Final = regex(
    r"(?i)\b(?:sub-?agents?|parallel sessions?|this session|one by one|all at once)\b"
)
_DIRECTS: Final = regex(
    r"(?i)\b(?:should|instead|rather|prefer|want|need|must|let's|don't|do not|never|always|only|"
    r"use|drop|keep|add|remove|move|make|put|call|name|rename|ensure|store|return|leave|skip|avoid|"
    r"replace|change|define|write|without|would have|can we|could we)\b"
)
_UNSURE: Final = regex(
    r"(?i)^\W*(?:hm+|not sure|no idea|i don't know|maybe|tricky|good question)\b"
)
# Where work is talked about, rather than what it is.
_TALKED_ABOUT: Final = regex(
    r"(?i)\b(?:linear|jira|tickets?|pr|pull request|commit|push|merge|plann\w+|next step)\b"
)
_VAGUE: Final = regex(
    r"(?i)^\W*(?:(?:please|can you|go ahead|and|also|just|now)\s+)*(?:fix|implement|do|add|update|"
    r"make|"
    r"change|address|"
    r"apply|use|move|remove|refactor|proceed with)\s+(?:it|this|that|them|these|those|"
    r"all(?: of (?:it|"
    r"them|these))?|all (?:two|three|four|five|\d+)(?: \w+)?|the (?:fix|changes?|tests?|issues?|"
    r"implementation)|(?:a |an |some |"
    r"more )?tests?)\W*$"
)
_RECOMMENDS: Final = regex(
    r"(?i)\b(?:i(?:'d| would)? (?:recommend|suggest|lean|propose|go with)|recommend(?:ed|ation)|"
    r"my (?:preference|suggestion|take)|best (?:option|approach|choice)|simplest)\b"
)
_BECAUSE: Final = regex(
    r"(?i)\b(?:because|since|so that|this way|which means|in order to|to avoid|otherwise|that way|"
    r"the reason|due to)\b"
)
_CLIENT_LABEL: Final = regex(r"(?i)\s*\((?:recommended|default|current)\)")
_GOAL: Final = regex(
    r"(?im)^(?:#{1,6}[ \t]*|\*\*)(?:goals?|overview|summary|context|problem(?: statement)?|"
    r"objective|"
    r"background|purpose|intent|tl;?dr)\b[^\n]{0,40}\n+(?P<text>\S[^\n]*(?:\n(?!\s*\n|#|[ \t]*[-*|"
    r"]|[ \t]*\d+[.)])[^\n]+)*)"
)
_PARAGRAPH: Final = regex(
    r"(?m)^(?![ \t]*(?:#|[-*|>]|\d+[.)]|```))\S[^\n]*(?:\n(?!\s*\n|#|[ \t]*[-*|]|"
    r"[ \t]*\d+[.)])[^\n]+)*"
)
_GOAL_LABEL: Final = regex(r"(?i)^\**(?:goal|objective|overview|summary|problem)\**:\**\s*")


class Decided(NamedTuple):
    """A decision: its text, the rule that found it, the reason beside it ("" where none stands).

    `of_answer`: it is of the agent's answer before it as well.
    """

    text: str
    rule: str
    reason: str = ""
    of_answer: bool = False


def decision_row(found: Decided, refs: Sequence[str], *, call: str = "") -> Row:
    """The row of a decision that is of the events in `refs`, and goes where they go (`derived`)."""
    data: dict[str, Any] = {"derived": True}
    data |= {name: said for name, said in (("rationale", found.reason), ("call", call)) if said}
    row: Row = {
        "kind": "decision",
        "role": "user",
        "text": found.text,
        "tags": [found.rule],
        "refs": list(dict.fromkeys(refs)),
        "data": data,
    }
    return row


class Talk:
    """The last messages of agents, by session, to understand replies to them.

    An importer passes each message and asks about each reply, in their order.
    """

    def __init__(self) -> None:
        self._said: dict[str, list[tuple[str, str]]] = {}

    def begin(self, state: Any) -> None:
        """Begin a file with what `state` kept of it."""
        self._said = {}
        for session, said in state.items() if isinstance(state, dict) else ():
            kept = said if isinstance(said, list) else []
            found = [(one[0], one[1]) for one in kept if _is_pair(one)]
            if found:
                self._said[session] = found

    def state(self) -> dict[str, list[list[str]]]:
        """The last answers, as JSON."""
        return {
            session: [[id_, text[:_KEPT_CHARS]] for id_, text in said]
            for session, said in list(self._said.items())[-_TALKS_KEPT:]
        }

    def answered(self, session: str, id_: str, text: str) -> None:
        """An agent said something."""
        said = self._said.pop(session, [])
        self._said[session] = [(id_, text), *said][:_ANSWERS_KEPT]

    def replied(self, session: str, id_: str, text: str) -> list[Row]:
        """The decisions that a reply makes, without ids. What was said before it is over."""
        said = self._said.pop(session, [])
        if not said or not may_decide(text):
            return []
        found = in_reply(text, [one for _, one in said])
        return [decision_row(one, [id_, *([said[0][0]] if one.of_answer else [])]) for one in found]


def _is_pair(kept: Any) -> bool:
    return isinstance(kept, list) and len(kept) == 2 and all(isinstance(one, str) for one in kept)


def answers_given(given: Any, answer: Any) -> Iterator[Decided]:
    """What the answers to a client's questions decide.

    `given` are the arguments of one of `rows.ASKING` (`questions [{id, question, options [{label,
    description}]}]`), `answer` holds `answers {question: label or own words}`; Codex writes it as
    JSON, with `{id: {answers: [label or own words]}}`.
    """
    answer = _read(answer) if isinstance(answer, str) else answer
    answers = answer.get("answers") if isinstance(answer, dict) else None
    asked = given.get("questions") if isinstance(given, dict) else None
    if not isinstance(asked, list) and isinstance(answer, dict):
        asked = answer.get("questions")
    if not isinstance(asked, list) or not isinstance(answers, dict):
        return
    for one in asked:
        question = short_text(one, "question") if isinstance(one, dict) else ""
        said = (short_text(answers, question) or _under_id(one, answers)) if question else ""
        if not said.strip() or _NEXT.search(question) or said.rstrip().endswith("?"):
            continue
        if _NO_ANSWER.fullmatch(said) is not None:
            continue
        options = one.get("options")
        chosen = [
            option
            for option in (options if isinstance(options, list) else ())
            if isinstance(option, dict) and short_text(option, "label") in said
        ]
        reason = short_text(chosen[0], "description") if len(chosen) == 1 else ""
        words = _CLIENT_LABEL.sub("", said)
        text = f"{_short(question, _SAID_WORDS)} \u2192 {_short(words, 2 * _OPTION_WORDS)}"
        yield Decided(text, "answer", _short(reason, _REASON_WORDS), of_answer=True)


def _read(answer: str) -> Any:
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        return None


def _under_id(asked: dict[str, Any], answers: dict[str, Any]) -> str:
    """What Codex has as the answer to a question, with the note that was added to it."""
    found = answers.get(short_text(asked, "id"))
    given = found.get("answers") if isinstance(found, dict) else None
    said = [one for one in given if isinstance(one, str)] if isinstance(given, list) else []
    return ", ".join(one.removeprefix("user_note: ") for one in said)


def plan_proposed(text: str) -> str:
    """The plan that an agent's answer proposes by Codex's mark, "" for none."""
    found = _PROPOSED.search(text)
    return found["plan"] if found is not None else ""


def plan_accepted(plan: str) -> Decided | None:
    """What an accepted plan decides: its heading and the paragraph that says its goal."""
    plan = plan.strip().removeprefix(PLAN_LEAD).lstrip()
    if not plan:
        return None
    heading, named = heading_of(plan), _GOAL.search(plan)
    found = named or _PARAGRAPH.search(plan)
    goal = (named["text"] if named else found[0]) if found is not None else ""
    goal = _GOAL_LABEL.sub("", " ".join(goal.split()))
    told = ": ".join(part for part in (heading, _short(goal, _GOAL_WORDS)) if part)
    return Decided(f"Plan: {told}", "plan") if told else None


def refused(reason: str, call: str) -> Decided | None:
    """What the reason of a refused call decides: what is to be done instead of `call`."""
    said = _own_words(reason)
    words = meaning_words(said)
    asks = said.rstrip().endswith("?")
    if (
        len(words) < 3
        or asks
        or _DIRECTS.search(said) is None
        or _PROCESS.match(said)
        or _VAGUE.match(said)
        or _only_moves_on(said)
    ):
        return None
    named = _short(call.partition("\n")[0], 8)
    about = f" (to: {named})" if named else ""
    return Decided(f"{_quoted(said)}{about}", "refusal", _reason_in(reason))


def may_decide(reply: str) -> bool:
    """Whether a reply may decide something by what it answers: only then is that looked for."""
    if not begins_decision(reply):
        return False
    said = reply[:REPLY_CHARS].strip()
    forms = (_PICK, _YES, _NO, _IMPLEMENTS)
    return (bool(said) and any(form.match(said) is not None for form in forms)) or len(
        _NUMBERED.findall(said)
    ) > 1


def in_reply(reply: str, answers: Sequence[str]) -> list[Decided]:
    """What a person's reply decides, by the last answers of the agent, the newest first."""
    said = reply[:REPLY_CHARS].strip()
    texts = [_FENCE.sub("\n", one[:_ANSWER_CHARS]) for one in answers if one.strip()]
    if not said or not texts:
        return []
    if _IMPLEMENTS.match(said):
        accepted = plan_accepted(plan_proposed(answers[0]))
        return [] if accepted is None else [accepted._replace(of_answer=True)]
    numbered = _numbered(said, texts[0])
    if numbered:
        return numbered
    for text in texts[:2]:
        found = _pick(said, text)
        if found is not None:
            return [found]
    agreed = _agreed(said, texts[0]) or _corrected(said, texts[0])
    return [agreed] if agreed is not None else []


def offered(answer: str) -> dict[str, str]:
    """The options that an answer offers last, by their keys in capitals; {} for fewer than two."""
    found: dict[str, str] = {}
    before = ""
    for match in _OPTION.finditer(_FENCE.sub("\n", answer[:_ANSWER_CHARS])):
        key = match["key"].upper()
        letters = key.isalpha()
        begins = key in ("A", "1")
        if begins or (found and letters != before.isalpha()):
            found = {}
        if (found or begins) and key not in found and len(found) < _OPTIONS_MAX:
            found[key] = _option_text(match["text"])
        before = key
    return found if len(found) > 1 else {}


def _option_text(text: str) -> str:
    text = text.strip().strip("|").strip()
    cells = [cell.strip() for cell in text.split("|") if cell.strip()]
    text = ": ".join(cells) if len(cells) > 1 else text
    return " ".join(text.replace("**", "").replace("__", "").split())


def _pick(said: str, answer: str) -> Decided | None:
    found = _PICK.match(said)
    if found is None or said.endswith("?"):
        return None
    options = offered(answer)
    key = found["key"].upper()
    option = options.get(key, "")
    rest = said[found.end("key") :]
    if not option or option.endswith("?") or _SECOND_KEY.search(rest) is not None:
        return None
    chooses = _CHOOSES.search(said[: found.start("key")]) or _CHOOSES.search(
        " ".join(rest.split()[:_NEAR_WORDS])
    )
    beside = rest.partition("(")[0]
    if len(beside.split()) > _BEHIND_WORDS and chooses is None:
        return None
    if "?" in beside or _MOVES_ON.match(option) or _MANNER.search(option):
        return None
    shown = _short(_CLIENT_LABEL.sub("", option), _OPTION_WORDS)
    asked = _question_in(answer) or _lead_in(answer)
    about = f"{_short(asked, _SAID_WORDS)} " if asked else ""
    text = f"{about}{_quoted(said)} = {shown}"
    return Decided(text, "pick", _recommended(answer) or _reason_in(said), of_answer=True)


def _numbered(said: str, answer: str) -> list[Decided]:
    """Answers under numbers to questions under the same numbers, two at least."""
    replies = dict(_NUMBERED.findall(said))
    if len(replies) < 2:
        return []
    asked: dict[str, str] = {}
    for number, text in _NUMBERED.findall(answer):
        asked = {} if number == "1" else asked
        asked[number] = _option_text(text)
    found = [
        Decided(
            f"{_short(_matter(asked[number]), _SAID_WORDS)} \u2192 {_short(text, _SAID_WORDS)}",
            "numbered",
            of_answer=True,
        )
        for number, text in replies.items()
        if "?" in asked.get(number, "") and "?" not in text and _UNSURE.match(text) is None
    ]
    return found if len(found) > 1 else []


def _matter(question: str) -> str:
    """The subject of a question: the words before a colon, else the question."""
    label, colon, rest = question.partition(": ")
    return label if colon and rest and 0 < len(label.split()) <= 5 else question


def _agreed(said: str, answer: str) -> Decided | None:
    """A yes to an act that the agent offered, where that settles something of the work."""
    yes = _YES.match(said.partition("\n")[0])
    if yes is None or len(said.split()) > 2 * _BEHIND_WORDS:
        return None
    offers = list(_OFFER.finditer(answer[-1_500:]))
    if not offers:
        return None
    act = " ".join(offers[-1]["act"].replace("**", "").split())
    named = "`" in act or any(word[:1].isalpha() and not word.islower() for word in act.split()[1:])
    if (len(act.split()) < 6 and not named) or _PROCESS.match(act) or _VAGUE.match(act):
        return None
    if _TALKED_ABOUT.search(act) or _VAGUE.match(act.partition(" (")[0]):
        return None
    if " or " in act or len(meaning_words(act)) < 3:
        return None
    return Decided(
        f"Agreed: {_short(act, _OPTION_WORDS)}", "agreed", _recommended(answer), of_answer=True
    )


def _corrected(said: str, answer: str) -> Decided | None:
    no = _NO.match(said.partition("\n")[0])
    if no is None or said.rstrip().endswith("?"):
        return None
    rest = no["rest"]
    if len(rest.split()) < 4 or len(meaning_words(rest)) < 2 or _only_moves_on(rest):
        return None
    asked = _question_in(answer)
    about = f" (to: {_short(asked, _SAID_WORDS)})" if asked else ""
    return Decided(f"{_quoted(said)}{about}", "correction", _reason_in(said), of_answer=bool(asked))


def _only_moves_on(said: str) -> bool:
    found = [one.text for one in sentences_in(said, typed=True)]
    return bool(found) and all(_PROCESS.search(one) or len(meaning_words(one)) < 2 for one in found)


def _question_in(answer: str) -> str:
    """What an answer asks at its end, where that has words of its own; "" else."""
    for one in reversed(sentences_in(answer[-2_000:])[-4:]):
        first = one.text.lstrip("*_ ")[:3].lower()
        if one.text.endswith("?") and first != "or " and len(meaning_words(one.text)) > 2:
            return one.text
    return ""


def _lead_in(answer: str) -> str:
    """The line that leads to the options which an answer offers last, "" where none does."""
    before = lead = ""
    for line in answer.splitlines():
        option = _OPTION.match(line)
        if option is not None and option["key"].upper() in ("A", "1"):
            lead = before
        elif line.strip():
            before = " ".join(line.replace("**", "").replace("__", "").split())
    return lead if lead.endswith(":") and len(meaning_words(lead)) > 2 else ""


def _recommended(answer: str) -> str:
    """The sentence that recommends something; "" for none."""
    for one in sentences_in(answer):
        plain = not one.leads and not one.text.endswith("?") and _OPTION.match(one.text) is None
        if plain and _RECOMMENDS.search(_CLIENT_LABEL.sub("", one.text)) is not None:
            return _short(one.text, _REASON_WORDS)
    return ""


def _reason_in(text: str) -> str:
    found = (one.text for one in sentences_in(text[:REPLY_CHARS], typed=True))
    return next((_short(one, _REASON_WORDS) for one in found if _BECAUSE.search(one)), "")


def _own_words(text: str) -> str:
    """A text without fenced code, in one line."""
    return " ".join(_FENCE.sub(" ", text[:REPLY_CHARS]).split())


def _quoted(said: str) -> str:
    plain = _own_words(said).replace('"', "'")
    return f'"{_short(plain, _SAID_WORDS)}"'


def _short(text: str, words: int) -> str:
    return clipped_words(text.strip(), words)
