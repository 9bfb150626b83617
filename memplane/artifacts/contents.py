"""The text of an artifact: all of it for the index, and in pages for a handle.

A page has as many tokens as the request asks for. `from=N` in a handle continues at character N,
independent of where earlier pages ended.

Check research reports and bundles: their schemas, and a source for every citation.

A report is Markdown with a JSON file beside it that lists its sources and claims; a bundle is one
JSON file with the report, its sources, and their content. In the text `[@s1]` cites the source s1,
and `[@s1; @s2]` two of them. `[s9]` and `[^s9]` cite too where the sources are called s1, s2 and so
on: a number that none of them has is then a citation without a source. Code cites nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from memplane.context.artifact_files import SEARCHED_BYTES_MAX, artifact_bytes, decode_text
from memplane.errors import BudgetError, ChangedError, InputError, NotFoundError, ScopeError
from memplane.intake.redact import masked, quoted_value
from memplane.lazy import NamedTuple, regex
from memplane.pack.request import Expansion
from memplane.policy.document import against_schema, key_text
from memplane.projections.artifacts import COPY, HANDLE_DIGITS, SCHEME, ArtifactFacts, facts_of
from memplane.projections.item import Item
from memplane.tokens import cut

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from memplane.context.context import PlaneContext, Requester
    from memplane.event import Event
    from memplane.pack.handles import Handle
    from memplane.ports import Line, TokenCounter
    from memplane.projections.artifacts import ArtifactTable

_LISTED_MAX: Final = 20
_FENCE: Final = regex(r" {0,3}(`{3,}|~{3,})")
_CODE: Final = regex(r"(?<!`)(`++).+?(?<!`)\1(?!`)")  # runs of one length, as Markdown has it
_CITED: Final = regex(r"\[([@^]?[^\[\]\n]{1,300})\](?![(\[:])")
_NUMBERED: Final = regex(r"([A-Za-z_.:-]*)[0-9]+")


def check_report(text: str, sidecar: bytes, schema: bytes, names: tuple[str, str]) -> None:
    """Raise InputError naming every mistake in a report and its sidecar, called `names`."""
    document, found = _read(sidecar, schema, names[1])
    if not found:
        found = [*_mistakes(document, names[1]), *_uncited(text, document, names[0])]
    _refuse(found)


def check_bundle(data: bytes, schema: bytes, name: str) -> None:
    """Raise InputError naming every mistake in a bundle that is called `name`."""
    document, found = _read(data, schema, name)
    if not found:
        report = f"{name}: report"
        found = [*_mistakes(document, name), *_uncited(document["report"], document, report)]
    _refuse(found)


def bundle_text(data: str) -> str:
    """Return a bundle as a text to read: the report, then each source with what it says.

    What is no bundle stays as it is.
    """
    try:
        document = json.loads(data)
        parts = [f"# {document['title']}", document["question"], document["report"]]
        for source in document["sources"]:
            head = f"## [@{source['id']}] {source['title']}"
            parts.append(f"{head}\n{source['url']} ({source['accessed']})\n\n{source['text']}")
        return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return data


def citations(text: str, known: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield what a text in Markdown cites, with its line from 1; `known` are its sources."""
    forms = {match[1] for one in known if (match := _NUMBERED.fullmatch(one)) is not None}
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        opens = _FENCE.match(line)
        if fence:
            if opens is not None and opens[1].startswith(fence) and not line.strip("`~ \t"):
                fence = ""
            continue
        if opens is not None:
            fence = opens[1]
            continue
        for match in _CITED.finditer(_CODE.sub("", line)):
            for name in _names(match[1], forms, known):
                yield number, name


def _names(inside: str, forms: set[str], known: frozenset[str]) -> Iterator[str]:
    """What stands between two brackets cites: `@a; @b` anything, else what looks like a source."""
    if inside.startswith("@"):
        for part in inside.split(";"):
            name, _, _ = part.strip().removeprefix("@").partition(",")  # `@s1, p. 3`
            yield name.strip()
        return
    name = inside.removeprefix("^")
    match = _NUMBERED.fullmatch(name)
    if name in known or (match is not None and match[1] in forms):
        yield name


def _read(data: bytes, schema: bytes, name: str) -> tuple[Any, list[str]]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        return None, [f"{name}: expected JSON in UTF-8: {masked(str(error))}"]
    faults = islice(against_schema(document, schema), _LISTED_MAX + 1)
    return document, [f"{name}: {key_text(one.path)}: {one.message}" for one in faults]


