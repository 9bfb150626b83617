"""The words by which markers are found where no policy says others; scoring.yaml repeats them.

A phrase of what holds from now on reads much like talk: "always nice to see you", "I never saw
it", "I want to make sure". So each phrase has a pattern that is tried on the sentence around it,
which begins behind `^`: an order has its verb there, or behind `when …,` and `please`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LINE_STARTS", "STANDING"]

LINE_STARTS: Final = {
    "decision": ("Decision", "Decided", "Choosing", "Selected"),
    "constraint": ("Constraint", "Requirement", "Must", "Cannot", "Budget", "Limit"),
    "failure": ("Failed", "Error", "Didn't work", "Tried but"),
    "goal": ("Goal", "Objective", "Task", "Need to"),
}

# Where an order begins.
_ORDER: Final = (
    r"(?:^|^(?:when|whenever|if|for|in|before|after|while|unless|once|until)\b[^,]{1,120}, ?"
    r"|\bplease )"
)
_UNASKED: Final = r"(?!.*\?$)"  # a question orders nothing
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
    r"|remind|translate|summari[sz]e|quote|link)\b"
)
_LATER: Final = (
    r",? (?:please|always|never|don't|do not|use|only|make sure|you|keep|stop|avoid"
    r"|I(?:'d| would) (?:like|prefer)|I (?:want|need|prefer))\b"
)
_YOUR_WORK: Final = (
    r"(?:write|give|show|make|add|create|use|answer|reply|respond|suggest|explain|change|edit|run"
    r"|generate|propose|recommend|mention|finish|start|commit|refer|list)\b"
)
_HABIT: Final = r"(?:use|avoid|go with|work|write|keep|choose|stick|opt|run|format|name|start)\b"
_NO_NAME: Final = (
    r"(?!(?:back|when|if|at|on|later|a|an|today|tomorrow|crazy|out|up|to|and|maybe|about|for|in)\b)"
)
_FAVOURITE: Final = r"\bmy (?:\w+ )?{0}\b[^.!?]{{0,60}} (?:is|are)\b|\b(?:is|are) my (?:\w+ )?{0}\b"

_INSTRUCTION: Final = {
    "always": _ORDER + r"always " + _TALK_OF_ALWAYS + _VERB + _UNASKED + r"|\band always (?:use|add"
    r"|include|keep|write|run|make|check|ask|give|show|put|format|explain|cite|mention|list|respond"
    r"|reply|answer|start|end|follow|verify|test)\b",
    "never": _ORDER + r"never " + _TALK_OF_NEVER + _VERB + _UNASKED + r"|\band never (?:use|add"
    r"|include|write|run|make|ask|commit|push|delete|touch|change)\b",
    "from now on": r"^(?!(?:I|we|he|she|they|it|that|this)(?:'ll|'m|'re|'s| will| am| are| is| can"
    r"| have| had)\b).*\bfrom now on\b(?!,? (?:I|we|he|she|they|it)(?:'|\b))",
    "going forward": r"^going forward" + _LATER,
    "moving forward": r"^moving forward" + _LATER,
    "in future": r"^in future" + _LATER,
    "in the future": r"^in the future" + _LATER,
    "i ask": r"\b(?:when|whenever|every time|each time|any ?time|if) I ask\b"
    r"(?! (?:him|her|them|someone|somebody|people|my)\b)" + _UNASKED,
    "i say": r"^(?:when|whenever|every time|each time|any ?time|if) I say\b" + _UNASKED,
    "i tell you": r"\b(?:when|whenever|every time|each time|any ?time|if|unless|until) I tell you\b"
    + _UNASKED,
    "whenever you": r"\bwhenever you " + _YOUR_WORK,
    "every time you": r"\bevery time you " + _YOUR_WORK + _UNASKED,
    "make sure": r"^(?:please )?make sure (?:to|you|that you|not to|we|it|that|the|all|every|each"
    r"|any|no)\b" + _UNASKED,
    "don't": _ORDER + r"don't " + _FORBIDDEN + _UNASKED,
    "do not": _ORDER + r"do not " + _FORBIDDEN + _UNASKED,
    "instead of": r"^(?:please )?use (?!of\b).* instead of\b",
    "rather than": r"^(?:please )?use (?!of\b).* rather than\b",
    "please": r"\bplease (?:only |just )?(?:use|avoid|keep|stop|refrain|respond|reply|answer|speak"
    r"|call me|address|format|stick to|be)\b" + _UNASKED,
    "stop": r"^(?:please )?stop \w+ing\b" + _UNASKED,
    "only": r"^(?:please )?only (?:use|ever|include|show|give|return|write|answer|respond|reply"
    r"|edit|change|touch|commit|run|make|do)\b" + _UNASKED,
    "avoid": r"^(?:please )?avoid (?!\w+ed\b)\w+" + _UNASKED,
    "call me": r"^(?:please |just )?call me " + _NO_NAME + r"\w+",
    "respond": r"^(?:please )?respond (?:only |always |to me )?(?:in|with|as)\b",
    "reply": r"^(?:please )?reply (?:only |always |to me )?(?:in|with|as)\b",
    "answer": r"^(?:please )?answer (?:only |always |me )?(?:in|with|as)\b",
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
    r"|when you|my )",
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
STANDING: Final = {"custom:instruction": _INSTRUCTION, "custom:preference": _PREFERENCE}
