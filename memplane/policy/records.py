"""The typed records of the five policy files, and the mistakes that only their own rules find.

budgets.yaml: how many tokens a block and each of its sections may take. channels.yaml and
privacy.yaml: what is stored and masked, what each channel loads and sees. scoring.yaml: what makes
one candidate worth more than another, which words are markers, how `recall` ranks, and the words in
which questions name a time (a table for each language). plane.yaml: reports, lock, sessions, ends
of episodes, index, retention, shared namespaces, hooks, cache prices.

Markers are found at intake. Where an episode ends and how `recall` ranks are rules of people for
what is derived, never for what is stored: under other rules the same log has other episodes.

The defaults of scoring are in memplane's own scoring.yaml and nowhere else: what a plane's file
leaves out is filled in from there (`memplane.policy`), so that its records are built from
complete documents. Those of the episodes are here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from memplane.event import SENSITIVITIES, WISH_MARKER
from memplane.lazy import NamedTuple, late, word_set, word_table
from memplane.policy.document import (
    PERMILLE,
    PPM,
    Fault,
    Json,
    Path,
    filled_record,
    found_value,
    mapping,
    meant,
    parts_per,
    text_items,
    texts_of_list,
    whole_number,
    whole_number as whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memplane.policy import regex_safety as policy_regex_safety
else:
    policy_regex_safety = late("memplane.policy.regex_safety")


# The words by which markers are found where no policy says others; scoring.yaml repeats them.
#
# A phrase of what holds from now on reads much like talk: "always nice to see you", "I never saw
# it", "I want to make sure". So each phrase has a pattern that is tried on the sentence around it,
# which begins behind `^`: an order has its verb there, or behind `when …,` and `please`. What is
# asked, told of others or wanted only once is sorted out elsewhere (`memplane.intake.markers`), for
# all phrases alike.

LINE_STARTS: Final = {
    "decision": ("Decision", "Decided", "Choosing", "Selected"),
    "constraint": ("Constraint", "Requirement", "Must", "Cannot", "Budget", "Limit"),
    "failure": ("Failed", "Error", "Didn't work", "Tried but"),
    "goal": ("Goal", "Objective", "Task", "Need to"),
}

# Where an order begins.
_ORDER: Final = (
    r"(?:^|^(?:when|whenever|if|for|in|before|after|while|unless|once|until|starting)"
    r"\b[^,]{1,120}, ?|\bplease )"
)
_UNASKED: Final = r"(?!.*\?$)"  # a question orders nothing
# "From now on, could you …?" is none.
_NO_QUESTION: Final = r"(?!(?!.*\b(?:can|could|would|will) you\b).*\?$)"
# No verb that orders ends like this: "always working", "never finished", "always gets".
_VERB: Final = (
    r"(?!(?!(?:apply|bring|comply|embed|feed|need|proceed|rely|reply|seed|supply)\b)"
    r"\w+(?:ed|ing|ly)\b)(?!\w+[^su]s\b)\w+"
)
_TALK_OF_ALWAYS: Final = (
    r"(?!(?:a|an|the|my|his|her|their|your|been|had|has|was|were|is|are|have|good|great|nice|fun"
    r"|happy|glad|love|wanted|thought|felt|so|there|here|in|on|at|up|down|with|about|full|ready"
    r"|keen|willing|open|to|something|someone|important|appreciate|enjoy|hard|tough|worth|room"
    r"|special|me|us|you|one|seem|feel|wonder|does|did|do)\b)"
)
_TALK_OF_NEVER: Final = (
    r"(?!(?:a|an|the|mind|been|had|has|was|were|is|ever|really|seen|heard|knew|known|know|thought"
    r"|done|gone|got|gotten|made|met|felt|ran|took|taken|gave|given|lost|found|went|said|told|saw"
    r"|say|quite|too|again|before|once|in|would|could|did|easy|happened|eaten|written|read"
    r"|understood|forgot|gonna|so|that|this|one|my|me|alone|dull|get|gets|seem|at|more"
    r"|underestimate|give up)\b)"
)
_FORBIDDEN: Final = (
    r"(?:ever |just )?(?:use|add|change|touch|edit|modify|remove|delete|create|write|commit"
    r"|push to|run|include|make|put|assume|ask|guess|mention|show|skip|call|rename|install|import"
    r"|implement|generate|explain|format|reply|respond|answer|tell|repeat|suggest|mock|break|rely"
    r"|merge|deploy|refactor|start|do|give me|try to|apologi[sz]e|invent|hardcode|introduce|send"
    r"|remind|translate|summari[sz]e|quote|link)\b(?! (?:it|them|him|her)\W*$)"
)
# What comes then: an order or a wish, not what somebody will do or what will be.
_LATER: Final = (
    r",? (?:(?:I(?:'d| would) (?:like|prefer)|I (?:want|need|prefer)|you|don't|only)\b"
    r"|(?:please )?(?!(?:I|we|he|she|they|it|there|this|that|these|those|the|a|an|my|our|your|his"
    r"|her|their|its|what|how|who|where|when|why|which|is|are|was|were|will|can|could|should|"
    r"would|may|might"
    r"|must|has|have|had|in|on|at|with|to|for|from|and|or|but|as|if|no|not|all|some|more|people"
    r"|everyone|everything|nothing|maybe|perhaps|though|then|than)\b)"
    r"(?!\w+ (?:will|would|is|are|was|were|has|have|had|may|might|could|should|must|can)\b)"
    rf"{_VERB}){_UNASKED}"
)
_DO: Final = (
    r"(?:use|give|show|write|make|add|keep|put|send|call|answer|reply|respond|include"
    r"|cite|list|mark|format|name|number|explain|start|end|leave|ask|tell|check|run|avoid|stop"
    r"|round|sort|sign|address|translate|only|always|never|don't|do not)\b"
)
_ORDERED: Final = r"^(?:please )?" + _DO + r".*"
_EACH: Final = (
    r"^(?:please )?(?:begin|start|open|end|finish|close|sign|write|format|keep|use|put|add|give"
    r"|include)\b[^,]* {0} (?:of your )?(?:answer|reply|response|message|summary|explanation"
    r"|e-?mail|example|function|file|commit|sentence|paragraph)s?\b" + _UNASKED
)
_YOUR_WORK: Final = (
    r"(?:write|give|show|make|add|create|use|answer|reply|respond|suggest|explain|change|edit|run"
    r"|generate|propose|recommend|mention|finish|start|commit|refer|list|translate|quote|cite"
    r"|summari[sz]e|plan|review)\b"
)
_HABIT: Final = r"(?:use|avoid|go with|work|write|keep|choose|stick|opt|run|format|name|start)\b"
_NO_NAME: Final = (
    r"(?!(?:back|when|if|at|on|later|a|an|today|tomorrow|crazy|out|up|to|and|maybe|about|for|in)\b)"
)
_THING: Final = (
    r"(?:file|document|photo|picture|image|screenshot|text|code|script|function|table|chart|list"
    r"|link|data|numbers?|figures?|draft|version|template|form|letter|e-?mail|message|page|notes?"
    r"|one|first|second|third|last|other|following|same|above|below)"
)
# An order that is about a thing at hand is for now.
_PLEASE: Final = (
    r"(?:use (?!(?:this|these|that|those|it|them|his|her|their)\b)"
    rf"(?!(?:the|my|our) (?:\w+ )?{_THING}\b)"
    r"|avoid (?!(?:it|that|this|them)\b)"
    r"|keep (?!(?:going|me|us|on|up|at|in|this|that|these|the|an|working|writing|reading)\b)"
    r"|stop \w+ing\b|refrain\b|stick to\b|speak\b|call me\b|address (?:me|my|us|everyone)\b"
    r"|(?:respond|reply|answer) (?!(?:directly |to |this|that|these|those|the|my|his|her|it|him"
    r"|them|if|when|by|before|with (?:yes|no|ok|the|your|one))\b)\w"
    r"|format (?!(?:this|that|it|these|those|them|the)\b)"
    r"|be (?:(?:more|very|always|as) )?(?:concise|brief|short|direct|honest|blunt|polite|formal"
    r"|informal|casual|critical|explicit|specific|precise|detailed|thorough)\b(?! (?:here|about)\b)"
    r")"
)
_SHAPED: Final = (
    r"(?:in (?!(?:this|that|the)\b)|with (?!(?:yes|no|ok|y|n|done|the|this|that|your|one)\b)|as\b)"
)
_LIKED: Final = (
    r"(?:answers?|responses?|replies|explanations?|examples?|summar(?:y|ies)|code|comments?"
    r"|messages|e-?mails|texts?|prose|tables|lists|diagrams|sentences|paragraphs|proofs|steps"
    r"|sources?|citations?)"
)
_NOT_AT_HAND: Final = (
    r"(?!(?:it|that|this|these|those|him|her|them|the|my|his|your|their|our|how|what|where|when|why"
    r"|who|to|you|being|seeing|going|feeling|any|either|anything|much|very|a|an|one)\b)\w+"
)
_FAVOURITE: Final = (
    r"\bmy (?:\w+ )?{0}\b[^.!?]{{0,60}} (?:is|are)\b"
    r"|\b(?<!it )(?<!that )(?<!this )(?<!he )(?<!she )(?:is|are) my (?:\w+ )?{0}\b"
)

_ALL: Final = r"\bI(?:'d like| would like|'d prefer| prefer| want| need| expect)"
_INSTRUCTION: Final = {
    "always": _ORDER + r"always " + _TALK_OF_ALWAYS + _VERB + _UNASKED + r"|\band always (?:use|add"
    r"|include|keep|write|run|make|check|ask|give|show|put|format|explain|cite|mention|list|respond"
    r"|reply|answer|start|end|follow|verify|test)\b",
    "i always": r"\bI(?:'d| would)? always (?:want|need|expect|like) (?:(?:you to|to (?:see|know"
    rf"|be (?:asked|told|given)))\b|(?:\w+ ){{0,3}}?{_LIKED}\b)" + _UNASKED,
    "all your": _ALL + rf" all your (?:\w+ )?{_LIKED}\b" + _UNASKED,
    "all of your": _ALL + rf" all of your (?:\w+ )?{_LIKED}\b" + _UNASKED,
    "all answers": _ALL + r" all answers\b" + _UNASKED,
    "don't want you": r"\bI don't want you to (?:ever )?" + _FORBIDDEN + _UNASKED,
    "do not want you": r"\bI do not want you to (?:ever )?" + _FORBIDDEN + _UNASKED,
    "never": _ORDER + r"never " + _TALK_OF_NEVER + _VERB + _UNASKED + r"|\band never (?:use|add"
    r"|include|write|run|make|ask|commit|push|delete|touch|change)\b",
    "from now on": r"^(?!(?:I|we|he|she|they|it|that|this)(?:'ll|'m|'re|'s| will| am| are| is| can"
    r"| have| had)\b).*\bfrom now on\b(?!,? (?:I|we|he|she|they|it)(?:'|\b))" + _NO_QUESTION,
    "from here on": r"^from here on(?: out)?" + _LATER,
    "going forward": r"^going forward" + _LATER + r"|" + _ORDERED + r"\bgoing forward\W*$",
    "moving forward": r"^moving forward" + _LATER + r"|" + _ORDERED + r"\bmoving forward\W*$",
    "in future": r"^in future" + _LATER + r"|" + _ORDERED + r"\bin future\W*$",
    "in the future": r"^in the future" + _LATER,
    "i ask": r"\b(?:when|whenever|every time|each time|any ?time|if) I ask\b"
    r"(?! (?:him|her|them|someone|somebody|people|my)\b)" + _UNASKED,
    "i say": r"^(?:when|whenever|every time|each time|any ?time|if) I say\b" + _UNASKED,
    "i tell you": r"\b(?:when|whenever|every time|each time|any ?time|if|unless|until) I tell you\b"
    + _UNASKED,
    "whenever you": r"\bwhenever you " + _YOUR_WORK + _UNASKED,
    "when you": r"^when you " + _YOUR_WORK + r"[^,]{0,80}, (?:please )?" + _DO + _UNASKED,
    "every": _EACH.format("every"),
    "each": _EACH.format("each"),
    "every time you": r"\bevery time you " + _YOUR_WORK + _UNASKED,
    "make sure": r"^(?:please )?make sure (?:to|not to|(?:that )?(?:you|all|every|each|any|no"
    r"|answers|responses|code|dates|tests|names)) \w+" + _UNASKED,
    "don't": _ORDER + r"don't " + _FORBIDDEN + _UNASKED,
    "do not": _ORDER + r"do not " + _FORBIDDEN + _UNASKED,
    "instead of": r"^(?:please )?use (?!of\b).* instead of\b",
    "rather than": r"^(?:please )?use (?!of\b).* rather than\b",
    "please": r"\bplease (?:only |just )?" + _PLEASE + _UNASKED,
    "stop": r"^(?:please )?stop (?!(?:worrying|kidding|joking|lying|crying|being)\b)\w+ing\b"
    + _UNASKED,
    "only": r"^(?:please )?only (?:use|ever|recommend|suggest|mention|list|cite|quote|include"
    r"|show|give|return|write|answer|respond|reply|edit|change|touch|commit|run|make|do)\b"
    + _UNASKED,
    "avoid": r"^(?:please )?avoid (?!\w+ed\b)\w+" + _UNASKED,
    "call me": r"^(?:please |just )?call me " + _NO_NAME + r"\w+",
    "respond": r"^(?:please )?respond (?:only |always |to me )?" + _SHAPED + _UNASKED,
    "reply": r"^(?:please )?reply (?:only |always |to me )?" + _SHAPED + _UNASKED,
    "answer": r"^(?:please )?answer (?:only |always |me )?" + _SHAPED + _UNASKED,
    "concise": r"^(?:please )?(?:be|stay) (?:more |very )?concise\b",
    "remember": r"^(?:please )?remember (?:to (?:always|never)|that (?:I|my|we|our)\b)",
    "keep in mind": r"^(?:please )?keep in mind (?:that )?(?:I|my|we|our)\b",
    "at all times": r"^(?!I\b|we\b).*\bat all times\b" + _UNASKED,
    "under no circumstances": r"\bunder no circumstances\b",
    "by default": r"^by default,? (?:please|always|never|use|show|write|give|answer|reply"
    r"|I(?:'d| would) (?:like|prefer)|I (?:want|need|prefer))\b",
}
_PREFERENCE: Final = {
    "prefer": r"\b(?:I|we)(?:'d| would| do| also| still| really| strongly| generally| usually"
    r"| personally| always| much| definitely| actually| just){0,3} prefer\b",
    "preference": r"\bmy (?:\w+ )?preference\b"
    r"|\b(?:have|having|with|set|given|was|is) a (?:\w+ )?preference for\b",
    "preferences": r"\bmy (?:\w+ )?preferences (?:is|are|for|when)\b",
    "preferred": r"\bmy preferred\b",
    "rather": r"\bI(?:'d| would)(?: much| really| probably| just| still)? rather\b",
    "i like": r"\bI like (?:to use|using|to work with|working with|to keep|to have|it when"
    rf"|when you|my |(?!(?:your|the|this|that|these|those|his|her)\b)(?:\w+ ){{1,2}}?{_LIKED}\b)",
    "i don't like": r"\bI don't(?: really| much)? like (?:(?:it )?when you|using|having|to use"
    r"|to have|to be|being|(?:\w+ ){0,2}?"
    + _LIKED
    + r")\b|\bI don't(?: really| much)? like "
    + _NOT_AT_HAND,
    "i do not like": r"\bI do not (?:really |much )?like " + _NOT_AT_HAND,
    "really like": r"\bI really like (?:to use|using|it when|when you)\b",
    "i hate": r"\bI hate (?:it )?(?:when|using|having|to use)\b",
    "i dislike": r"\bI dislike\b",
    "can't stand": r"\bI can't stand\b",
    "favorite": _FAVOURITE.format("favorite"),
    "favourite": _FAVOURITE.format("favourite"),
    "my go-to": r"\bmy go-to\b",
    "i always": r"\bI always " + _HABIT,
    "i never": r"\bI never (?:use|work|write|keep|choose|run|want|start|buy|eat|drink)\b",
    "i usually": r"\bI usually " + _HABIT,
    "i tend to": r"\bI tend to (?:use|avoid|go with|work|write|keep|choose|stick|opt|like|favou?r"
    r"|prefer)\b",
    "stick with": r"\bI(?:'ll| will|'d like to|'m going to| want to) stick with\b",
    "best for me": r"\b(?:works?|suits?|is|are) best for me\b",
    "better for me": r"\b(?:works?|suits?|is|are) better for me\b",
    "suits me": r"\bsuits me\b",
    "fan of": r"\bI(?:'m| am) (?:not )?(?:a |much of a )?(?:big |huge )?fan of\b",
    "most comfortable": r"\bI(?:'m| am) most comfortable\b",
    "more comfortable": r"\bI(?:'m| am) more comfortable\b",
}
# What a user wants of the work at hand, or suggests. Words that were fitted to some sessions carry
# over to others at a precision of 78 %: so it marks a turn, and lifts nothing.
_WISH: Final = {
    "should": r"(?<!\bhow )(?<!\bwhat )\b\w+ (?:also |really |probably |then |only |always "
    r"|rather |just ){0,2}should(?:n't| not)? (?!(?:already|have been|i|we|you)\b|be (?:the"
    r" case|fine|ok(?:ay)?|good|true|there|done|able|possible|working)\b)(?!(?:also |just |now"
    r" )?(?:commit|push|rebase|merge|look|check|review|run|test|debug|investigate|discuss|see"
    r"|start|continue|proceed|wait|go|focus)\b)\w+(?!.*\?$)",
    "instead": r"\w+ \S+ .*\binstead\b(?! of (?:fix|fail))(?!.*\?$)",
    "rather than": r"\brather than\b(?!.*\?$)",
    "would rather": r"\b(?:i|we)(?:'d| would) rather\b",
    "let's": r"\blet's (?:first |also |just |maybe |then |rather |only ){0,3}(?:use|keep|make"
    r"|add|call|have|drop|remove|store|leave|avoid|stick|prefix|rename|put|change|show|move"
    r"|name|skip|limit|include|allow|simplify|extract|reuse|not|go (?:with|for)|set|log|return"
    r"|default)\b",
    "i want": r"\bi (?:do |also |really |just )?want (?:to (?:have|use|keep|show|see|be"
    r"|include|make|avoid|only)|it|this|the|us|that|all|only)\b(?!.*\?$)",
    "we want": r"\bwe (?:do |also |really |just |only )?want (?:to (?:have|use|keep|show|see"
    r"|be|include|make|avoid|only)|it|this|the|that|all|only)\b(?!.*\?$)",
    "don't want": r"\b(?:i|we) (?:don't|do not) (?:want|need)\b(?!.*\?$)",
    "no need": r"\b(?:no need (?:to|for)|not worth)\b(?!.*\?$)",
    "get rid of": r"\bget rid of\b",
    "make sure": r"\bmake sure\b(?!.*\?$)",
    "ensure": r"(?:^|\bplease |, |\band )ensure\b(?!.*\?$)",
    "we need to": r"\bwe (?:also |only |still ){0,3}need to (?!(?:be|look|check|see|fix"
    r"|understand|figure|find|talk|discuss|commit|push|rebase|merge|test|run|update"
    r" this)\b)\w+(?!.*\?$)",
    "must": r"\b\w+ must(?:n't| not)? (?!be (?:a|the|wrong|broken)\b|have been)\w+(?!.*\?$)",
    "can we": r"\bcan(?:'t| not)? we (?:also |just |maybe |then |rather |easily |at least "
    r"|simply |please ){0,3}(?!(?:look|check|tell|see|debug|figure|distinguish|detect|run|find"
    r"|test|verify|write|start|try|know|say|go|assume|discuss|talk|fix|commit|push|merge"
    r"|review|double|triple|do (?:this|it|that)\b)\b)\w+ \w+",
    "could we": r"\bcould(?:n't)? we (?:also |just |maybe |then |rather |easily |at least "
    r"|simply |please ){0,3}(?!(?:look|check|tell|see|debug|figure|distinguish|detect|run|find"
    r"|test|verify|write|start|try|know|say|go|assume|discuss|talk|fix|commit|push|merge"
    r"|review|do (?:this|it|that)\b)\b)\w+ \w+",
    "we could": r"\b(?:wonder(?:ing)?(?: now)? if|maybe|perhaps) we could (?!(?:look|check|see"
    r"|try|find)\b)\w+",
    "we should": r"\b(?:wonder(?:ing)?(?: now)? if|maybe|perhaps|think) we should (?!(?:look"
    r"|check|see|try|find|commit|push|focus|start)\b)\w+",
    "not worth": r"\bnot worth \w+ing\b",
    "that's why": r"\bthat's why (?:we|i|it)\b(?!.*\?$)",
    "on purpose": r"\bon purpose\b(?!.*\?$)",
    "intentional": r"\bintentional(?:ly)?\b(?!.*\?$)",
    "need to accept": r"\bneed to accept that\b",
    "for now": r"\b(?:just|only|keep) (?:[\w ]{2,40} )?for now\b",
    "swap": r"^(?:please |ok,? |and |now |then |also ){0,3}(?:swap|rename|replace|drop)"
    r" (?!(?:it|this|that|them)\b)\S+",
    "only": r"^only (?!(?:if|when|one|a few)\b)\w+ \w+ \w+",
}
STANDING: Final = {
    "custom:instruction": _INSTRUCTION,
    "custom:preference": _PREFERENCE,
    WISH_MARKER: _WISH,
}


# Their test stands for them: a plane that is opened for the first time need not wait for it.
_KNOWN: Final = frozenset(pattern for row in STANDING.values() for pattern in row.values())


class Markers(NamedTuple):
    """The markers that intake looks for in events without any; nothing unless `detect`.

    `line_starts`: marker -> words before a colon at the beginning of a line. `standing`: marker ->
    phrase -> the pattern that decides, in the sentence around the phrase, whether it is meant; an
    empty pattern switches the phrase off. None of them depends on case.
    """

    detect: bool = True
    line_starts: dict[str, tuple[str, ...]] = LINE_STARTS
    standing: dict[str, dict[str, str]] = STANDING


def build_markers(document: Json) -> Markers:
    """Build the record from a whole `markers` without mistakes."""
    detect = document["detect"]
    if not isinstance(detect, bool):
        raise TypeError(f"expected true or false, found {detect!r}")
    return Markers(
        detect,
        {
            marker: texts_of_list(words)
            for marker, words in mapping(document["line_starts"]).items()
        },
        {marker: _patterns(row) for marker, row in mapping(document["standing"]).items()},
    )


def _patterns(row: object) -> dict[str, str]:
    found = mapping(row)
    for pattern in found.values():
        if not isinstance(pattern, str):
            raise TypeError(f"expected a pattern, found {pattern!r}")
    return found


def normal(word: str) -> str:
    """Return a word of a table as texts are looked through for it: small, with plain quotes."""
    return word.replace("\u2019", "'").lower().strip(" :")


def marker_faults(document: Any) -> Iterator[Fault]:
    """Name what the schema cannot see: a word under two markers, a pattern of no use."""
    if not isinstance(document, dict):
        return
    starts, standing = document.get("line_starts"), document.get("standing")
    first: dict[str, str] = {}
    for marker, words in starts.items() if isinstance(starts, dict) else ():
        for position, word in text_items(words, policy_regex_safety.PATTERNS_MAX):
            owner = first.setdefault(normal(word), marker)
            if owner != marker:
                why = f"expected under one marker, found {found_value(word)} in `{owner}` too"
                yield Fault(("markers", "line_starts", marker, position), why)
    for marker, row in standing.items() if isinstance(standing, dict) else ():
        for phrase, pattern in (
            list(row.items())[: policy_regex_safety.PATTERNS_MAX] if isinstance(row, dict) else ()
        ):
            if not isinstance(pattern, str) or pattern in _KNOWN:
                continue
            # An empty one is none, and of one that is too long the schema says so.
            usual = 0 < len(pattern) <= policy_regex_safety.CHARACTERS_MAX
            why = (
                policy_regex_safety.pattern_mistake(_whole(pattern), policy_regex_safety.SENTENCE)
                if usual
                else ""
            )
            if why:
                why = f"expected a regular expression, found {found_value(pattern)}: {why}"
                yield Fault(("markers", "standing", marker, phrase), why)


def _whole(pattern: str) -> str:
    """The pattern as it is used, so that what only case keeps apart is judged as one."""
    return pattern if pattern.startswith("(?i)") else f"(?i){pattern}"


# The words with which people end a matter, in English.
_ENDING: Final = r"(?i)\b(done|finished|complete|thanks|thank you)\b"


class EpisodeRules(NamedTuple):
    """When an episode ends: after so many turns, a silence, a tool's result, words in a turn.

    0 turns and 0 seconds switch these two off. A turn that comes more than `gap_seconds` after the
    one before it opens the next episode; the other rules end the episode of the turn itself.
    """

    max_turns: int = 40
    gap_seconds: int = 1_800
    close_on_tool_result: bool = False
    close_on_patterns: tuple[str, ...] = ()

    @property
    def variant(self) -> str:
        """What names the rules: other rules, another fold of the same log."""
        return hashlib.sha256(json.dumps(self).encode()).hexdigest()[:16]


CHAT: Final = EpisodeRules(6, 1_800, close_on_tool_result=True, close_on_patterns=(_ENDING,))
AGENT: Final = EpisodeRules()
EPISODE_PROFILES: Final = {"chat": CHAT, "agent": AGENT, "none": EpisodeRules(0, 0)}


def build_episode_rules(document: Json) -> EpisodeRules:
    """Build the rules of `episodes` in plane.yaml, a document without mistakes."""
    rules = {name: value for name, value in document.items() if name != "profile"}
    return filled_record(EPISODE_PROFILES[str(document.get("profile", "agent"))], rules)


def episode_faults(document: Json) -> Iterator[Fault]:
    """Name patterns of `episodes` that do not compile, or that can take for ever."""
    episodes = document.get("episodes")
    if isinstance(episodes, dict):
        yield from policy_regex_safety.pattern_faults(
            ("episodes", "close_on_patterns"), episodes.get("close_on_patterns")
        )


RECALL_PROFILES: Final = ("acms-v2", "acms-v1")


class EpisodeFirstProfile(NamedTuple):
    """`acms-v2`: the current episode first, then marked turns, then what was found and facts.

    `episode_ppm`: the most that the episode takes, in millionths of the budget.
    `carry_last_turns`: so many of the last turns of the episode before count as the current one's.
    A marker `custom:<name>` weighs what `custom` does; weights are in thousandths.
    """

    marker_weights: dict[str, int]
    episode_ppm: int
    carry_last_turns: int


class BlendedProfile(NamedTuple):
    """`acms-v1`: relevance, recency and coherence together, all in thousandths.

    Recency halves in `half_life_hours`; coherence is the part of the candidates that are of the
    same episode.
    """

    relevance: int
    recency: int
    half_life_hours: int
    coherence: int


class RecallProfiles(NamedTuple):
    """The two ways in which `recall` chooses; see `memplane.recall.profiles`."""

    episode_first: EpisodeFirstProfile
    blended: BlendedProfile


def build_recall_profiles(document: Json) -> RecallProfiles:
    """Build the records of `profiles` in scoring.yaml, a whole document without mistakes."""
    first, blended = mapping(document["acms-v2"]), mapping(document["acms-v1"])
    return RecallProfiles(
        EpisodeFirstProfile(
            {
                name: parts_per(weight, PERMILLE)
                for name, weight in mapping(first["marker_weights"]).items()
            },
            parts_per(first["current_episode"], PPM),
            whole(first["carry_last_turns"]),
        ),
        BlendedProfile(
            parts_per(blended["relevance"], PERMILLE),
            parts_per(blended["recency"], PERMILLE),
            whole(blended["recency_half_life_hours"]),
            parts_per(blended["coherence"], PERMILLE),
        ),
    )


# What a phrase may mean, and the units that are counted.
RELATIVE: Final = word_table("""
    today yesterday before_yesterday this_week last_week this_month last_month this_year last_year
