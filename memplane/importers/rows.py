"""The rows and counts that one record of a source gives, and names that the log accepts.

Text that clients write under the user's name is recognised here, for transcripts and hooks alike:
packs are made for what a person typed, so text that the client adds to a prompt or puts in its
place gets another role. Nothing heavy is imported here, because hooks use this module.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from memplane.intake import is_own_command
from memplane.lazy import NamedTuple, Protocol, late, word_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memplane.intake import redact
else:
    redact = late("memplane.intake.redact")

Row = dict[str, Any]

ASKING: Final = frozenset(("AskUserQuestion", "request_user_input"))  # tools that ask a person
REPLY_CHARS: Final = 2_000  # of a reply, that are looked at for a decision
# How a reply may begin that decides something: see `decided.may_decide`.
_DECIDING: Final = word_table("""
    i let go ye ok sure hm good great thanks do use take pick
    choose fix maybe probably just only then please definitely the option approach number choice
    variant solution plan nr yup ya agree sounds makes correct exactly absolutely no nah
""")
_NAME_MAX: Final = 128

_FIELD_MAX: Final = 4096

_SAFE: Final = "!#$&'()*+,-./:;<=>?@[]^_{|}"

_ALWAYS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"


class ReadOutcome(NamedTuple):
    """Rows in file order, a reason for each part left out, and parts that were seen before.

    A record always comes to something: the three are never empty together. `turn` is the client's
    id of the turn that the rows are of, where it has one.
    """

    rows: tuple[Row, ...] = ()
    skipped: tuple[str, ...] = ()
    repeated: int = 0
    turn: str = ""


class RecordReader(Protocol):
    """Makes rows of the records of one source. One reader serves one run over many files."""

    def begin(self, state: Mapping[str, Any], file: str = "") -> None:
        """Begin a file, or go on with one where `state()` was left. `file` is its name."""

    def read(self, record: dict[str, Any], body: bytes) -> ReadOutcome:
        """Say what the record comes to; never raises, whatever it holds. `body` is its line."""

    def state(self) -> dict[str, Any]:
        """Return what later lines of this file need of the earlier ones, as JSON."""


def begins_decision(reply: str) -> bool:
    """Whether a reply begins like one that decides something, or may number its answers."""
    reply = reply[:REPLY_CHARS].strip()
    if "\n" in reply:
        return True
    start = next((at for at, one in enumerate(reply) if one.isalnum() or one == "_"), len(reply))
    first = reply[start : start + 12].lower()
    return (
        not first.isascii()  # letters that are like others
        or first[:1].isdigit()
        or ("a" <= first[:1] <= "h" and not (first[1:2].isalnum() or first[1:2] == "_"))
        or first.startswith(_DECIDING)
    )


def name(*parts: str, joint: str = ":") -> str:
    """Join parts into 1-128 printable ASCII characters without space.

    As many parts that differ give different names: what is not safe is percent-encoded,
    and a name that would be too long is a SHA-256 of its parts.
    """
    *scopes, last = parts
    scopes = [_encode(part, _SAFE.replace(joint, "")) for part in scopes]
    joined = joint.join([*scopes, _encode(last, _SAFE)])
    if len(joined) <= _NAME_MAX:
        return joined
    # "%=" cannot come out of percent-encoding, so no short name is taken.
    shortened = f"%={hashlib.sha256(joined.encode()).hexdigest()}"
    return f"{scopes[0]}{joint}{shortened}" if scopes and len(scopes[0]) < 32 else shortened


@lru_cache(maxsize=4096)
def _encode(part: str, safe: str) -> str:
    if not part.strip(_ALWAYS + safe):
        return part  # most names
    from urllib.parse import quote  # noqa: PLC0415 - a hook goes without

    return quote(part, safe=safe, errors="surrogatepass")


def short_text(record: Mapping[str, Any], field: str) -> str:
    """Return the field where it is a string of at most 4,096 characters, else ""."""
    value = record.get(field)
    return value if isinstance(value, str) and len(value) <= _FIELD_MAX else ""


def told(data: Mapping[str, str]) -> dict[str, str]:
    """Return what is not empty."""
    return {key: value for key, value in data.items() if value}


def type_word(kind: str) -> str:
    """A type as part of a reason: short and printable."""
    return redact.masked(name(kind))[:40] if kind else "(none)"


def json_digest(*parts: Any) -> str:
    """A SHA-256 of JSON values, in hex; the order of an object's fields does not matter."""
    try:
        whole = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    except (RecursionError, ValueError):
        # Nested too deep to be written; repr would be, too.
        whole = "too deep"
    return hashlib.sha256(whole.encode()).hexdigest()


