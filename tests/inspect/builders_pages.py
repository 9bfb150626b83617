"""Planes to look at, and pages taken apart again: as a browser reads them, without one."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import memplane
from memplane.importers import import_paths
from memplane.inspect import PageRequest, compose, document

SAMPLES = Path(__file__).parents[2] / "scenarios" / "data"
NOW = "2026-03-01T09:00:00.000000Z"
# What a page must take as text, wherever it stands.
HOSTILE = (
    "<script>globalThis.reached = 1</script>",
    '<img src=x onerror="globalThis.reached = 1">',
    "</script><script>globalThis.reached = 1</script>",
    "<!--<script>",
    "]]><svg/onload=globalThis.reached=1>",
    "javascript:globalThis.reached=1",
    "${globalThis.reached=1} {{reached}} `reached`",
    "\u202egnp.exe\u202c \u2066right to left\u2069 \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "line\u2028separator\u2029paragraph",
    "' \" ; $(touch reached) `touch reached` && rm -rf /",
)


def made(folder, **more):
    return memplane.init(folder, durability="os", clock=lambda: NOW, environment={}, **more)


def opened(folder, **more):
    return memplane.open(folder, clock=lambda: NOW, environment={}, **more)


def packed(folder, asked, session, minute):
    """Save a pack of the agent's channel; reports are named by the time of the plane's clock."""
    now = f"2026-03-01T08:{minute:02}:00.000000Z"
    with memplane.open(folder, clock=lambda: now, environment={}) as plane:
        return plane.pack(asked, session=session, channel="agent", save_report=True)


def sampled(folder):
    """The sample session and its decisions, with two saved packs."""
    with made(folder) as plane:
        import_paths(plane, None, [SAMPLES / "sample-session.jsonl"])
        rows = (SAMPLES / "sample-decisions.jsonl").read_text().splitlines()
        plane.record_many([json.loads(row) for row in rows])
        plane.work.tasks.open("expiry", "Links expire", plan=["write the column", "sweep at night"])
        plane.upkeep.index()
        session = plane.work.sessions.list(channel="agent")[-1].id
    for at, asked in enumerate(("which status do redirects use?", "what failed in the tests?")):
        packed(folder, asked, session, at)
    return folder


def hostile(folder, texts=HOSTILE):
    """A plane where every field that takes words holds hostile ones, and a text has a megabyte."""
    with made(folder) as plane:
        for at, text in enumerate(texts):
            name = re.sub(r"[\u2028\u2029]", " ", text)  # a name on two lines is refused
            plane.record(
                text, kind="fact", key=f"k {name}", session=f"s{at} {text}", actor=name[:80],
                tags=[text[:60]], role="user", task=f"t{at}",
            )  # fmt: skip
            plane.record(f"{text} again", kind="decision", key=f"k {name}", session=f"s{at} {text}")
            plane.record(
                text, kind="tool_call", session=f"s{at} {text}", role="assistant",
                data={"tool": text[:60], "path": f"src/{text[:60].replace('/', '_')}", "call": "c"},
            )  # fmt: skip
            plane.work.tasks.open(f"task{at}", text, plan=[text, "another"])
        plane.record("x" * 1_000_000, role="user", session="long")
        plane.record(f"{'<b>' * 300_000}", role="user", session="long")
        plane.pack(texts[0], session="long", channel="agent", save_report=True)
    return folder


def page_of(plane, channel="agent", **more):
    """The page and its data."""
    data = compose(plane, PageRequest(channel, **more))
    return document(data), data


class Parts(HTMLParser):
    """The elements of a page, and the texts of its scripts and style."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self.rules, self.handlers = [], {}, "", []
        self._open = None
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        named = dict(attrs)
        self.handlers += [name for name in named if name.startswith("on")]
        if named.get("http-equiv") == "Content-Security-Policy":
            self.rules = named["content"]
        if tag in ("script", "style"):
            self._open = named.get("id") or tag

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._open = None

    def handle_data(self, data):
        if self._open is not None:
            self.texts[self._open] = self.texts.get(self._open, "") + data


def view(data, name):
    return next(one for one in data["views"] if one["id"] == name)


def strings(value):
    """Every text of some data, keys of mappings left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from strings(one)
