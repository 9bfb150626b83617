"""The skeleton of a line or name: what it looks like without its invisible characters.

After the skeletons of Unicode's UTS #39: default-ignorable code points, control and format
characters and terminal sequences are removed, compatibility forms fold (NFKC), and letters of other
scripts that look like Latin ones become these. Two texts with one skeleton look alike. The tables
are those of Unicode 3.2 and of this file, so the result is the same under every Python.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from memplane.lazy import regex

__all__ = ["hides_nothing", "imitated", "permitted_actor", "skeleton", "with_permitted_actor"]

# Escape sequences of terminals: CSI, OSC with its text, the other string controls, two characters.
_SEQUENCE: Final = regex(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# Controls but tab and newline, default-ignorable code points, other formats, what stands for
# something that could not be read or shown.
_UNSEEN: Final = regex(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffd\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_BEYOND_ASCII: Final = regex(r"[^\x00-\x7f]")
_COMBINING: Final = "".join(
    map(chr, (*range(0x300, 0x370), *range(0x20D0, 0x2100), *range(0xFE20, 0xFE30)))
)
# Of other scripts what looks like a Latin letter or a colon, and letters of later versions of
# Unicode than the normalisation knows.
_LIKE: Final = {
    "a": "\u0430\u03b1\u0251\u0410\u0391\u1d00",
    "b": "\u0412\u0392\u0299",
    "c": "\u0441\u0421\u03f9\u1d04",
    "d": "\u0501\u1d05",
    "e": "\u0435\u0415\u0395\u1d07",
    "f": "\ua730",
    "g": "\u0261\u0262",
    "h": "\u04bb\u041d\u0397\u029c",
    "i": "\u0456\u0406\u03b9\u0399\u0131\u026a\u0130",
    "j": "\u0458\u0408\u1d0a",
    "k": "\u041a\u039a\u03ba\u043a\u1d0b",
    "l": "\u04cf\u04c0\u029f\u01c0",
    "m": "\u041c\u039c\u1d0d",
    "n": "\u0578\u039d\u0274",
    "o": "\u043e\u041e\u03bf\u039f\u1d0f",
    "p": "\u0440\u0420\u03c1\u03a1\u1d18",
    "r": "\u0280",
    "s": "\u0455\u0405\ua731",
    "t": "\u0422\u03a4\u03c4\u0442\u1d1b",
    "u": "\u03c5\u057d\u1d1c",
    "v": "\u03bd\u1d20",
    "w": "\u051d\u1d21",
    "x": "\u0445\u0425\u03a7",
    "y": "\u0443\u0423\u04ae\u04af\u03a5\u028f",
    "z": "\u0396\u1d22",
    " ": "\u1680",
    ":": "\u2236\ua789\u02d0\u05c3\u0589\u1804",
    "<": "\u2039\u3008\u2329",
}
_LETTERS_FROM: Final = (0x1F130, 0x1F150, 0x1F170, 0x1F1E6)  # squared, circled, flags
# What a client or a model calls those who speak. Who is called so speaks in their place.
_ROLES: Final = frozenset(("user", "assistant", "system", "tool", "human"))
_SEPARATORS: Final = regex("[\u2028\u2029]+")
_NO_LETTER: Final = regex(
    "[\x00-/:-@\\[-`{-\xbf\u2000-\u206f\u2190-\u2bff\u3000-\u3020\ufe30-\ufe6f\U0001f300-\U0001faff]+"
)


@lru_cache(maxsize=1)
def _table() -> dict[int, str]:
    table = {ord(one): letter for letter, like in _LIKE.items() for one in like}
    for start in _LETTERS_FROM:
        table.update({start + at: chr(ord("a") + at) for at in range(26)})
    return table


def skeleton(text: str) -> str:
    """What the text reads like: in small letters, without blanks and unseen marks in front."""
    if not text.isprintable():
        text = _UNSEEN.sub("", _SEQUENCE.sub("", text))
    if not text.isascii():
        from unicodedata import ucd_3_2_0  # noqa: PLC0415 - English goes without

        text = ucd_3_2_0.normalize("NFKC", _UNSEEN.sub("", text).translate(_table()))
        text = text.lstrip(f"{_COMBINING} \t\n")
    return text.lower().lstrip()


def hides_nothing(text: str) -> bool:
    """Whether the skeleton of each line is what stands there, in small letters; no controls in it.

    True for nearly every text, in whatever script, and quick to know.
    """
    return text.isascii() or all(map(_is_inert, set(_BEYOND_ASCII.findall(text))))


@lru_cache(maxsize=8192)
def _is_inert(char: str) -> bool:
    among = f"x{char}x"
    return not char.isspace() and char not in _COMBINING and skeleton(among) == among.lower()


@lru_cache(maxsize=1024)
def imitated(name: str) -> str | None:
    """The role that a name reads like, whatever stands between its letters; None for no role."""
    letters = _NO_LETTER.sub("", skeleton(name))
    return letters if letters in _ROLES else None


def permitted_actor(name: str, role: str | None) -> str | None:
    """The name as intake takes it for an actor: for those who cannot ask for another one.

    None where it says no more than the role does.
    """
    name = _SEPARATORS.sub(" ", name)
    read = imitated(name)
    if read is None:
        return name
    return f"actor {read}" if read != role else None


def with_permitted_actor(row: dict[str, Any]) -> dict[str, Any]:
    """The row of an event that comes from elsewhere, with an actor that intake takes."""
    actor = row.get("actor")
    if not isinstance(actor, str):
        return row
    permitted = permitted_actor(actor, row.get("role"))
    return row if permitted == actor else {**row, "actor": permitted}
