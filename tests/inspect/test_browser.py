"""Pages in a real browser: drawn, laid out, searched, read out, and never reached by a text.

Needs Debian's `chromium` (or MEMPLANE_CHROMIUM), `playwright` from PyPI and, for the rules of
accessibility, `axe-core` from npm: `make test-browser` installs the last two. Skipped without.
"""

import json
import os
import random
import re
import shutil
import threading
import time
from pathlib import Path

import pytest
from builders_pages import made, opened, packed, page_of, view

from memplane.cli import figures
from memplane.inspect import LiveServer, PageRequest, document, write_page

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: make test-browser"
)
CHROMIUM = os.environ.get("MEMPLANE_CHROMIUM") or shutil.which("chromium")
ROOT = Path(__file__).parents[2]
AXE = ROOT / ".browser" / "node_modules" / "axe-core" / "axe.min.js"
WIDTHS = (1280, 800, 390)
EVENTS = 20_000
STEP = 60  # rows that the page draws at once

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

# Elements that stick out of the page, or lie over the next one in reading order.
LAYOUT = """() => {
  const wrong = [];
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) wrong.push(`page ${document.documentElement.scrollWidth} of ${wide}`);
  const name = (one) => `${one.tagName}.${one.className.baseVal ?? one.className} ${one.textContent.slice(0, 40)}`;
  const clips = (one) => {
    for (let up = one.parentElement; up; up = up.parentElement) {
      const style = getComputedStyle(up);
      if (style.overflowX !== "visible" || up.closest(".unseen")) return true;
    }
    return false;
  };
  const shown = (one) => one.getClientRects().length && getComputedStyle(one).visibility !== "hidden" && !one.closest(".unseen, .skip");
  for (const one of document.querySelectorAll("body *")) {
    if (!shown(one) || clips(one)) continue;
    const box = one.getBoundingClientRect();
    if (box.width && (box.right > wide + 1 || box.left < -1)) wrong.push(`outside ${name(one)} ${Math.round(box.left)}..${Math.round(box.right)}`);
  }
  for (const parent of document.querySelectorAll("main *, main, .top, .page-facts, .meta, .legend, .tools, dl")) {
    const kids = [...parent.children].filter((one) => shown(one) && getComputedStyle(one).position !== "absolute" && !(one instanceof SVGElement) && one.tagName !== "OPTION");
    for (let at = 1; at < kids.length; at += 1) {
      const [a, b] = [kids[at - 1].getBoundingClientRect(), kids[at].getBoundingClientRect()];
      const over = Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1.5;
      if (over && getComputedStyle(parent).display !== "inline" && getComputedStyle(kids[at]).display !== "inline" && getComputedStyle(kids[at - 1]).display !== "inline") wrong.push(`over ${name(kids[at - 1])} | ${name(kids[at])}`);
    }
  }
  return wrong.slice(0, 12);
}"""


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Shown:
    """A page that is open: what it asked for, what it complained of."""

    def __init__(self, browser, url, width=1280, scheme="light", **more):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, **more
        )
        self.tab = self.context.new_page()
        self.asked, self.faults = [], []
        self.tab.on("request", lambda one: self.asked.append(one.url))
        self.tab.on(
            "console",
            lambda one: self.faults.append(one.text) if one.type in ("error", "warning") else None,
        )
        self.tab.on("pageerror", lambda one: self.faults.append(str(one)))
        self.tab.on("dialog", lambda one: (self.faults.append(one.message), one.dismiss()))
        self.url = url
        self.tab.goto(url)
        self.tab.wait_for_selector("#view-title")

    def view(self, name):
        self.tab.evaluate("name => { location.hash = name; }", name)
        self.tab.wait_for_function(
            "name => document.getElementById('main').dataset.view === name", arg=name
        )

    def count(self, selector):
        return self.tab.locator(selector).count()

    def close(self):
        self.context.close()


@pytest.fixture
def show(browser):
    opened_pages = []

    def show(path, **more):
        opened_pages.append(
            Shown(browser, path if str(path).startswith("http") else Path(path).as_uri(), **more)
        )
        return opened_pages[-1]

    yield show
    for one in opened_pages:
        one.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory, sampled_once, hostile_once):
    """Pages in files, with their data: the sample session, hostile texts, 20,000 events."""
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name, home, channel in (("sample", sampled_once, "agent"), ("hostile", hostile_once, "private"),
                                ("large", large(folder / "large"), "agent")):  # fmt: skip
        with opened(home) as plane:
            page, data = page_of(plane, channel)
        found[name] = write_page(folder / f"{name}.html", page), data
    return found