""")
UNITS: Final = ("day", "week", "month")
_ROW: Final = "|"  # between names of one month or weekday
_PART: Final = re.compile(r"\{(n|unit)\}")


class TimeWords(NamedTuple):
    """The words of one language, in small letters.

    `relative` and `units`: phrases for each of `RELATIVE` and `UNITS`. `months` and `weekdays`:
    their names in order, from January and from Monday. `numbers`: words for counts. `ago` and
    `past`: frames with `{n}` and `{unit}`. `before_dates` may stand before a date; names in
    `ambiguous` count as a month only behind one of these. `idle`: words that ask for nothing.
    """

    relative: tuple[tuple[str, tuple[str, ...]], ...]
    last_session: tuple[str, ...]
    session_before: tuple[str, ...]
    months: tuple[tuple[str, ...], ...]
    weekdays: tuple[tuple[str, ...], ...]
    units: tuple[tuple[str, tuple[str, ...]], ...]
    numbers: tuple[tuple[str, int], ...]
    ago: tuple[str, ...]
    past: tuple[str, ...]
    since: tuple[str, ...]
    before_dates: tuple[str, ...]
    ambiguous: tuple[str, ...]
    idle: tuple[str, ...]


def build_times(document: Json) -> tuple[TimeWords, ...]:
    """Build the tables from a document without mistakes, in the order of the languages' names."""
    return tuple(_build(mapping(table)) for _, table in sorted(document.items()))


