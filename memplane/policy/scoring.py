"""What is found and ranked by tables: markers in texts, ends of episodes, the profiles of a recall.

Markers are found at intake by the `markers` part of scoring.yaml. Where an episode of a session
ends (plane.yaml), and how `recall` ranks (scoring.yaml), are rules of people for what is derived,
never for what is stored: under other rules the same log has other episodes. The defaults of the
episodes' profiles are here, those of the recall's profiles in memplane's own scoring.yaml.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from memplane.event import WISH_MARKER
from memplane.lazy import NamedTuple, late
from memplane.policy.document import (
    PERMILLE,
    PPM,
    Fault,
    Json,
    filled_record,
    found_value,
    mapping,
    parts_per,
    text_items,
    texts_of_list,
    whole_number as whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

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
