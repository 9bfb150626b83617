"""What may stand on a page: never what its channel may not see, what was forgotten, or a secret."""

import pytest
from builders_pages import made, opened, page_of, strings, view
from hypothesis import given, settings, strategies as st

from memplane import inspect
from memplane.errors import InputError, NotFoundError
from memplane.home import open_home
from memplane.inspect import EVENTS_MAX, KEYS_MAX, PageRequest, Visible, compose
from memplane.projects import for_folder
from memplane.upkeep.reports import find_report
from memplane.wiring import open_found
from tests.examples import examples

KINDS = ("message", "fact", "decision", "tool_call", "preference")


def event(number, sensitivity, kind, ns, keyed, task):
    word = f"quokka{number}"
    row = {"text": f"{word} is what was said", "kind": kind, "sensitivity": sensitivity, "ns": ns}
    row |= {"session": "s1", "role": "user"}
    if keyed and kind != "message":
        row["key"] = f"{word}.key"
    if task:
        row["task"] = f"{word}task"
    if kind == "tool_call":
        row["data"] = {"tool": "Read", "path": f"src/{word}.py", "call": f"c{number}"}
    return row


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("low", "normal", "high", "secret")),
            st.sampled_from(KINDS),
            st.sampled_from(("/global", "/agent/ada", "/project/web")),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=examples(12))
def test_nothing_high_secret_or_an_agents_own_is_on_the_page_by_default(tmp_path_factory, facts):
    rows = [event(number, *one) for number, one in enumerate(facts)]
    hidden = {
        f"quokka{number}"
        for number, (sensitivity, _, ns, _, _) in enumerate(facts)
        if sensitivity in ("high", "secret") or ns == "/agent/ada"
    }
    with made(tmp_path_factory.mktemp("plane") / "plane") as plane:
        plane.record_many(rows)
        plane.pack("quokka", session="s1", save_report=True)  # the owner's: no page of another
        plane.pack("quokka", session="s1", channel="agent", save_report=True)
        page, data = page_of(plane)
        text = page.decode()
        assert [
            word
            for word in hidden
            if f"{word} " in text or f"{word}." in text or f"{word}task" in text
        ] == []
        shown = {f"quokka{number}" for number in range(len(facts))} - hidden
        rows = view(data, "timeline")["rows"]
        assert {row[-1].split()[0] for row in rows} == shown


def test_the_owner_may_ask_for_what_is_private_and_never_gets_a_secret(tmp_path):
    with made(tmp_path / "plane") as plane:
        plane.record("the numbat sleeps", sensitivity="high", session="s1", role="user")
        plane.record("the bilby digs", sensitivity="secret", session="s1", role="user")
        assert "numbat" not in page_of(plane)[0].decode()
        mine = page_of(plane, "private")[0].decode()
        assert "numbat" in mine
        assert "bilby" not in mine


def test_no_channel_but_the_owners_is_shown_what_is_high_whatever_a_policy_lets_it_see(tmp_path):
    with made(tmp_path / "plane") as plane:
        plane.record(
            "the numbat sleeps", sensitivity="high", kind="fact", key="numbat.den", session="s1"
        )
        file = plane.home / "policies" / "privacy.yaml"
        rule = "agent:   {suppress_sensitivity: [high, secret]}"
        assert rule in file.read_text()
        file.write_text(file.read_text().replace(rule, "agent:   {suppress_sensitivity: [secret]}"))
        assert "numbat" in plane.pack("numbat", channel="agent").text
        assert "numbat" not in page_of(plane)[0].decode()


def test_secrets_are_masked_by_todays_rules_as_in_exports(tmp_path):
    with made(tmp_path / "plane") as plane:
        plane.record("the badge is WOMBAT-4471-K", session="s1", role="user")
        plane.pack("badge", session="s1", channel="agent", save_report=True)
        assert "WOMBAT-4471-K" in page_of(plane)[0].decode()
        file = plane.home / "policies" / "privacy.yaml"
        text = file.read_text()
        assert "redact_patterns: [" in text
        file.write_text(text.replace("redact_patterns: [", 'redact_patterns: ["WOMBAT-[0-9]+-K", '))
        page = page_of(plane)[0].decode()
        assert "WOMBAT" not in page
        assert "[redacted:" in page