def time_faults(document: object) -> Iterator[Fault]:
    """Name what the schema cannot see: missing names, frames without a place for the number."""
    if not isinstance(document, dict):
        return
    for language, table in document.items():
        if not isinstance(table, dict):
            continue
        for name, count in (("months", 12), ("weekdays", 7)):
            names = table.get(name)
            if isinstance(names, list) and len(names) != count:
                why = f"expected {count} names in order, found {len(names)}"
                yield Fault(("times", language, name), why)
        for name in ("ago", "past"):
            frames = table.get(name, [])
            for at, frame in enumerate(frames if isinstance(frames, list) else ()):
                if isinstance(frame, str) and _frame_parts(frame) != ["n", "unit"]:
                    why = f"expected one {{n}} and then one {{unit}}, found {found_value(frame)}"
                    yield Fault(("times", language, name, at), why)


def _frame_parts(frame: str) -> list[str]:
    return _PART.findall(frame)


def _build(table: Json) -> TimeWords:
    def phrases(name: str) -> tuple[str, ...]:
        return tuple(text.lower() for text in texts_of_list(table.get(name, [])))

    def names(name: str) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(row.split(_ROW)) for row in phrases(name))

    units = mapping(table.get("units", {}))
    numbers = mapping(table.get("numbers", {}))
    return TimeWords(
        relative=tuple((name, phrases(name)) for name in RELATIVE),
        last_session=phrases("last_session"),
        session_before=phrases("session_before"),
        months=names("months"),
        weekdays=names("weekdays"),
        units=tuple((name, texts_of_list(units.get(name, []))) for name in UNITS),
        numbers=tuple(sorted((word.lower(), whole_number(n)) for word, n in numbers.items())),
        ago=phrases("ago"),
        past=phrases("past"),
        since=phrases("since"),
        before_dates=phrases("before_dates"),
        ambiguous=phrases("ambiguous"),
        idle=phrases("idle"),
    )


