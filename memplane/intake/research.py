"""Check research reports and bundles: their schemas, and a source for every citation.

A report is Markdown with a JSON file beside it that lists its sources and claims; a bundle is one
JSON file with the report, its sources, and their content. In the text `[@s1]` cites the source s1,
and `[@s1; @s2]` two of them. `[s9]` and `[^s9]` cite too where the sources are called s1, s2 and so
on: a number that none of them has is then a citation without a source. Code cites nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from memplane.errors import InputError
from memplane.intake.redact import masked, quoted_value
from memplane.lazy import regex
from memplane.policy.document import against_schema, key_text

__all__ = ["bundle_text", "check_bundle", "check_report", "citations"]

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