def large(folder):
    words = "parser lexer index token cache branch deploy schema retry queue worker socket header session".split()
    dice = random.Random(4)
    with made(folder) as plane:
        plane.record_many(
            {
                "text": " ".join(dice.choices(words, k=dice.randint(5, 40))), "role": "user",
                "kind": ("message", "fact")[number % 5 == 0], "session": f"work-{number // 400}",
                "ts": f"2026-02-{1 + number // 900:02}T{8 + number % 900 // 60:02}:{number % 60:02}:00Z",
                **({"key": f"{dice.choice(words)}.{dice.choice(words)}"} if number % 5 == 0 else {}),
            }
            for number in range(EVENTS)
        )  # fmt: skip
    for at, asked in enumerate(("which cache?", "which queue?")):
        packed(folder, asked, "work-49", at)
    return folder


def names_of(data, row):
    """The other words of an event that a search looks at: its key, who said it, its kind."""
    known = view(data, "timeline")["names"]
    return " ".join(known[row[at]] for at in (2, 3, 5) if row[at] >= 0)


def test_the_timeline_has_its_days_in_the_order_of_time_not_of_the_log(tmp_path, show):
    with made(tmp_path / "plane") as plane:
        for text, ts in (("third", "2026-02-09T08:00:00Z"), ("first", "2026-01-05T08:00:00Z"),
                         ("fourth", "2026-02-09T09:00:00Z"), ("second", "2026-02-08T23:00:00Z")):  # fmt: skip
            plane.record(f"the {text} heron", role="user", session="s", ts=ts)
        page, _ = page_of(plane)
    shown = show(write_page(tmp_path / "page.html", page))
    shown.view("timeline")
    assert shown.tab.locator(".days .day h3").count() == 3
    said = shown.tab.locator(".days .event-row").all_inner_texts()
    order = [next(word for word in ("first", "second", "third", "fourth") if word in one)
             for one in said]  # fmt: skip
    assert order == ["fourth", "third", "second", "first"]


def test_a_session_may_have_the_name_of_what_every_object_has(tmp_path, show):
    with made(tmp_path / "plane") as plane:
        for name in ("constructor", "__proto__", "toString"):
            plane.record(f"ok {len(name)}", role="user", session=name)  # too short for a title
        page, data = page_of(plane)
    shown = show(write_page(tmp_path / "page.html", page))
    shown.view("timeline")
    assert shown.tab.locator(".session-name").all_inner_texts() == [
        "toString", "__proto__", "constructor",
    ]  # fmt: skip
    for name in names(data):
        shown.view(name)
        assert "native code" not in shown.tab.inner_text("main")
        assert "[object" not in shown.tab.inner_text("main")
    assert shown.faults == []


def names(data):
    return [one["id"] for one in data["views"]]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", ["sample", "large", "hostile"])
def test_every_view_is_drawn_and_nothing_overlaps_or_sticks_out(pages, show, which, width, scheme):
    path, data = pages[which]
    shown = show(path, width=width, scheme=scheme)
    for name in names(data):
        shown.view(name)
        assert shown.tab.inner_text("#view-title")
        assert shown.tab.evaluate(LAYOUT) == [], name
        for closed in shown.tab.locator("main details:not([open]) > summary").all()[:3]:
            if closed.is_visible():
                closed.click()
        assert shown.tab.evaluate(LAYOUT) == [], f"{name}, opened"
    assert shown.faults == []


def test_the_check_of_the_layout_finds_what_is_wrong(pages, show):
    shown = show(pages["sample"][0])
    assert shown.tab.evaluate(LAYOUT) == []
    shown.tab.evaluate("() => { document.querySelector('.group').style.marginTop = '-3rem'; }")
    assert any(one.startswith("over ") for one in shown.tab.evaluate(LAYOUT))
    shown.tab.evaluate("() => { document.querySelector('.view-head').style.width = '1400px'; }")
    assert any(one.startswith(("outside ", "page ")) for one in shown.tab.evaluate(LAYOUT))


@pytest.mark.parametrize("which", ["sample", "large", "hostile"])
def test_no_request_leaves_the_page(pages, show, which):
    path, data = pages[which]
    shown = show(path)
    for name in names(data):
        shown.view(name)
        shown.tab.mouse.wheel(0, 20_000)
    assert shown.asked == [shown.url]