NO_EMBEDDER: Final = "none"
OWN_ENGINE: Final = "own"  # the search engine that is memplane's index
ALL_AGENTS: Final = "/agent/*"


class CachePrices(NamedTuple):
    """What a provider's prompt cache asks, for the costs in reports; a fresh token costs 1,000.

    `marks`: how many the caller may set; 0 where the provider finds the prefix by itself, in steps
    of `step_tokens`. Nothing shorter than `minimum_tokens` is kept.
    """

    write: int = 1_250  # thousandths of a fresh token
    read: int = 100
    minimum_tokens: int = 1_024
    marks: int = 4
    step_tokens: int = 1


class AnswerRule(NamedTuple):
    """When a prompt is answered: see `recall.gate`.

    `when`: relevant, always or never. Relevant: the prompt shares at least `matched` content words
    with the best passage, and `new_percent` of its rare words that the memory holds are new to the
    session; or it holds a question word and both figures reach `asked_matched` and
    `asked_new_percent`, or it names an identifier that the memory holds. `cosine_percent`: or, with
    vectors of the plane's embedder, two content words match, `asked_new_percent` is reached, and a
    remembered text is as near; 0: words alone. `passages`: the most that are said.
    """

    when: str = "relevant"
    matched: int = 4
    new_percent: int = 40
    asked_matched: int = 3
    asked_new_percent: int = 75
    cosine_percent: int = 0
    passages: int = 3