def test_what_is_forgotten_or_purged_is_gone_from_the_next_page_and_from_saved_packs(sample):
    with opened(sample) as plane:
        event = plane.record(
            "the wallaby keeps the spare key", kind="fact", key="spare", session="s9"
        )
        plane.pack("where is the spare key?", session="s9", channel="agent", save_report=True)
        page, data = page_of(plane)
        assert "wallaby" in "\n".join(strings(view(data, "block")))
        plane.forget(id=event.id)
        page, data = page_of(plane)
        assert "wallaby" not in page.decode()
        assert any(entry["withheld"] for entry in view(data, "block")["entries"])
        plane.unforget(id=event.id)
        assert "wallaby" in page_of(plane)[0].decode()
        plane.upkeep.purge(event.id)
        page, data = page_of(plane)
        assert "wallaby" not in page.decode()
        assert view(data, "privacy")["purged"] == 1


def test_lines_that_name_no_event_go_when_the_rules_or_a_view_change(sample):
    (sample / "views" / "identity.md").write_text("You help Ann, who keeps bandicoots.\n")
    with opened(sample) as plane:
        plane.pack("who is Ann?", session="s9", channel="agent", save_report=True)
        told = [
            entry for entry in view(page_of(plane)[1], "block")["entries"] if not entry["events"]
        ]
        assert any("bandicoots" in entry["text"] for entry in told)
        assert not any(entry["withheld"] for entry in told)
        (sample / "views" / "identity.md").write_text("You help Ann.\n")
        assert "bandicoots" not in page_of(plane)[0].decode()
        (sample / "views" / "identity.md").write_text("You help Ann, who keeps bandicoots.\n")
        assert "bandicoots" in page_of(plane)[0].decode()
        rules = sample / "policies" / "privacy.yaml"
        text = rules.read_text()
        rule = "agent:   {suppress_sensitivity: [high, secret]"
        assert rule in text
        rules.write_text(text.replace(rule, f"{rule}, suppress_views: [views/identity.md]"))
        page, data = page_of(plane)
        assert "bandicoots" not in page.decode()
        assert view(data, "block")["query"] == ""


def test_half_a_secret_at_the_end_of_what_is_read_is_not_shown(sample):
    with opened(sample) as plane:
        visible = Visible(plane, "agent")
        for before in range(380, 420):
            told = visible.text(
                "x" * before + " password=hunter2hunter2hunter2 " + "y" * 9_000, 100
            )
            assert "hunter" not in told
            assert len(told) <= 100


def test_a_value_that_was_forgotten_is_no_link_of_its_chain(sample):
    with opened(sample) as plane:
        first = plane.record("port 8001", kind="fact", key="port", session="s9")
        plane.record("port 8002", kind="fact", key="port", session="s9")
        chain = next(
            one for one in view(page_of(plane)[1], "values")["chains"] if one["key"] == "port"
        )
        assert [one["reason"] for one in chain["versions"]] == ["superseded", None]
        assert chain["versions"][0]["by"] == chain["versions"][1]["seq"]
        plane.forget(id=first.id)
        assert "8001" not in page_of(plane)[0].decode()


def test_a_key_with_two_values_in_force_is_a_contradiction(sample):
    with opened(sample) as plane:
        plane.record("port 8001", kind="fact", key="port", ns="/project/web", session="s9")
        plane.record("port 8002", kind="fact", key="port", session="s9")
        values = view(page_of(plane)[1], "values")
        assert values["contradictions"] == 2
        found = {one["ns"]: one["contradicts"] for one in values["chains"] if one["key"] == "port"}
        assert found == {"/global": ["/project/web"], "/project/web": ["/global"]}


def test_a_page_of_a_report_shows_what_its_channel_saw(sample):
    with opened(sample) as plane:
        plane.record("the numbat sleeps", sensitivity="high", kind="fact", session="s9")
        plane.pack("numbat", session="s9", save_report=True)
        saved = find_report(plane.home, "last")
        data = compose(plane, PageRequest("agent", report=saved))
        assert data["private"]
        assert data["facts"]["channel"] == "private"
        assert view(data, "block")["report"] == saved.id
        assert "numbat" in "\n".join(strings(view(data, "block")))
        # The page of the agent's channel does not take the owner's pack for its own.
        assert view(page_of(plane)[1], "block")["report"] != saved.id


def test_without_a_saved_pack_the_block_is_made_for_the_page_and_not_kept(tmp_path):
    with made(tmp_path / "plane") as plane:
        plane.record("what is the port?", role="user", session="s1")
        data = page_of(plane)[1]
        assert view(data, "block")["report"] is None
        assert [one["id"] for one in data["views"]][:3] == ["block", "left-out", "timeline"]
        assert list((plane.home / "reports").iterdir()) == []


