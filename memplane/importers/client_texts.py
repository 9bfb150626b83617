"""What clients write under the user's name: the same for their transcripts and for their hooks.

Packs are made for what a person typed, so what the client puts into his mouth is another role's.
Nothing heavy is imported here: a hook asks, too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["HOOK_TAG", "Spoken", "asked_of_codex", "compaction", "spoken"]

# Of what a hook records: by it an import of the transcript knows its words again.
HOOK_TAG: Final = "hook"
# Who wrote a prompt, as the client itself says (`promptSource`, a hook's `source`); the rest of
# its words (`user`, `typed`, `queued`, `sdk` ...) are for a person.
_CLIENTS: Final = frozenset({"system", "loop_wakeup", "schedule_wakeup", "poll_event"})
# How a text begins that no person typed: role, tag.
_TEXTS: Final = (
    ("<local-command-stdout>", "tool", "command"),
    ("<local-command-stderr>", "tool", "command"),
    ("<bash-input>", "tool", "command"),
    ("<bash-stdout>", "tool", "command"),
    ("<bash-stderr>", "tool", "command"),
    ("<local-command-caveat>", "system", "meta"),
    ("<system-reminder", "system", "meta"),
    ("<task-notification", "system", "meta"),
    ("<teammate-message", "system", "meta"),
    ("<cross-session-message", "system", "meta"),
    ("<channel source=", "system", "meta"),
    ("<new-diagnostics>", "system", "meta"),
    ("<user-prompt-submit-hook>", "system", "meta"),
    ("[Request interrupted by user", "system", "interrupted"),
)
# What an editor puts before the words of a person.
_EDITORS: Final = "<ide_"
_CODEX_EDITOR: Final = "# Context from my IDE setup:"
_CODEX_ASKED: Final = "\n## My request for Codex:"
# Around the summary that a compacted conversation goes on with.
_HEADS: Final = (
    "This session is being continued from a previous conversation",
    "Another language model started to solve this problem",
)
_REMINDER: Final = ("<system-reminder>", "</system-reminder>")
_ENDINGS: Final = (
    "If you need specific details from before compaction",
    "Recent messages are preserved verbatim",
    "Please continue the conversation from where we left",
    "Continue the conversation from where",
)
_ANALYSIS: Final = ("<analysis>", "</analysis>")
_SUMMARY: Final = ("<summary>", "</summary>")


class Spoken(NamedTuple):
    """A prompt as it is to be recorded: a person's where the role is `user`. `tag` may be ""."""

    text: str
    role: str = "user"
    tag: str = ""


def spoken(text: str, source: str = "") -> Spoken:
    """Say whose words a prompt of Claude Code is. `source`: who wrote it, where the client says.

    A command that a person typed is told as he typed it, and words without what his editor put
    before them.
    """
    begun = text.lstrip()
    if begun.startswith("<command-") and (named := _within(begun, "command-name")):
        return Spoken(f"{named} {_within(begun, 'command-args')}".strip(), tag="command")
    if begun.startswith(_EDITORS):
        words = _behind(begun)
        return Spoken(words) if words else Spoken(text, "system", "meta")
    for beginning, role, tag in _TEXTS:
        if begun.startswith(beginning):
            return Spoken(text, role, tag)
    return Spoken(text, "system", "meta") if source in _CLIENTS else Spoken(text)


def asked_of_codex(text: str) -> str:
    """A prompt of Codex without what the editor put before it."""
    _, heading, asked = text.partition(_CODEX_ASKED)
    if not text.startswith(_CODEX_EDITOR) or not heading:
        return text
    return asked.partition("\n")[2].strip() or text


def compaction(text: str) -> str:
    """The summary alone, without what the client says around it and without how it was thought out.

    Hooks are told the summary, transcripts hold it with the client's words: both come to the same.
    """
    if text.startswith(_HEADS):
        text = text.partition("\n")[2].lstrip()
        if text.startswith(_REMINDER[0]):
            text = text.partition(_REMINDER[1])[2]
        ends = [at for ending in _ENDINGS if (at := text.rfind(f"\n{ending}")) >= 0]
        text = text[: min(ends)] if ends else text
    thought, end, rest = text.partition(_ANALYSIS[1])
    if end and (at := thought.find(_ANALYSIS[0])) >= 0:
        text = thought[:at] + rest
    before, begin, inner = text.partition(_SUMMARY[0])
    if begin:
        text = before + inner.replace(_SUMMARY[1], "", 1)
    return text.strip().removeprefix("Summary:").strip()


def _within(text: str, tag: str) -> str:
    """What stands in the first element of that name, "" where there is none."""
    _, begin, rest = text.partition(f"<{tag}>")
    inner, end, _ = rest.partition(f"</{tag}>")
    return inner.strip() if begin and end else ""


def _behind(text: str) -> str:
    """What stands behind the elements of an editor that a text begins with.

    Up to the last end of each: what it quotes of a file is nobody's words.
    """
    while text.startswith(_EDITORS):
        tag = text[1:].partition(">")[0].split(None, 1)[0]
        end = f"</{tag}>"
        if end not in text:
            return ""
        text = text[text.rindex(end) + len(end) :].lstrip()
    return text
