"""A page as a file: what a browser may run of it, what it may load, and who may read it."""

import base64
import hashlib
import json
import os
import re
import stat

import pytest
from builders_pages import HOSTILE, NOW, Parts, opened, page_of, strings, view
from hypothesis import given, strategies as st

from memplane.errors import InputError, WriteError
from memplane.inspect import OPENING, document, inert_json, part, write_page

NAMES = (
    "block", "left-out", "prefix", "timeline", "values", "sessions", "tasks", "files", "privacy",
    "health",
)  # fmt: skip


def test_the_page_has_every_view_of_the_sample_session(sampled_once):
    with opened(sampled_once) as plane:
        page, data = page_of(plane)
    assert [one["id"] for one in data["views"]] == list(NAMES)
    assert view(data, "block")["tokens"] <= view(data, "block")["budget"]
    assert view(data, "prefix")["before"] is not None
    assert len(view(data, "timeline")["rows"]) == view(data, "timeline")["count"] > 150
    assert json.loads(Parts(page).texts["data"])["views"] == json.loads(inert_json(data["views"]))


def test_the_script_and_the_style_are_allowed_by_their_hash_and_nothing_else_is(sampled_once):
    with opened(sampled_once) as plane:
        parts = Parts(page_of(plane)[0])
    for what in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(parts.texts[what].encode()).digest()).decode()
        assert f"{what}-src 'sha256-{digest}'" in parts.rules
    assert parts.rules.startswith("default-src 'none'; ")
    assert "base-uri 'none'; form-action 'none'" in parts.rules
    assert "unsafe" not in parts.rules
    assert "connect-src" not in parts.rules
    assert parts.handlers == []
    assert sorted(parts.tags) == sorted(
        ["html", "head", "body", "title", "style", "div", "noscript", "script", "script"]
        + ["meta"] * 7
    )


def test_the_page_names_no_address_but_that_of_svg():
    for name in ("page.js", "page.css"):
        found = re.findall(
            r"(?:https?:)?//[\w.]+[^\s\"']*", re.sub(r"(?m)^\s*//.*$", "", part(name))
        )
        assert [one for one in found if "www.w3.org/2000/svg" not in one] == []
        assert not re.search(
            r"@import|url\(|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", part(name)
        )


def test_hostile_texts_of_every_field_stay_within_the_data(hostile_once):
    with opened(hostile_once) as plane:
        page, data = page_of(plane, "private")
    parts = Parts(page)
    assert parts.tags.count("script") == 2
    assert not {"img", "svg", "b"} & {*parts.tags}
    assert parts.handlers == []
    raw = parts.texts["data"]
    assert not re.search(r"[<>&\u2028\u2029\u202a-\u202e\u2066-\u2069]", raw)
    told = "\n".join(strings(json.loads(raw)))
    for text in HOSTILE[:7]:
        assert text in told
    assert "\u05e9\u05dc\u05d5\u05dd" in told
    assert max(map(len, strings(data))) <= 8_000
    assert len(page) < 400_000


@given(st.text())
def test_any_text_comes_back_from_the_data_but_for_what_orders_text(text):
    found = inert_json({"text": text})
    assert not re.search(r"[<>&\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]", found)
    clean = re.sub(
        r"[\u0085\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]", "\ufffd", text
    )
    assert json.loads(found)["text"] == clean
    found.encode()


def test_half_a_character_does_not_stop_a_page():
    page = document({"title": "a\ud800b", "views": [{"id": "x", "label": "a\ud800b", "parts": []}]})
    assert page.decode().count("a\ufffdb") == 3  # title, and twice in the data


def test_the_same_plane_and_clock_give_the_same_bytes(sampled_once):
    pages = []
    for _ in range(2):
        with opened(sampled_once) as plane:
            pages.append(page_of(plane)[0])
    assert pages[0] == pages[1]


def test_a_page_is_written_for_its_owner_alone_and_over_an_older_page(tmp_path):
    before = os.umask(0)
    try:
        path = write_page(tmp_path / "page.html", OPENING + b"one")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o644)
        write_page(path, OPENING + b"two")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == OPENING + b"two"
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]


def test_what_is_no_page_is_written_over_only_when_that_is_said(tmp_path):
    notes = tmp_path / "notes.html"
    notes.write_text("mine")
    with pytest.raises(InputError, match="is no page of memplane"):
        write_page(notes, OPENING)
    assert notes.read_text() == "mine"
    write_page(notes, OPENING, replace=True)
    assert notes.read_bytes() == OPENING


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_never_written_through_nor_replaced(tmp_path, there):
    target, link = tmp_path / "target", tmp_path / "page.html"
    if there:
        target.write_bytes(OPENING)
    link.symlink_to(target)
    with pytest.raises(InputError, match="a link"):
        write_page(link, OPENING + b"new", replace=True)
    assert link.is_symlink()
    assert target.exists() == there
    assert not there or target.read_bytes() == OPENING


def test_a_page_goes_nowhere_where_there_is_no_folder(tmp_path):
    with pytest.raises(WriteError):
        write_page(tmp_path / "none" / "page.html", OPENING)


def test_reading_for_a_page_writes_nothing_to_the_log(sample):
    files = {path: path.read_bytes() for path in (sample / "log").iterdir() if path.is_file()}
    reports = sorted((sample / "reports").iterdir())
    with opened(sample) as plane:
        page_of(plane)
        page_of(plane, "private")
    assert {
        path: path.read_bytes() for path in (sample / "log").iterdir() if path.is_file()
    } == files
    assert sorted((sample / "reports").iterdir()) == reports


def test_the_page_says_when_it_was_made_and_for_whom(sampled_once):
    with opened(sampled_once) as plane:
        agents, owners = page_of(plane)[1], page_of(plane, "private")[1]
    assert (agents["private"], owners["private"]) == (False, True)
    assert agents["facts"]["now"] == NOW[:19]
    assert (agents["facts"]["channel"], owners["facts"]["channel"]) == ("agent", "private")
    assert agents["facts"]["home"] == ""