def _mistakes(document: Mapping[str, Any], name: str) -> Iterator[str]:
    """What the schema cannot say: each source has a name of its own, each claim rests on one."""
    first: dict[str, int] = {}
    for at, source in enumerate(document["sources"]):
        if first.setdefault(source["id"], at) != at:
            found = f"found {quoted_value(source['id'])}, which sources[{first[source['id']]}] has"
            yield f"{name}: sources[{at}].id: expected a name of its own, {found}"
    for at, claim in enumerate(document["claims"]):
        for place, id_ in enumerate(claim["sources"]):
            if id_ not in first:
                yield f"{name}: claims[{at}].sources[{place}]: {_no_source(id_, first)}"


def _uncited(text: str, document: Mapping[str, Any], name: str) -> Iterator[str]:
    known = {source["id"]: None for source in document["sources"]}
    for line, id_ in citations(text, frozenset(known)):
        if id_ not in known:
            yield f"{name}:{line}: {_no_source(id_, known)}"


def _no_source(id_: str, known: Mapping[str, Any]) -> str:
    listed = ", ".join([*known][:12])
    more = ", ..." if len(known) > 12 else ""
    return f"cites {quoted_value(id_)}, which is no source; there are {listed}{more}"


def _refuse(found: list[str]) -> None:
    if found:
        listed = found[:_LISTED_MAX]
        more = [f"and {len(found) - len(listed)} more"] if len(found) > len(listed) else []
        raise InputError("\n".join([*listed, *more]))


PAGE_TOKENS: Final = 1_000  # of a page that a pack opens by its number
_PAGES_MAX: Final = 100_000
_HANDLE: Final = regex(r"(?:expand://)?artifact/(?:sha256/)?")
_DIGITS: Final = regex(r"[0-9a-f]{8,64}")


class Page(NamedTuple):
    """A page of a text; `end` is the character behind it, None at the end of the text."""

    text: str
    end: int | None


def digits_of(named: str) -> str | None:
    """Return the digits of a hash, of a URI or of a handle; None for any other name."""
    digits = _HANDLE.sub("", named.partition("?")[0].removeprefix(SCHEME), count=1)
    return digits if _DIGITS.fullmatch(digits) else None


def by_hash(context: PlaneContext, table: ArtifactTable, digits: str, upto: int) -> list[Line]:
    """Return the artifacts up to a seq whose hash begins so, the newest first."""
    most = min(len(digits), HANDLE_DIGITS)
    seqs = [seq for seq, known in table.listed.items() if known.startswith(digits[:most])]
    lines: Iterable[Line | None] = map(context.log.line, reversed(seqs))
    if not seqs and table.older:
        lines = reversed([*context.log.read(0, upto)])
    found = ((line, facts_of(line.event)) for line in lines if line is not None)
    return [
        line
        for line, facts in found
        if facts is not None and facts.sha256.startswith(digits) and line.event.seq <= upto
    ]


def newest(asker: Requester, digits: str, *, strict: bool = True) -> Event:
    """Return the newest artifact in force with this hash: one that is approved before others.

    Raises NotFoundError where the asker may know of none. Without `strict` any that he may know of
    will do: whether it may be shown is decided with others.
    """
    table = asker.folds.artifacts.state
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)
    lines = by_hash(asker.context, table, digits, asker.as_of)
    if not lines:
        asker.context.look_in_vain()
    found = [line.event for line in lines if reader.may_read(line.event)]
    if len({one.data["sha256"] for one in found}) > 1:
        raise InputError(f"{digits} begins the hash of several artifacts", where="handle")
    if not found:
        raise NotFoundError(f"no artifact {digits}")
    archived = asker.folds.memories.archived
    live = [one for one in found if archived(one, upto=asker.as_of) is None]
    seen = [one for one in live if reader.in_time(one)]
    if strict and not seen:
        raise NotFoundError(f"no artifact {digits} is in force")
    return next((one for one in seen if _covers(asker, one)), (seen or found)[0])


def artifact_text(home: Path, event: Event, facts: ArtifactFacts) -> str:
    """Return the text of an artifact's file, compared with its hash.

    Raises ChangedError, and NotFoundError where the file is no text.
    """
    from memplane.artifacts.contents import bundle_text  # noqa: PLC0415 - few artifacts are bundles

    text = decode_text(artifact_bytes(home, facts))
    if text is None:
        raise NotFoundError(
            f"{quoted_value(facts.name, 120)} (event {event.seq}) is no text but {facts.mime}; "
            f"`memplane artifact export {event.seq}` writes it to a file"
        )
    return bundle_text(text) if facts.type == "research_bundle" else text