class ToolRule(NamedTuple):
    """Whether a hook speaks where a tool failed or worked on a file: see `recall.gate`.

    `when`: relevant or never. `tokens`: the most of one answer; `answers`: the most in a session.
    """

    when: str = "never"
    tokens: int = 80
    answers: int = 10


class Hooks(NamedTuple):
    """What `memplane hook` gives to a coding agent, and how long it may take.

    `start_tokens`: the most where a session begins or was compacted; `prompt_tokens`: at a prompt,
    0 for nothing; `answer`: when a prompt is answered; `tool`: whether something is said at a tool.
    `characters_max`: the most of any; clients cut at 10,000. `wait_ms`: how long it waits for the
    log before it leaves an event to the spool. `milliseconds_max`: then it ends, whatever it is at.
    `exclude`: globs of folders of which nothing is recorded or answered.
    """

    channel: str = "agent"
    start_tokens: int = 1_000
    prompt_tokens: int = 300
    characters_max: int = 9_500
    wait_ms: int = 300
    milliseconds_max: int = 4_000
    exclude: tuple[str, ...] = ()
    answer: AnswerRule = AnswerRule()  # a tuple, whose fields nobody changes
    tool: ToolRule = ToolRule()  # likewise


class PlanePolicy(NamedTuple):
    """How many reports are kept, how long a writer waits for the lock, where a session ends.

    `tool_result_tokens`: the first and the last so many of a tool result are indexed. `embedder`
    is the name of what makes vectors of texts, NO_EMBEDDER for nothing; `engine` that of what finds
    events for a query, OWN_ENGINE or one of `memplane.index.engine`. `shared`: namespaces of
    agents that all agents read; ALL_AGENTS among them means every one. `keep_days` and `keep_mb`:
    for how long, and how much of, tool results of old sessions stay; 0 for all of them. `head`:
    what an agent states stands in the head at once (`any`), or once a user has confirmed it
    (`confirmed`). `contradictions`: `flag`, `ask` or `off`. `catch_up_ms`: how long reading waits
    for a shared log; `publish_ms`: how long recording does before it goes to the outbox.
    """

    reports_keep: int = 500
    lock_wait_ms_max: int = 5_000
    session_gap_minutes: int = 30
    session_summary_tokens_max: int = 200
    tool_result_tokens: int = 200
    embedder: str = NO_EMBEDDER
    engine: str = OWN_ENGINE
    shared: tuple[str, ...] = ()
    cache: CachePrices = CachePrices()  # a tuple, whose fields nobody changes
    hooks: Hooks = Hooks()  # likewise
    keep_days: int = 0
    keep_mb: int = 0
    episodes: EpisodeRules = AGENT  # likewise
    head: str = "any"
    contradictions: str = "flag"
    catch_up_ms: int = 500
    publish_ms: int = 5_000


def build_plane_policy(document: Json) -> PlanePolicy:
    """Build the record from a document without mistakes."""
    given = {
        field: mapping(document[part])[name]
        for field, (part, name) in _PLANE_KEYS.items()
        if name in mapping(document.get(part, {}))
    }
    if "hooks" in document:
        given["hooks"] = document["hooks"]
    return filled_record(PlanePolicy(), given)._replace(
        cache=_cache(mapping(document.get("prompt_cache", {}))),
        episodes=build_episode_rules(mapping(document.get("episodes", {}))),
    )


