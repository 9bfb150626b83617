"""The block (ACB): its text, the entries it is made of, and what was left out."""

from __future__ import annotations

from typing import Any, Literal

from memplane.errors import InputError
from memplane.lazy import NamedTuple


class Entry(NamedTuple):
    """One entry of a block, with its provenance.

    `events` are the ids of events whose whole text is in the entry, `parts` of those of which a
    part is. `text` is the lines as printed; their `tokens` include every newline. `score` is 0 for
    an entry that was not scored.
    """

    section: str
    place: Literal["head", "middle", "tail"]
    text: str
    tokens: int
    score: int
    events: tuple[str, ...]
    parts: tuple[str, ...]
    source: str  # event | view:PATH@sha256 | projection:NAME
    part: str  # A..G, the layout's areas in order
    seq: int = 0  # of the event, 0 for a view


class Omission(NamedTuple):
    """A candidate that was left out.

    `tokens` is what it would have cost; `short_by` how many tokens were missing, 0 where it was
    left out for another reason than room. `id` may be a handle or a path; then `seq` is 0.
    """

    id: str
    seq: int
    section: str
    tokens: int
    reason: str
    score: int
    short_by: int


class Block(NamedTuple):
    """A packed context block. `text` is ready for a prompt; `tokens` never exceed the budget."""

    text: str
    tokens: int
    entries: tuple[Entry, ...]
    omissions: tuple[Omission, ...]
    report: dict[str, Any]
    report_path: Any = None  # the file that the report was saved in, None where it was not

    def __str__(self) -> str:
        """The text: `print(block)` prints what a prompt takes."""
        return self.text

    def __repr__(self) -> str:
        """Its figures; the text is long."""
        return (
            f"<Block of {self.tokens} tokens, {len(self.entries)} entries, "
            f"{len(self.omissions)} left out>"
        )

    def _repr_markdown_(self) -> str:
        """How notebooks show it."""
        return self.text

    @property
    def budget_remaining(self) -> int:
        """Tokens of the request's budget that are left."""
        return int(self.report["budget"]) - self.tokens

    def messages(
        self,
        provider: Literal["openai", "anthropic"],
        *,
        reuse: Literal["prompt", "call"] = "prompt",
    ) -> Any:
        """The block in a provider's form; the pieces joined are `text`.

        `openai`: a list with one system message. `anthropic`: `{"system": [...], "messages": []}`
        with cache marks where the next pack of the session will still agree; `reuse` says whether
        that pack comes with the next prompt or with the next model call. Raises InputError for
        another provider or reuse.
        """
        if reuse not in ("prompt", "call"):
            raise InputError(f"expected prompt or call, found {reuse!r}", where="reuse")
        if provider == "openai":
            return [{"role": "system", "content": self.text}] if self.text else []
        if provider != "anthropic":
            raise InputError(f"expected openai or anthropic, found {provider!r}", where="provider")
        raw = self.text.encode()
        cuts = [
            point["byte"]
            for point in self.report["prefix"]["breakpoints"]
            if point["reuse"] in ("both", reuse)
        ]
        pieces = []
        start = 0
        for cut in sorted(set(cuts)):
            if start < cut < len(raw):
                pieces.append(
                    {
                        "type": "text",
                        "text": raw[start:cut].decode(),
                        "cache_control": {"type": "ephemeral"},
                    }
                )
                start = cut
        if raw[start:]:
            pieces.append({"type": "text", "text": raw[start:].decode()})
        return {"system": pieces, "messages": []}

    def as_json(self) -> dict[str, Any]:
        """The block as plain JSON values (schemas/acb.schema.json)."""
        return {
            "text": self.text,
            "tokens": self.tokens,
            "entries": [entry._asdict() for entry in self.entries],
            "omissions": [omission._asdict() for omission in self.omissions],
            "report": self.report,
        }