def test_hostile_texts_are_shown_as_they_are_and_reach_nothing(pages, show):
    path, data = pages["hostile"]
    shown = show(path)
    for name in names(data):
        shown.view(name)
        shown.tab.evaluate(
            "() => document.querySelectorAll('main details').forEach((one) => { one.open = true; })"
        )
        shown.tab.wait_for_timeout(50)
        assert shown.tab.evaluate("globalThis.reached") is None
        assert (
            shown.count(
                "main img, main script, main iframe, main b:not(.fact b), main [onerror], main [onload]"
            )
            == 0
        )
    shown.view("timeline")
    shown.tab.fill("#search", "onerror")
    shown.tab.wait_for_function(
        "() => document.querySelector('.found').textContent.includes(' of ')"
    )
    assert "<img src=x onerror=" in shown.tab.inner_text("main")
    assert shown.faults == []


def test_a_script_that_got_in_would_not_run(pages, show):
    shown = show(pages["sample"][0])
    for code in (
        "() => { document.body.innerHTML = '<b>x</b>'; }",
        "() => document.createElement('img').setAttribute('onerror', 'globalThis.reached = 1')",
        "() => { document.createElement('script').textContent = 'globalThis.reached = 1'; }",
    ):
        with pytest.raises(sync_api.Error, match="Trusted"):
            shown.tab.evaluate(code)
    shown.tab.evaluate("""() => {
      const one = document.createElement("img");
      one.src = "https://example.org/x.png";
      document.body.append(one);
    }""")
    shown.tab.wait_for_timeout(200)
    assert shown.tab.evaluate("globalThis.reached") is None
    assert any("Content Security Policy" in one for one in shown.faults)


def test_words_are_searched_as_they_are_typed_and_rows_are_drawn_in_steps(pages, show):
    path, data = pages["large"]
    shown = show(path)
    shown.view("timeline")
    assert shown.tab.inner_text(".found") == "10,000 events"
    assert shown.count(".event-row") <= 3 * STEP
    shown.tab.locator("#search").press_sequentially("queue socket lexer")
    shown.tab.wait_for_function(
        "() => document.querySelector('.found').textContent.includes(' of ')"
    )
    wanted = sum(
        {"queue", "socket", "lexer"}
        <= {*re.findall("queue|socket|lexer", row[-1].lower() + names_of(data, row))}
        for row in view(data, "timeline")["rows"]
    )
    assert shown.tab.inner_text(".found") == f"{wanted:,} of 10,000 events"
    shown.tab.mouse.move(700, 600)
    for _ in range(4):
        shown.tab.mouse.wheel(0, 30_000)
        shown.tab.wait_for_timeout(100)
    assert STEP < shown.count(".event-row") <= 10 * STEP
    shown.tab.fill("#search", "no such word")
    shown.tab.wait_for_selector(".empty")
    assert shown.count(".event-row") == 0


def test_the_chain_of_a_value_is_opened_by_the_keyboard(pages, show):
    path, data = pages["sample"]
    chain = next(one for one in view(data, "values")["chains"] if len(one["versions"]) > 1)
    shown = show(path)
    shown.view("values")
    shown.tab.locator(f'[data-key="{chain["key"]}"] > summary').press("Enter")
    links = shown.tab.locator(f'[data-key="{chain["key"]}"] .links > li')
    links.first.wait_for()
    assert links.count() == len(chain["versions"])
    assert chain["versions"][-1]["text"] in links.first.inner_text()
    assert "in force" in links.first.inner_text()
    assert f"by #{chain['versions'][0]['by']}" in links.last.inner_text()
    command = shown.tab.locator(
        f'[data-key="{chain["key"]}"] .chain-body > .commands code'
    ).first.inner_text()
    assert command == f"memplane history {chain['key']}"


def test_a_command_is_copied_and_said(pages, show):
    path, _ = pages["sample"]
    shown = show(path)
    shown.context.grant_permissions(["clipboard-read", "clipboard-write"])
    first = shown.tab.locator(".command").first
    first.click()
    shown.tab.wait_for_function(
        "() => [...document.querySelectorAll('[role=status]')].some((one) => one.textContent === 'Copied')"
    )
    assert (
        shown.tab.evaluate("navigator.clipboard.readText()") == first.locator("code").inner_text()
    )