# Where the fields of `PlanePolicy` stand in plane.yaml.
_PLANE_KEYS: Final = {
    "reports_keep": ("reports", "keep"),
    "lock_wait_ms_max": ("log", "lock_wait_ms_max"),
    "session_gap_minutes": ("sessions", "gap_minutes"),
    "session_summary_tokens_max": ("sessions", "summary_tokens_max"),
    "tool_result_tokens": ("index", "tool_result_tokens"),
    "embedder": ("index", "embedder"),
    "engine": ("index", "engine"),
    "shared": ("namespaces", "shared"),
    "keep_days": ("keep", "tool_result_days"),
    "keep_mb": ("keep", "tool_result_mb"),
    "head": ("statements", "head"),
    "contradictions": ("statements", "contradictions"),
    "catch_up_ms": ("shared", "catch_up_ms"),
    "publish_ms": ("shared", "publish_ms"),
}


def _cache(given: Json) -> CachePrices:
    prices = {name: parts_per(given[name], PERMILLE) for name in ("write", "read") if name in given}
    return filled_record(CachePrices(), given | prices)


def plane_faults(document: Json) -> Iterator[Fault]:
    """Name what the schema cannot see: patterns, and vectors that are asked for without any."""
    yield from episode_faults(document)
    hooks, index = document.get("hooks"), document.get("index")
    answer = hooks.get("answer") if isinstance(hooks, dict) else None
    wanted = answer.get("cosine_percent") if isinstance(answer, dict) else 0
    named = index.get("embedder", NO_EMBEDDER) if isinstance(index, dict) else NO_EMBEDDER
    if type(wanted) is int and 0 < wanted <= 100 and named == NO_EMBEDDER:
        yield Fault(
            ("hooks", "answer", "cosine_percent"),
            "needs vectors: expected 0, or an embedder in index.embedder (all-MiniLM-L6-v2 is in "
            "the extra [dense])",
        )


_SHARED: Final = ("views/identity.md", "views/rules.project.md")


class Channels(NamedTuple):
    """The channels and their views, both in the order of the file."""

    views: dict[str, tuple[str, ...]] = {  # noqa: RUF012 - read only
        "private": (*_SHARED, "views/preferences.md"),
        "public": _SHARED,
        "team": _SHARED,
        "agent": _SHARED,
    }

    def known(self, channel: str) -> bool:
        """Say whether the policy has this channel."""
        return channel in self.views

    def default_views(self, channel: str) -> tuple[str, ...]:
        """Return the views that the channel loads; none for an unknown one."""
        return self.views.get(channel, ())


def build_channels(document: Json) -> Channels:
    """Build the record from a document without mistakes."""
    rows = document.get("channels")
    if rows is None:
        return Channels()
    if not isinstance(rows, list):
        raise TypeError(f"expected a list, found {type(rows).__name__}")
    views: dict[str, tuple[str, ...]] = {}
    for row in rows:
        name = mapping(row)["name"]
        if not isinstance(name, str):
            raise TypeError(f"expected the name of a channel, found {name!r}")
        views[name] = texts_of_list(row.get("default_load_views", []))
    return Channels(views)


def channel_faults(document: Json) -> Iterator[Fault]:
    """Name the channels that stand there twice."""
    rows = document.get("channels")
    first: dict[str, int] = {}
    for position, row in enumerate(rows if isinstance(rows, list) else ()):
        name = row.get("name") if isinstance(row, dict) else None
        if isinstance(name, str) and first.setdefault(name, position) != position:
            what = f"expected a name of its own, found {found_value(name)}"
            message = f"{what}, which `channels[{first[name]}]` has"
            yield Fault(("channels", position, "name"), message)


def channel_names(document: object) -> tuple[str, ...] | None:
    """Return the names of a document that may have mistakes, None where one cannot be read."""
    if not isinstance(document, dict):
        return None
    rows = document.get("channels", [{"name": name} for name in Channels().views])
    found = [
        row.get("name") if isinstance(row, dict) else None
        for row in (rows if isinstance(rows, list) else [None])
    ]
    texts_only = tuple(name for name in found if isinstance(name, str))
    return texts_only if len(texts_only) == len(found) else None


class ChannelRule(NamedTuple):
    """What a channel does not see, whatever the request says."""

    suppress_sensitivity: tuple[str, ...] = ()
    suppress_views: tuple[str, ...] = ()
    suppress_kinds: tuple[str, ...] = ()


# Applies to a channel without a rule where `agent` has none either.
_CAREFUL: Final = ChannelRule(("high", "secret"))
_RULES: Final = {
    "public": ChannelRule(("high", "secret"), ("views/preferences.md",)),
    "private": ChannelRule(("secret",)),
    "team": _CAREFUL,
    "agent": _CAREFUL,
}


class Privacy(NamedTuple):
    """What may be stored and shown. `rules` holds them as written, `rule` says what applies."""

    never_store_kinds: tuple[str, ...] = ("secret",)
    redact_patterns: tuple[str, ...] = (
        r"""(?i)\bapi_key\s*[:=]\s*["']?(?=[\w./+-]*\d)[\w./+-]{8,}""",
        r"""(?i)password\s*[:=]\s*["']?(?!\*{3})(?!0x[0-9a-f]{1,16}\b)(?=[^\s"'`,;(){}\[\]<>$]*\d)[^\s"'`,;(){}\[\]<>$]{6,}""",
    )
    rules: dict[str, ChannelRule] = _RULES

    def rule(self, channel: str) -> ChannelRule:
        """Return the channel's rule, else `agent`'s; `secret` is suppressed whatever it says."""
        return _applied(self.rules.get(channel, self.rules.get("agent", _CAREFUL)))


@lru_cache(maxsize=64)
def _applied(rule: ChannelRule) -> ChannelRule:
    hidden = {*rule.suppress_sensitivity, "secret"}
    return rule._replace(suppress_sensitivity=tuple(s for s in SENSITIVITIES if s in hidden))


_PRIVACY_DEFAULT: Final = Privacy()


def build_privacy(document: Json) -> Privacy:
    """Build the record from a document without mistakes."""
    store = mapping(document.get("store", {}))
    load = mapping(document.get("load", {}))
    never = store.get("never_store_kinds")
    patterns = store.get("redact_patterns")
    rules = load.get("channel_rules")
    return Privacy(
        _PRIVACY_DEFAULT.never_store_kinds if never is None else texts_of_list(never),
        _PRIVACY_DEFAULT.redact_patterns if patterns is None else texts_of_list(patterns),
        dict(_RULES)
        if rules is None
        else {n: _rule(mapping(r)) for n, r in mapping(rules).items()},
    )


def _rule(row: Json) -> ChannelRule:
    return ChannelRule(**{name: texts_of_list(hidden) for name, hidden in row.items()})


def privacy_faults(document: Json) -> Iterator[Fault]:
    """Name what the schema cannot see: patterns that do not compile, or that can blow up."""
    store = document.get("store")
    if isinstance(store, dict):
        yield from policy_regex_safety.pattern_faults(
            ("store", "redact_patterns"), store.get("redact_patterns")
        )