# Of what a hook records: by it an import of the transcript knows its words again.
HOOK_TAG: Final = "hook"
# Of why a person refused a call: words of the user beside the call's result, whose `rejected` is
# this.
REASON_TAG: Final = "reason"
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
    """Whose words a prompt of Claude Code is. `source`: its author, where the client names it.

    A command is returned as the person typed it, and words without what the editor put before them.
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
    """The summary alone, without the client's words around it and without its thinking.

    Hooks get the summary and transcripts have it with the client's words: both become the same.
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
    """The content of the first element of that name, "" without one."""
    _, begin, rest = text.partition(f"<{tag}>")
    inner, end, _ = rest.partition(f"</{tag}>")
    return inner.strip() if begin and end else ""


def _behind(text: str) -> str:
    """The text behind the elements of an editor at its beginning.

    Up to the last end of each: what it quotes of a file was not said.
    """
    while text.startswith(_EDITORS):
        tag = text[1:].partition(">")[0].split(None, 1)[0]
        end = f"</{tag}>"
        if end not in text:
            return ""
        text = text[text.rindex(end) + len(end) :].lstrip()
    return text


# Tool calls as a model would read them, and the files that they touch.

# Tools whose path is a file that was worked on; a search only looks around.
FILE_ARGUMENTS: Final = {
    "Read": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "Write": "file_path",
    "NotebookEdit": "notebook_path",
    "NotebookRead": "notebook_path",
}
# Why a call of memplane's own tools makes no event, and why its result makes none.
OWN_CALL: Final = "call of memplane"
OWN_ANSWER: Final = "answer of memplane"
_PATHS: Final = frozenset({"file_path", "notebook_path", "path"})
_PATH_MAX: Final = 4096
_SHORT: Final = 200


class Call(NamedTuple):
    """A call: its tool, the file that it works on, and its command where that is memplane's own."""

    tool: str = ""
    path: str = ""
    command: str = ""

    @classmethod
    def of(cls, known: Any) -> Call | None:
        """A call from what `state` gave; None for anything else."""
        if (
            isinstance(known, list)
            and len(known) in (2, 3)
            and all(isinstance(one, str) and len(one) <= _PATH_MAX for one in known)
        ):
            return cls(*known)
        return None

    def state(self) -> list[str]:
        """The call as JSON."""
        return list(self if self.command else self[:2])


def below(path: str, folder: str) -> str:
    """Return the path relative to the folder where it lies below it, else as it is."""
    folder = folder.rstrip("/\\")
    if path == folder:
        return "."
    if folder and len(path) > len(folder) + 1 and path.startswith(folder):
        rest = path[len(folder) :]
        if rest[0] in "/\\":
            return rest[1:]
    return path


def own_command(tool: str, arguments: Any) -> str:
    """The command line of a shell that runs memplane and nothing else, "" for any other call.

    It is `data.command` of the call's result, so that intake knows what was recalled there.
    """
    for name in ("command", "cmd") if isinstance(arguments, dict) else ():
        command = arguments.get(name)
        if isinstance(command, str) and is_own_command(tool, command):
            return command.strip()
    return ""


def touched(tool: str, arguments: Any, folders: tuple[str, ...]) -> str:
    """Name the file that the call works on, below the first folder that holds it; "" for none."""
    path = arguments.get(FILE_ARGUMENTS.get(tool, "")) if isinstance(arguments, dict) else None
    if not isinstance(path, str) or len(path) > _PATH_MAX:
        return ""
    return next((short for folder in folders if (short := below(path, folder)) != path), path)


def reason_row(reason: str, data: Mapping[str, str]) -> Row:
    """The words of a person who refused a call; `data` is that of the call's result."""
    about = {name: said for name, said in data.items() if name in ("call", "branch")}
    return {"kind": "message", "role": "user", "text": reason, "tags": [REASON_TAG], "data": about}


def render_tool_call(tool: str, arguments: Any, folder: str) -> str:
    """Show the tool with its arguments: short ones on the first line, long ones as blocks below.

    Text stands as it is, not as JSON: a search must find a line of code by its words.
    """
    if not isinstance(arguments, dict):
        return f"{tool} {_json(arguments)}".rstrip() if arguments else tool
    head, blocks = [tool], []
    for key, value in arguments.items():
        shown = value if isinstance(value, str) else _json(value)
        if key in _PATHS:
            shown = below(shown, folder)
        if len(shown) <= _SHORT and "\n" not in shown:
            quoted = isinstance(value, str) and (not shown or " " in shown)
            head.append(f"{key}={_json(shown) if quoted else shown}")
        else:
            blocks.append(f"{key}:\n{shown}")
    return "\n".join([" ".join(head), *blocks])


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError):
        return "(too deep to show)"