def test_views_are_reached_by_keys_and_the_theme_changes(pages, show):
    path, data = pages["sample"]
    shown = show(path)
    for name in [*names(data)[1:], names(data)[0]]:
        shown.tab.keyboard.press("]")
        shown.tab.wait_for_function(
            "name => document.getElementById('main').dataset.view === name", arg=name
        )
        assert shown.tab.evaluate("document.activeElement.id") == "view-title"
        assert shown.tab.locator("nav [aria-current]").count() == 1
    shown.view("timeline")
    shown.tab.keyboard.press("/")
    assert shown.tab.evaluate("document.activeElement.id") == "search"
    ground = "getComputedStyle(document.body).backgroundColor"
    before = shown.tab.evaluate(ground)
    shown.tab.locator(".theme").click()
    assert shown.tab.evaluate(ground) != before


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: make test-browser")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_rules_of_accessibility_hold_in_every_view(pages, show, width, scheme):
    path, data = pages["sample"]
    shown = show(path, width=width, scheme=scheme, bypass_csp=True)
    shown.tab.evaluate(AXE.read_text())
    for name in names(data):
        shown.view(name)
        for closed in shown.tab.locator("main details:not([open]) > summary").all()[:3]:
            if closed.is_visible():
                closed.click()
        found = shown.tab.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        told = [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found]
        assert told == [], name


def test_opening_twenty_thousand_events_is_reported(pages, show, record_testsuite_property):
    path, _ = pages["large"]
    begun = time.perf_counter()
    shown = show(path)
    took = time.perf_counter() - begun
    inside = shown.tab.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
    said = {
        "bytes": path.stat().st_size,
        "opened_ms": round(1000 * took),
        "dom_complete_ms": round(inside),
    }
    record_testsuite_property("page of 20,000 events", json.dumps(said))
    print(f"\npage of {EVENTS:,} events: {said}")  # noqa: T201 - a figure to report, not to hold
    assert shown.count("body *") < 4_000


def test_a_report_is_drawn_too(show, tmp_path, sampled_once):
    row = {"work": "record", "unit": "us", "p50": 12.3, "p95": 20.0, "aim": 15.0, "missed": False, "noise": 1.0,
           "runs": 9, "peers": [{"name": "a bare write", "p50": 9.0, "p95": 9.5, "ratio": 1.3, "runs": 9}]}  # fmt: skip
    facts = {"date": "2026-03-01", "python": "3", "sqlite": "3", "system": "Linux", "machine": "x", "cores": 2,
             "load": 0.5, "rounds": 1, "quick": True}  # fmt: skip
    lines = {
        "label": "Recall",
        "labels": ["500", "1,000"],
        "series": [{"name": "memplane", "values": [10, 20]}],
    }
    data = figures.bench_page(facts, [row], [])
    data["views"].append(
        {"id": "curves", "label": "Curves", "lead": "", "parts": [{"title": "One", "lines": lines}]}
    )
    shown = show(write_page(tmp_path / "report.html", document(data)))
    assert shown.count("tbody tr") == 2
    shown.view("curves")
    assert shown.count("polyline") == 1
    for width in WIDTHS:
        shown.tab.set_viewport_size({"width": width, "height": 800})
        assert shown.tab.evaluate(LAYOUT) == []
    assert shown.faults == []


def test_the_live_page_acts_after_a_confirmation_and_follows_the_log(show, sample):
    with opened(sample) as plane, LiveServer(plane, PageRequest()) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            event = plane.record("the bilby digs", kind="fact", key="bilby", session="s9")
            shown = show(server.url)
            shown.view("timeline")
            shown.tab.fill("#search", "bilby")
            shown.tab.wait_for_function(
                "() => document.querySelectorAll('.event-row').length === 1"
            )
            shown.tab.locator(".event-row .event > summary").click()
            shown.tab.get_by_role("button", name="Forget", exact=True).click()
            assert plane.get("bilby") is not None
            shown.tab.get_by_role("button", name="Cancel").click()
            assert plane.get("bilby") is not None
            shown.tab.get_by_role("button", name="Forget", exact=True).click()
            shown.tab.locator("dialog").get_by_role("button", name="Forget").click()
            shown.tab.wait_for_function(
                "() => document.getElementById('live-state').textContent.startsWith('Forgotten')"
            )
            assert plane.work.standing(plane.event(event.id)).reason == "forgotten"
            shown.tab.fill("#search", "")
            shown.tab.locator("h1").click()
            shown.tab.wait_for_function(
                "() => !document.querySelector('main').textContent.includes('bilby')",
                timeout=20_000,
            )
            shown.tab.get_by_role("button", name="Take back that").click()
            shown.tab.locator("dialog").get_by_role("button", name="Unforget").click()
            shown.tab.wait_for_function(
                "() => document.querySelector('main')?.textContent.includes('the bilby digs')",
                timeout=20_000,
            )
            assert plane.get("bilby") is not None
            plane.record("the numbat wakes", role="user", session="s9")
            shown.tab.wait_for_function(
                "() => document.getElementById('main')?.textContent.includes('the numbat wakes')",
                timeout=20_000,
            )
            assert {url.split("/")[2] for url in shown.asked} == {f"127.0.0.1:{server.port}"}
        finally:
            server.stop()
            thread.join()