def unknown_channels(document: Json, channels: tuple[str, ...]) -> Iterator[Fault]:
    """Name the rules of channels that channels.yaml does not have.

    Standard channels may have rules before, or after, the policy has them.
    """
    load = document.get("load")
    rules = load.get("channel_rules") if isinstance(load, dict) else None
    for name in rules if isinstance(rules, dict) else ():
        if name not in channels and name not in _RULES:
            listed = ", ".join(f"`{channel}`" for channel in channels)
            hint = meant(name, channels)
            message = (
                f"expected a channel of channels.yaml ({listed}), found {found_value(name)}{hint}"
            )
            yield Fault(("load", "channel_rules", name), message)


_LONE_PART: Final = 10
# Shares in a block for who has to find his way, in millionths, where the policy names none.
_ORIENT: Final = {
    "identity": 40_000,
    "rules": 80_000,
    "system_map": 90_000,
    "task_state": 170_000,
    "relevant_decisions": 210_000,
    "knowledge_cards": 110_000,
    "recent_window": 220_000,
    "tool_state": 40_000,
    "retrieved_evidence": 40_000,
    "expansions": 0,
}


class SectionBudget(NamedTuple):
    """One section of a block; `weight` is its share in millionths, relative to the others."""

    name: str
    max_tokens: int
    priority: int
    weight: int
    views: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    without_session: int | None = None  # the weight where the policy names another one for that
    orient: int | None = None  # likewise

    def weight_of(self, *, lone: bool, orient: bool = False) -> int:
        """The weight; `lone` in a block for a query without a session, `orient` to find one's way.

        Of the two, orient decides.
        """
        if orient:
            return _ORIENT.get(self.name, self.weight) if self.orient is None else self.orient
        if not lone:
            return self.weight
        if self.without_session is not None:
            return self.without_session
        if self.name == "system_map":  # no answer to a question
            return 0
        # Without a session the window shows the newest events of whoever wrote last.
        return self.weight // _LONE_PART if self.name == "recent_window" else self.weight


class Limits(NamedTuple):
    """What one pack may look at and take, beside tokens."""

    hotset_max_events: int = 200
    candidate_pool_max: int = 2_000
    retrieved_chunks_max: int = 200
    chunk_max_tokens: int = 400
    decisions_max: int = 100
    cards_max: int = 6
    file_reads_max: int = 20
    bytes_read_max: int = 8_000_000
    index_behind_max: int = 5_000
    sessions_read_max: int = 16
    session_lines_max: int = 1_000


# Everything that memplane itself can put into a block; any other section is the owner's own.
STANDARD: Final = (
    SectionBudget("identity", 1_200, 10, 40_000),
    SectionBudget("rules", 6_000, 9, 100_000),
    SectionBudget("task_state", 3_000, 9, 60_000),
    SectionBudget("relevant_decisions", 8_000, 8, 90_000),
    SectionBudget("knowledge_cards", 2_000, 8, 50_000),
    SectionBudget("retrieved_evidence", 28_000, 7, 320_000),
    SectionBudget("recent_window", 12_000, 6, 280_000),
    SectionBudget("tool_state", 2_000, 6, 40_000),
    SectionBudget("system_map", 800, 5, 20_000),
    SectionBudget("expansions", 8_000, 4, 0),
)
_SHARES: Final = frozenset(("share", "share_without_session", "share_orient"))
_STANDARD_NAMES: Final = frozenset(section.name for section in STANDARD)


class Budgets(NamedTuple):
    """The budget of a block.

    Sections keep the order of the file; standard ones that it leaves out follow with their
    defaults. `by_priority`: the sections of a file that names no share: the priorities divide
    what the others, with their shares, leave.
    """

    acb_total_max_tokens: int = 65_000
    reserve_tokens: int = 5_000
    default_pack_tokens: int = 4_000
    counter: str = "bound/1"
    scale_ppm: int = PPM
    sections: tuple[SectionBudget, ...] = STANDARD
    limits: Limits = Limits()
    by_priority: tuple[str, ...] = ()

    def section(self, name: str) -> SectionBudget | None:
        """Return the section of that name, None where the policy has none."""
        for section in self.sections:
            if section.name == name:
                return section
        return None


_BUDGETS_DEFAULT: Final = Budgets()


def build_budgets(document: Json) -> Budgets:
    """Build the record from a document without mistakes."""
    counter = document.get("counter", _BUDGETS_DEFAULT.counter)
    if not isinstance(counter, str):
        raise TypeError(f"expected the name of a counter, found {counter!r}")
    limits = mapping(document.get("limits", {}))
    sections = mapping(document.get("sections", {}))
    return Budgets(
        whole_number(document.get("acb_total_max_tokens", _BUDGETS_DEFAULT.acb_total_max_tokens)),
        whole_number(document.get("reserve_tokens", _BUDGETS_DEFAULT.reserve_tokens)),
        whole_number(document.get("default_pack_tokens", _BUDGETS_DEFAULT.default_pack_tokens)),
        counter,
        parts_per(document.get("scale", 1), PPM),
        _sections(sections),
        filled_record(Limits(), limits),
        () if any(_SHARES & mapping(row).keys() for row in sections.values()) else tuple(sections),
    )


def _sections(sections: Json) -> tuple[SectionBudget, ...]:
    caps = {name: whole_number(mapping(row)["max_tokens"]) for name, row in sections.items()}
    total = max(1, sum(caps.values()))
    named = tuple(
        SectionBudget(
            name,
            caps[name],
            whole_number(row["priority"]),
            parts_per(row["share"], PPM) if "share" in row else caps[name] * PPM // total,
            texts_of_list(row.get("views", [])),
            texts_of_list(row.get("kinds", [])),
            *(
                parts_per(row[share], PPM) if share in row else None
                for share in ("share_without_session", "share_orient")
            ),
        )
        for name, row in sections.items()
    )
    return named + tuple(section for section in STANDARD if section.name not in sections)


def budget_faults(document: Json) -> Iterator[Fault]:
    """Name what no single key can be blamed for (the schema names the rest)."""
    total = document.get("acb_total_max_tokens", _BUDGETS_DEFAULT.acb_total_max_tokens)
    reserve = document.get("reserve_tokens", _BUDGETS_DEFAULT.reserve_tokens)
    if _is_whole(total) and _is_whole(reserve) and 0 < total <= reserve:
        # Whichever of the two the file holds is the one to blame; the reserve, where it holds both.
        key = "reserve_tokens" if "reserve_tokens" in document else "acb_total_max_tokens"
        wanted = f"expected `reserve_tokens` to be less than `acb_total_max_tokens` ({total})"
        yield Fault((key,), f"{wanted}, found {found_value(reserve)}: no room is left")
    sections = document.get("sections")
    if isinstance(sections, dict):
        yield from _own_section_faults(sections)
        yield from _taken_twice(sections, "views")
        yield from _taken_twice(sections, "kinds")


def _own_section_faults(sections: dict[str, Any]) -> Iterator[Fault]:
    for name, row in sections.items():
        if not isinstance(row, dict):
            continue
        if name in _STANDARD_NAMES:
            if "kinds" in row:
                why = "expected only in a section of your own"
                yield Fault(("sections", name, "kinds"), f"{why}; `{name}` has its content already")
        elif "views" not in row and "kinds" not in row:
            why = "expected `views` or `kinds` in a section of your own, found neither"
            yield Fault(
                ("sections", name), f"{why}{meant(name, _STANDARD_NAMES - sections.keys())}"
            )