def searched_text(home: Path, event: Event, *, lenient: bool) -> str:
    """Return what an approved artifact is found by: what was said of it, and its copy's text.

    A file that is no text, too long or a reference adds nothing. One that is not what was added
    raises ChangedError, or adds nothing where that is to be passed over.
    """
    facts = facts_of(event)
    if facts is None or facts.stored != COPY or facts.bytes > SEARCHED_BYTES_MAX:
        return event.text
    try:
        text = artifact_text(home, event, facts)
    except ChangedError:
        if not lenient:
            raise
        return event.text
    except NotFoundError:
        return event.text
    return f"{event.text}\n\n{text}" if event.text else text


def check_start(start: int, text: str) -> None:
    """Raise InputError for a `from` behind the end of a text; 0 is never that."""
    if start and start >= len(text):
        most = f"it has {len(text)} characters; expected from={max(0, len(text) - 1)} or less"
        raise InputError(f"{most}, found {start}", where="from")


def page_of(
    asker: Requester, event: Event, handle: Handle, budget: int
) -> tuple[ArtifactFacts, Page]:
    """Return what is known of an artifact, and a page of its text of at most `budget` tokens.

    Raises NotFoundError where it is out of force, ScopeError where it is not approved,
    ChangedError, InputError and BudgetError.
    """
    facts = facts_of(event)
    gone = asker.folds.memories.archived(event, upto=asker.as_of)
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)
    if gone is not None:
        raise NotFoundError(f"artifact {event.seq} is {gone[0]} by event {gone[1]}")
    if (late := reader.out_of_time(event)) is not None:
        raise NotFoundError(f"artifact {event.seq} is {late}")
    if facts is None or not _covers(asker, event):
        raise ScopeError(
            f"artifact {event.seq} is not approved: its text is shown once somebody has read it "
            f"and says `memplane artifact approve {event.seq}`"
        )
    context, policies = asker.context, asker.policies
    text = context.redact(policies)(artifact_text(context.home.path, event, facts))
    counter = context.counter(policies)
    check_start(handle.start, text)
    start = handle.start or _start(text, handle.page, budget, counter, facts.name)
    kept = _page(text, start, budget, counter)
    end = start + len(kept)
    return facts, Page(kept, end if end < len(text) else None)


def material(asker: Requester, event: Event, handle: Handle) -> Expansion:
    """What the handle of an artifact gives a pack: no text unless it is approved.

    Nor where its file is not what was added: then `lost` says so.
    """
    item = Item.of(event, len(event.text))
    gone = asker.folds.memories.archived(event, upto=asker.as_of)
    item.settle(gone)
    facts = facts_of(event)
    reader = asker.context.reader(asker.channel, asker.now, agent=asker.agent)
    told = gone is None and reader.may_read(event) and reader.in_time(event)
    # Who may not see it is not told either that it has no text, or no such page.
    if facts is None or not told or not _covers(asker, event):
        return Expansion(str(handle), item, "", whole=False)
    context, policies = asker.context, asker.policies
    try:
        text = context.redact(policies)(artifact_text(context.home.path, event, facts))
    except ChangedError:
        return Expansion(str(handle), item, "", whole=False, lost="changed")
    start, end = handle.start, len(text)
    if handle.page > 1 and not start:
        counter = context.counter(policies)
        start = _start(text, handle.page, PAGE_TOKENS, counter, facts.name)
        end = start + len(_page(text, start, PAGE_TOKENS, counter))
    named = handle._replace(form="artifact", name=facts.digits)
    return Expansion(
        str(named),
        item,
        text[start:end],
        whole=False,
        start=start,
        ends=end == len(text),
        lost="past_end" if start and start >= end else "",
    )


def _covers(asker: Requester, event: Event) -> bool:
    approvals = asker.context.approvals(asker.folds)
    return approvals.covers(event.seq, event.id, as_of=asker.as_of, now=asker.now)


def _start(text: str, number: int, budget: int, counter: TokenCounter, name: str) -> int:
    """Where a page begins if all before it are of so many tokens."""
    if number > _PAGES_MAX:
        raise InputError(f"expected a page from 1 to {_PAGES_MAX}, found {number}", where="page")
    start = 0
    for before in range(1, number):
        start += len(_page(text, start, budget, counter))
        if start >= len(text):
            pages = f"{before} page{'s' if before > 1 else ''} of {budget} tokens"
            raise NotFoundError(f"{quoted_value(name, 120)} has {pages}, not {number}")
    return start


def _page(text: str, start: int, budget: int, counter: TokenCounter) -> str:
    """As much as the budget takes, to the end of a line where one ends late in it."""
    rest = text[start:]
    kept = cut(counter, rest, budget)
    if rest and not kept:
        raise BudgetError(f"{budget} tokens hold not one character of it", where="budget")
    if len(kept) < len(rest):
        line = kept.rfind("\n") + 1
        return kept[:line] if 2 * line > len(kept) else kept
    return kept