def test_a_report_whose_pack_cannot_be_made_again_leaves_a_note(sample):
    with opened(sample) as plane:
        saved = find_report(plane.home, "last")
        other = plane.home / "policies" / "budgets.yaml"
        digest = saved.report["policies"]["budgets.yaml"]
        (plane.home / "bodies" / "sha256" / digest[:2] / digest[2:]).unlink()
        assert other.exists()
        block = view(page_of(plane)[1], "block")
        assert block["report"] is None
        assert "cannot be made again" in block["note"]


def test_a_long_log_is_folded_for_a_saved_pack_only_when_that_is_asked_for(sample, monkeypatch):
    monkeypatch.setattr(inspect, "REPLAY_LINES_MAX", 10)
    with opened(sample) as plane:
        saved = find_report(plane.home, "last")
        block = view(page_of(plane)[1], "block")
        assert block["report"] is None
        assert f"--report {saved.id}" in block["note"]
        assert view(page_of(plane, report=saved)[1], "block")["report"] == saved.id


def test_a_page_of_one_project_has_nothing_of_another(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / ".memplane"
    made(home).close()
    for name in ("app", "web"):
        (tmp_path / name).mkdir()
        with open_found(for_folder(open_home(home), str(tmp_path / name))[0]) as plane:
            about = {"session": f"s-{name}", "role": "user"}
            plane.record(f"the {name} heron waits", kind="fact", key=f"{name}.heron", **about)
            plane.record(f"where does the {name} heron wait?", **about)
            plane.work.tasks.open(f"feed-{name}", f"Feed the {name} heron")
            for channel in ("agent", "private"):
                plane.pack("heron", session=f"s-{name}", channel=channel, save_report=True)
    with open_found(for_folder(open_home(home), str(tmp_path / "app"))[0]) as plane:
        for channel in ("agent", "private"):
            data = page_of(plane, channel)[1]
            told = "\n".join(strings([data["views"], data["notices"]]))
            assert "app heron" in told
            assert "web heron" not in told
            assert "s-web" not in told
            assert "feed-web" not in told


def test_a_session_and_a_time_narrow_the_timeline(sample):
    with opened(sample) as plane:
        session = plane.work.sessions.list(channel="agent")[0].id
        data = compose(plane, PageRequest(session=session))
        names = view(data, "timeline")["names"]
        assert {names[row[4]] for row in view(data, "timeline")["rows"]} == {session}
        since = compose(plane, PageRequest(since="2026-02-12T00:00:00Z"))
        assert min(row[1] for row in view(since, "timeline")["rows"]) >= "2026-02-12"
        with pytest.raises(InputError):
            compose(plane, PageRequest(since="yesterday-ish"))
        with pytest.raises(InputError):
            compose(plane, PageRequest("nobody"))
        with pytest.raises(NotFoundError, match="no event of session 'nobody'"):
            compose(plane, PageRequest(session="nobody"))


def test_a_page_in_the_making_says_how_far_it_is_and_never_goes_back(sample):
    reached = []
    with opened(sample) as plane:
        with_bar = compose(plane, PageRequest(), lambda *given: reached.append(given))
        assert with_bar == compose(plane, PageRequest())
    done = [one for one, _ in reached]
    assert len(done) > 3
    assert done == sorted(done)
    assert {total for _, total in reached} == {1_000}
    assert done[-1] <= 1_000


@pytest.mark.long  # makes and reads 12,000 events
def test_a_page_takes_so_many_events_and_keys_and_says_what_it_left_off(tmp_path):
    with made(tmp_path / "plane") as plane:
        plane.record_many(
            {"text": f"note {n}", "kind": "fact", "key": f"k{n % 500}"}
            for n in range(EVENTS_MAX + 500)
        )
        data = page_of(plane)[1]
        assert len(view(data, "timeline")["rows"]) == EVENTS_MAX
        assert view(data, "timeline")["more"] == 500
        assert len(view(data, "values")["chains"]) == KEYS_MAX
        assert view(data, "values")["more"] == 500 - KEYS_MAX
        assert any("newest 10,000 events" in one for one in data["notices"])


def test_what_lists_secrets_and_names_places_is_for_the_owner(sampled_once):
    with opened(sampled_once) as plane:
        agents, owners = (view(page_of(plane, name)[1], "health") for name in ("agent", "private"))
        home = str(plane.home)
    values = {name: {one["key"]: one["value"] for one in rows["policies"] if one["file"] == "privacy.yaml"}
              for name, rows in (("agent", agents), ("private", owners))}  # fmt: skip
    assert set(values["agent"].values()) == {"\u2026"}
    assert set(values["private"].values()) != {"\u2026"}
    assert home not in "\n".join(strings(agents))