def _taken_twice(sections: dict[str, Any], key: str) -> Iterator[Fault]:
    """Name views and kinds of two sections: nothing says which gets them."""
    owner: dict[str, str] = {}
    for name, row in sections.items():
        named = row.get(key) if isinstance(row, dict) else None
        for position, item in text_items(named):
            first = owner.setdefault(item, name)
            if first != name:
                path: Path = ("sections", name, key, position)
                yield Fault(
                    path, f"expected in one section, found {found_value(item)} in `{first}` too"
                )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Numbers that count something; all others are weights and parts, in thousandths.
_COUNTS: Final = word_set("""
    fade reach related_most sources_max wide_sources_max passage_tokens whole_tokens passage_mean
    base_tokens recency_half_life_hours
""")


_OWN_NUMBERS: Final = word_table("""
    evidence_floor tag_weight key_weight neighbour recency_weight recency_half_life_hours
    coherence_weight
""")


_AROUND: Final = frozenset(("near", "near_many", "wide"))


class Around(NamedTuple):
    """What the events around a match get of its score.

    `weight` in thousandths of it at no distance, 1/e of that `fade` tokens away, nothing beyond
    `reach` texts.
    """

    weight: int
    fade: int
    reach: int


class Retrieval(NamedTuple):
    """How a search of the whole log ranks events. In thousandths, but what counts something.

    `bigrams`, `prefixes`, `related` and `speaker_name` weigh terms, where a word is 1000;
    `speaker` and `first_person` are factors on what an event's words earn, those `heard` and
    `preference` on what its neighbours lend it too. At most
    `related_most` words with a cosine of `related_least` or more stand beside each word; those of
    `related_alone` or more stand in for the words where no event holds any of these.
    """

    k1: int
    b: int
    bigrams: int
    prefixes: int
    related: int
    related_least: int
    related_most: int
    related_alone: int
    dense: int
    dense_least: int
    dense_cosine: int
    speaker_name: int
    coverage: int
    speaker: int
    speaker_heard: int
    first_person: int
    first_person_heard: int
    answer: int
    opening: int
    beginning: int
    preference: int
    tool_call: int
    tool_result: int
    tool_heard: int
    kinds: int
    impersonal: int
    timed: int
    session_best: int
    asking: int
    reply: int
    near: Around
    near_many: Around
    wide: Around
    sources_max: int
    wide_sources_max: int


class PackingPolicy(NamedTuple):
    """How a block is filled with what a search found.

    Thousandths are `passage_worth`, the part of a text's worth that a passage as long as it has,
    and, of the evidence, `instruction_reserve` and `marked_reserve`. `powers` are (budget,
    sixteenths), rising: up to that budget the score is divided by the length to that power, above
    the last one by `power`.
    """

    passage_tokens: int
    whole_tokens: int
    passage_mean: int
    passage_worth: int
    base_tokens: int
    powers: tuple[tuple[int, int], ...]
    power: int
    instruction_reserve: int
    marked_reserve: int


class Scoring(NamedTuple):
    """Weights in thousandths, on relevance scaled to 0..1000.

    A marker `custom:<name>` without a boost of its own has that of `custom`. `evidence_floor`
    is the part of the best score that a candidate must reach. `neighbour` is for recent events;
    `retrieval` has its own. Recency and coherence: see `recall.score.circumstances`. `intents` are
    tried in the order of the file; the first pattern found in the query decides, and
    `default_intent` where there is none. `times` has the words of time of each language, in the
    order in which they are tried. `half_lives` has hours by kind, 0 for what never
    fades; what fades is stale after so many days, 0 for never.
    """

    marker_boosts: dict[str, int]
    evidence_floor: int
    tag_weight: int
    key_weight: int
    neighbour: int
    recency_weight: int
    recency_half_life_hours: int
    coherence_weight: int
    retrieval: Retrieval
    packing: PackingPolicy
    default_intent: str
    intents: tuple[tuple[str, tuple[str, ...]], ...]
    times: tuple[TimeWords, ...]
    half_lives: dict[str, int]
    stale_after_days: int
    markers: Markers
    profiles: RecallProfiles


def build_scoring(document: Json) -> Scoring:
    """Build the record from a whole document without mistakes."""
    retrieval = mapping(document["retrieval"])
    packing = mapping(document["packing"])
    boosts = mapping(document["marker_boosts"])
    powers, power = _powers(packing["powers"])
    intent = document["default_intent"]
    if not isinstance(intent, str):
        raise TypeError(f"expected an intent, found {intent!r}")
    return Scoring(
        _numbers(boosts, boosts),
        **_numbers(document, _OWN_NUMBERS),
        retrieval=Retrieval(
            near=_around(retrieval["near"]),
            near_many=_around(retrieval["near_many"]),
            wide=_around(retrieval["wide"]),
            **_numbers(retrieval, [f for f in Retrieval._fields if f not in _AROUND]),
        ),
        packing=PackingPolicy(
            powers=powers,
            power=power,
            **_numbers(packing, [f for f in PackingPolicy._fields if f not in ("powers", "power")]),
        ),
        default_intent=intent,
        intents=tuple(
            (name, texts_of_list(patterns))
            for name, patterns in mapping(document["intents"]).items()
        ),
        times=build_times(mapping(document["times"])),
        half_lives={k: whole_number(hours) for k, hours in mapping(document["half_lives"]).items()},
        stale_after_days=whole_number(document["stale_after_days"]),
        markers=build_markers(mapping(document["markers"])),
        profiles=build_recall_profiles(mapping(document["profiles"])),
    )


def _numbers(document: Json, names: Iterable[str]) -> dict[str, int]:
    return {
        name: whole_number(document[name])
        if name in _COUNTS
        else parts_per(document[name], PERMILLE)
        for name in names
    }


def _around(value: object) -> Around:
    return Around(**_numbers(mapping(value), Around._fields))


def _powers(value: Any) -> tuple[tuple[tuple[int, int], ...], int]:
    *rows, last = (mapping(row) for row in value)
    powers = tuple((whole_number(row["up_to"]), whole_number(row["power"])) for row in rows)
    return powers, whole_number(last["power"])


def scoring_faults(document: Json) -> Iterator[Fault]:
    """Name what the schema cannot see: bad patterns, powers that are in no order."""
    packing = document.get("packing")
    if isinstance(packing, dict) and isinstance(packing.get("powers"), list):
        yield from _power_faults(packing["powers"])
    yield from marker_faults(document.get("markers"))
    yield from time_faults(document.get("times"))
    intents = document.get("intents")
    if isinstance(intents, dict):
        for intent, patterns in intents.items():
            yield from policy_regex_safety.pattern_faults(("intents", intent), patterns)


def _power_faults(rows: list[Any]) -> Iterator[Fault]:
    """Budgets must rise, and the last entry takes those that are larger than all of them."""
    before: int | float = 0
    for position, row in enumerate(rows):
        if not isinstance(row, dict):
            continue
        path: Path = ("packing", "powers", position, "up_to")
        most = row.get("up_to")
        if position == len(rows) - 1:
            if most is not None:
                why = "expected in all entries but the last, which is for all larger budgets"
                yield Fault(path, f"{why}; found {found_value(most)}")
        elif most is None:
            yield Fault(path, "missing; expected a number of tokens in all entries but the last")
        elif isinstance(most, int | float) and not isinstance(most, bool):
            if 0 < most <= before:
                yield Fault(
                    path, f"expected more than the {before} before it, found {found_value(most)}"
                )
            before = most
