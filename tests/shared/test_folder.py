"""What a sync takes in, what it sends, and what it never does."""

import json
import shutil

import pytest
from builders_folders import befriended, device_in, event, everyone, files_in, made, written
from builders_hostile_files import HOSTILE, PLACES, hostile_line

import memplane
from memplane.cli.run import run_command_line
from memplane.errors import HomeError, InputError, NotFoundError
from memplane.shared import device_file, folder as sync
from memplane.shared.device_file import DeviceLines, FilePlace
from tests.examples import sampled

DEVICE = "0123456789abcdef"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


@pytest.fixture
def ann(tmp_path):
    with made(tmp_path / "ann") as plane:
        yield plane


@pytest.fixture
def bob(tmp_path):
    with made(tmp_path / "bob") as plane:
        yield plane


def texts(plane):
    return [line.event.text for line in plane.context.log.read() if line.event.text]


def head(plane):
    return plane.context.log.head().seq


# --- accepting ---


def test_a_device_counts_once_it_is_accepted(ann, bob, folder):
    ann.record("We deploy to Fly", kind="decision", key="deploy")
    ann.upkeep.sync(folder, name="ann")
    waiting = bob.upkeep.sync(folder, name="bob").devices[0]
    assert (waiting.status, waiting.name, waiting.events) == ("waiting", "ann", 1)
    assert waiting.first == waiting.last == "2026-01-05"
    assert bob.get("deploy") is None
    bob.upkeep.sync(folder, accept=waiting.device)
    assert bob.get("deploy").text == "We deploy to Fly"


def test_a_device_may_be_named_by_the_beginning_of_its_id(ann, bob, folder):
    ann.upkeep.sync(folder, name="ann")
    device = device_in(ann, folder)
    with pytest.raises(NotFoundError):
        bob.upkeep.sync(folder, accept="zzzz")
    with pytest.raises(NotFoundError):
        bob.upkeep.sync(folder, accept=device[:2])
    report = bob.upkeep.sync(folder, accept=device[:6])
    assert [one.status for one in report.devices] == ["accepted"]


def test_a_refused_device_says_nothing_more_and_what_came_stays(ann, bob, folder):
    ids = befriended({"ann": ann, "bob": bob}, folder)
    ann.record("first", kind="fact", key="a")
    everyone([ann, bob], folder)
    bob.upkeep.sync(folder, refuse=ids["ann"])
    ann.record("second", kind="fact", key="a")
    everyone([ann, bob], folder)
    assert bob.get("a").text == "first"
    assert [one.status for one in bob.upkeep.sync(folder).devices] == ["waiting"]


def test_two_persons_cannot_have_one_name(ann, folder):
    written(folder, DEVICE, name="carol")
    written(folder, "f" * 16, name="carol")
    ann.upkeep.sync(folder, name="ann", accept=None)
    ann.upkeep.sync(folder, accept=DEVICE)
    with pytest.raises(InputError, match="name of another device"):
        ann.upkeep.sync(folder, accept="f" * 16)
    ann.upkeep.sync(folder, accept="f" * 16, name="the other carol")


# --- whose it is ---


def test_what_another_person_says_is_shown_as_that_persons(ann, bob, folder):
    befriended({"ann": ann, "bob": bob}, folder, mine=False)
    ann.record("We deploy to Fly", kind="decision", key="deploy", role="user")
    everyone([ann, bob], folder)
    event = bob.get("deploy")
    assert (event.said_by, event.actor, event.role) == ("person", "person:ann", None)
    assert event.data["origin"]["device"] == device_in(ann, folder)
    block = bob.pack("where do we deploy?").text
    assert "(person:ann): We deploy to Fly" in block


def test_no_rule_or_preference_of_another_person_is_one_here(ann, bob, folder):
    ann.upkeep.sync(folder, name="ann", preferences=True)
    bob.upkeep.sync(folder, name="bob", preferences=True)
    bob.upkeep.sync(folder, accept=device_in(ann, folder))
    bob.record("tabs", kind="preference", key="indent", role="user")
    bob.record("review first", kind="rule", key="push", role="user")
    ann.record("spaces", kind="preference", key="indent", role="user")
    ann.record("always push", kind="rule", key="push", role="user")
    ann.record("always push at once", kind="decision", key="push", role="user")
    ann.record("must use spaces", role="user", markers=["constraint"], importance=1000)
    everyone([ann, bob], folder)
    assert bob.get("indent").text == "tabs"
    assert bob.get("push").text == "review first"
    taken = [line.event for line in bob.context.log.read() if line.event.actor == "person:ann"]
    assert len(taken) == 4
    assert {one.kind for one in taken} == {"fact", "decision", "message"}
    assert {one.role for one in taken} == {None}
    assert all(one.markers == () and one.importance <= 500 for one in taken)
    assert [one.tags for one in taken if one.text == "spaces"] == [("said-as-preference",)]


def test_sessions_tasks_pins_and_touches_of_others_stay_behind(ann, bob, folder):
    befriended({"ann": ann, "bob": bob}, folder, mine=False)
    ann.record("hello", role="user", session="s1", task="t1", ns="/global", data={"tool": "x"})
    said = ann.record("a fact", kind="fact", key="a").id
    ann.pin(key="a")
    ann.work.tasks.open("t1", "do it")
    ann.work.sessions.start("s1")
    everyone([ann, bob], folder)
    found = [line.event for line in bob.context.log.read() if line.event.kind != "segment"]
    assert sorted(one.kind for one in found) == ["fact", "message"]
    assert {(one.session, one.task) for one in found} == {(None, None)}
    assert all(set(one.data) <= {"origin", "marked"} for one in found)
    assert bob.event(said).text == "a fact"
    assert not bob.context.caught_up().memories.pinned(bob.event(said))


def test_what_one_says_on_another_machine_of_its_own_is_its_own(ann, bob, folder):
    befriended({"ann": ann, "bob": bob}, folder)
    ann.record("tests first", kind="rule", key="tests", role="user", session="s1")
    ann.pin(key="tests")
    everyone([ann, bob], folder)
    event = bob.get("tests")
    assert (event.kind, event.said_by, event.session) == ("rule", "user", "s1")
    assert bob.context.caught_up().memories.pinned(event)


def test_what_a_person_said_can_be_confirmed_and_is_the_users_then(ann, bob, folder):
    befriended({"ann": ann, "bob": bob}, folder, mine=False)
    ann.record("We deploy to Fly", kind="decision", key="deploy", role="user")
    everyone([ann, bob], folder)
    bob.work.confirm(bob.get("deploy").id)
    confirmed = bob.get("deploy")
    assert (confirmed.said_by, confirmed.actor) == ("user", None)
    assert "origin" not in confirmed.data
    everyone([ann, bob], folder)
    assert ann.get("deploy").said_by == "person"


def test_no_person_replaces_the_summary_of_a_session_here(ann, bob, folder):
    befriended({"ann": ann, "bob": bob}, folder, mine=False)
    key = "session/s1/summary"
    bob.record("what was done", kind="summary", key=key, session="s1")
    ann.record("something else was done", kind="summary", key=key)
    everyone([ann, bob], folder)
    assert bob.get(key).text == "what was done"


def test_a_contradiction_says_whose_the_other_statement_is(ann, bob, folder):
    befriended({"ann": ann, "bob": bob}, folder, mine=False)
    bob.record("The limit of requests is 10", kind="decision", role="user")
    ann.record("The limit of requests is 20", kind="decision", role="user")
    everyone([ann, bob], folder)
    block = bob.pack("limit of requests").text
    line = next(one for one in block.splitlines() if "is 20" in one)
    assert "(person:ann)" in line
    assert "differs from" in line


def test_a_person_forgets_no_rule_of_this_user_and_purges_nothing_of_it(ann, bob, folder):
    ids = befriended({"ann": ann, "bob": bob}, folder, mine=False)
    rule = bob.record("review first", kind="rule", key="push", role="user").id
    fact = bob.record("the port is 80", kind="fact", key="port", role="user").id
    hidden = bob.record("the code is 12", kind="fact", key="code", sensitivity="high").id
    bob.upkeep.sync(folder)
    lines = DeviceLines(DEVICE, FilePlace())
    named = {"forget": {"ids": [rule, fact, hidden]}, "origin": {"plane": "p", "seq": 9}}
    written(
        folder, DEVICE, name="mallory",
        entries=[{"kind": "forget", "data": named, "ts": "2027-01-05T12:00:00Z"}],
    )  # fmt: skip
    path = folder / f"{DEVICE}.jsonl"
    data = path.read_bytes()
    lines.place = FilePlace(len(data), data.count(b"\n"), data[-19:-3].decode())
    path.write_bytes(data + lines.purge("p9", [rule, fact, hidden]))
    bob.upkeep.sync(folder, accept=DEVICE)
    assert bob.get("push").text == "review first"
    assert bob.get("port") is None
    assert bob.event(fact).text == "the port is 80"
    assert bob.get("code") is not None
    assert ids["bob"] in {name[:16] for name in files_in(folder)}


# --- forgets and purges ---


def test_a_forget_by_key_session_or_source_means_the_same_everywhere(ann, bob, folder):
    befriended({"ann": ann, "bob": bob}, folder)
    ann.record("by key", kind="fact", key="a")
    ann.record("by session", kind="fact", key="b", session="s1")
    ann.record("by source", kind="fact", key="c", id="notes:x:1")
    bob.record("stays", kind="fact", key="d", session="s2")
    everyone([ann, bob], folder)
    ann.forget("a")
    ann.forget(session="s1")
    ann.forget(source="notes:x")
    everyone([ann, bob], folder)
    assert [bob.get(key) for key in ("a", "b", "c")] == [None] * 3
    assert bob.get("d").text == "stays"
    ann.unforget("a")
    everyone([ann, bob], folder)
    assert bob.get("a").text == "by key"


def test_the_text_of_what_was_forgotten_before_it_was_sent_never_leaves(ann, bob, folder):
    befriended({"ann": ann, "bob": bob}, folder)
    bob.record("an older value", kind="fact", key="a")
    ann.record("quite another value", kind="fact", key="a")
    ann.record("said in passing", role="user", id="passing")
    ann.forget("a")
    ann.forget(id="passing")
    everyone([ann, bob], folder)
    assert b"quite another" not in b"".join(files_in(folder).values())
    assert b"in passing" not in b"".join(files_in(folder).values())
    assert ann.get("a") is None
    assert bob.get("a") is None
    ann.unforget("a")
    everyone([ann, bob], folder)
    assert bob.get("a").text == ann.get("a").text == "quite another value"


def test_a_purge_takes_the_text_out_of_every_plane_and_file(ann, bob, folder):
    befriended({"ann": ann, "bob": bob}, folder)
    ann.record("the word is heron", kind="fact", key="a")
    ann.record("z" * 300_000 + " heron", kind="fact", key="b")
    everyone([ann, bob], folder)
    assert "heron" in bob.get("a").text
    bob.upkeep.purge(key="a")
    ann.upkeep.purge(key="b")
    everyone([ann, bob], folder)
    for plane in (ann, bob):
        assert plane.get("a") is plane.get("b") is None
        plane.flush()
        for path in [*plane.home.rglob("*"), *folder.iterdir()]:
            assert not path.is_file() or b"heron" not in path.read_bytes(), path
        assert plane.upkeep.verify().ok


def test_what_was_purged_before_it_came_does_not_come(tmp_path, ann, bob, folder):
    with made(tmp_path / "carol") as carol:
        planes = {"ann": ann, "bob": bob, "carol": carol}
        ids = befriended(planes, folder)
        said = ann.record("a heron", kind="fact", key="a").id
        ann.upkeep.sync(folder)
        of_ann = (folder / f"{ids['ann']}.jsonl").read_bytes()
        bob.upkeep.sync(folder)
        bob.upkeep.purge(said)
        bob.upkeep.sync(folder)
        (folder / f"{ids['ann']}.jsonl").rename(tmp_path / "away")
        carol.upkeep.sync(folder)  # it has the purge, and not the event
        (folder / f"{ids['ann']}.jsonl").write_bytes(of_ann)
        carol.upkeep.sync(folder)
        assert carol.context.log.find(said) is None
        assert "a heron" not in texts(carol)


def test_a_forget_that_comes_before_what_it_names_waits_for_it(tmp_path, ann, bob, folder):
    with made(tmp_path / "carol") as carol:
        ids = befriended({"ann": ann, "bob": bob, "carol": carol}, folder)
        ann.record("a value", kind="fact", key="a")
        ann.upkeep.sync(folder)
        bob.upkeep.sync(folder)
        bob.forget("a")
        bob.upkeep.sync(folder)
        path = folder / f"{ids['ann']}.jsonl"
        data = path.read_bytes()
        path.rename(tmp_path / "away")
        carol.upkeep.sync(folder)
        path.write_bytes(data)
        carol.upkeep.sync(folder)
        assert len(carol.history("a")) == 1
        assert carol.get("a") is None


# --- what travels ---


def test_what_must_not_travel_does_not(ann, folder):
    ann.record("heron of an agent", ns="/agent/a1", kind="fact", key="a")
    ann.record("heron of high", kind="fact", sensitivity="high")
    ann.record("heron of secret", kind="fact", sensitivity="secret")
    ann.record("heron preferred", kind="preference", key="p")
    ann.record("heron elsewhere", kind="fact", ns="/project/other", key="k")
    ann.record("heron of the whole", kind="fact", key="w")
    ann.record("shared", kind="fact", ns="/project/app", key="s", data={"password": "tr0ub4dor&3"})
    report = ann.upkeep.sync(folder, name="ann", projects=["app"])
    data = b"".join(files_in(folder).values())
    assert report.sent == 1
    assert b"heron" not in data
    assert b"tr0ub4dor" not in data
    assert b"shared" in data
    ann.upkeep.sync(folder, projects=["*"])
    data = b"".join(files_in(folder).values())
    assert data.count(b"heron") == 2
    ann.upkeep.sync(folder, preferences=True)
    assert b"heron preferred" in b"".join(files_in(folder).values())
    for word in (b"of an agent", b"of high", b"of secret"):
        assert word not in b"".join(files_in(folder).values())


def test_no_secret_of_todays_policy_leaves(ann, folder):
    ann.record("the code is heron-12", kind="fact", key="a")
    policy = ann.home / "policies" / "privacy.yaml"
    text = policy.read_text()
    policy.write_text(text.replace("redact_patterns: [", 'redact_patterns: ["heron-[0-9]+", ', 1))
    ann.upkeep.sync(folder, name="ann")
    assert b"heron-12" not in b"".join(files_in(folder).values())


def test_files_approvals_and_the_logs_own_events_stay(ann, bob, folder, tmp_path):
    befriended({"ann": ann, "bob": bob}, folder)
    (tmp_path / "report.md").write_text("herons")
    id_ = ann.work.artifacts.add(tmp_path / "report.md").receipt.id
    ann.work.artifacts.approve(id_)
    everyone([ann, bob], folder)
    assert {line.event.kind for line in bob.context.log.read()} <= {"segment"}


def test_a_plane_takes_in_what_it_chose_alone(ann, bob, folder):
    ann.upkeep.sync(folder, name="ann")
    bob.upkeep.sync(folder, name="bob", projects=["app"])
    bob.upkeep.sync(folder, accept=device_in(ann, folder), mine=True)
    ann.record("of the app", kind="fact", ns="/project/app", key="a")
    ann.record("of all", kind="fact", key="b")
    ann.upkeep.sync(folder)
    report = bob.upkeep.sync(folder)
    assert (report.devices[0].taken, report.devices[0].left) == (1, 1)
    bob.upkeep.sync(folder, projects=["*"])
    assert bob.get("b").text == "of all"


def test_the_users_own_plane_shares_what_is_named_alone(tmp_path, monkeypatch, folder):
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / ".memplane"
    memplane.init(home, trusted=False).close()
    with memplane.open(home) as plane:
        plane.record("of the app", kind="fact", ns="/project/app-12345678", key="a")
        plane.record("of all", kind="fact", key="b")
        with pytest.raises(InputError, match="--project"):
            plane.upkeep.sync(folder)
        report = plane.upkeep.sync(folder, projects=["/project/app-12345678"])
        assert report.sent == 1
        with pytest.raises(InputError, match="never shared"):
            plane.upkeep.sync(folder, projects=["/agent/a1"])


# --- again and again ---


def test_a_second_sync_records_and_writes_nothing(ann, bob, folder):
    befriended({"ann": ann, "bob": bob}, folder)
    for n in range(30):
        ann.record(f"value {n}", kind="fact", key=f"k{n % 5}", session="s1")
        bob.record(f"other {n}", kind="fact", key=f"k{n % 5}")
    ann.forget("k1")
    ann.forget(session="s1")
    everyone([ann, bob], folder)
    heads, files = (head(ann), head(bob)), files_in(folder)
    states = [(plane.home / "shared").glob("*.json") for plane in (ann, bob)]
    kept = [path.read_bytes() for found in states for path in found]
    everyone([ann, bob], folder)
    assert (head(ann), head(bob)) == heads
    assert files_in(folder) == files
    assert [
        path.read_bytes() for plane in (ann, bob) for path in (plane.home / "shared").glob("*.json")
    ] == kept


def test_without_what_it_kept_a_plane_is_a_new_device_and_doubles_nothing(ann, bob, folder):
    befriended({"ann": ann, "bob": bob}, folder)
    ann.record("a value", kind="fact", key="a")
    everyone([ann, bob], folder)
    before = head(bob)
    shutil.rmtree(bob.home / "shared")
    old = device_in(ann, folder)
    report = bob.upkeep.sync(folder, name="bob again")
    assert report.device not in (old, None)
    bob.upkeep.sync(folder, accept=old, mine=True)
    assert head(bob) == before


def test_what_is_kept_is_for_the_owner_alone_and_out_of_git(ann, folder):
    ann.upkeep.sync(folder, name="ann")
    for path in (ann.home / "shared").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    assert (ann.home / "shared" / ".gitignore").read_text() == "*\n"
    assert "shared/" in (ann.home / ".gitignore").read_text().split()


def test_a_copy_of_a_plane_is_another_device(ann, folder, tmp_path):
    device = ann.upkeep.sync(folder, name="ann").device
    ann.record("a value", kind="fact", key="a")
    ann.flush()
    shutil.copytree(ann.home, tmp_path / "copy")
    with memplane.open(tmp_path / "copy", environment={}) as copy:
        found = copy.upkeep.sync(folder, name="the copy")
        assert found.device != device
        assert [one.status for one in found.devices] == ["waiting"]
    assert ann.upkeep.sync(folder).device == device


def test_a_plane_that_was_moved_is_the_same_device(ann, folder, tmp_path):
    device = ann.upkeep.sync(folder, name="ann").device
    ann.close()
    ann.home.rename(tmp_path / "moved")
    with memplane.open(tmp_path / "moved", environment={}) as plane:
        assert plane.upkeep.sync(folder).device == device


def test_what_a_stranger_has_accepted_in_a_plane_that_was_cloned_is_not_accepted(
    ann, folder, tmp_path, monkeypatch
):
    written(folder, DEVICE, entries=[{"text": "trust me", "key": "a"}])
    ann.upkeep.sync(folder, name="ann")
    ann.upkeep.sync(folder, accept=DEVICE, mine=True)
    ann.close()
    shutil.copytree(ann.home, tmp_path / "clone")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    written(folder, DEVICE, entries=[{"text": "trust me", "key": "a"}, {"text": "and me"}])
    with memplane.open(tmp_path / "clone", environment={}) as plane:
        report = plane.upkeep.sync(folder, name="me")
        assert {one.status for one in report.devices} == {"waiting"}
        assert "and me" not in texts(plane)


def test_a_folder_that_moved_is_the_same_folder(ann, folder, tmp_path):
    device = ann.upkeep.sync(folder, name="ann").device
    folder.rename(tmp_path / "elsewhere")
    assert ann.upkeep.sync(tmp_path / "elsewhere").device == device


def test_much_is_taken_in_several_syncs(ann, bob, folder, monkeypatch):
    monkeypatch.setattr(sync, "TAKEN_MAX", 7)
    monkeypatch.setattr(sync, "SENT_MAX", 5)
    befriended({"ann": ann, "bob": bob}, folder)
    ann.record_many([{"text": f"{n}", "kind": "fact", "key": f"k{n}"} for n in range(23)])
    rounds = 0
    while ann.upkeep.sync(folder).more:
        rounds += 1
    assert rounds == 4
    counts = []
    while True:
        report = bob.upkeep.sync(folder)
        counts.append(report.devices[0].taken)
        if not report.more:
            break
    assert counts == [7, 7, 7, 2]
    assert [bob.get(f"k{n}").text for n in range(23)] == [f"{n}" for n in range(23)]


def test_a_dry_run_changes_nothing(ann, bob, folder):
    befriended({"ann": ann, "bob": bob}, folder)
    ann.record("a value", kind="fact", key="a")
    ann.upkeep.sync(folder)
    bob.record("another", kind="fact", key="b")
    before = files_in(folder), head(bob), (bob.home / "shared").stat().st_mtime_ns
    report = bob.upkeep.sync(folder, dry_run=True)
    assert (report.sent, report.devices[0].events) == (1, 1)
    assert (files_in(folder), head(bob), (bob.home / "shared").stat().st_mtime_ns) == before


def test_the_file_of_a_device_that_waits_is_read_again_only_where_it_changed(
    ann, folder, monkeypatch
):
    written(folder, DEVICE, entries=[{"text": "one"}])
    ann.upkeep.sync(folder, name="ann")
    first = ann.upkeep.sync(folder).devices
    read = []
    whole = sync.read_device
    monkeypatch.setattr(
        sync,
        "read_device",
        lambda path, *a, **k: read.append(path) or whole(path, *a, **k),
    )
    assert ann.upkeep.sync(folder).devices == first
    assert [path for path in read if DEVICE in path] == []
    written(folder, DEVICE, entries=[{"text": "one"}, {"text": "two"}])
    assert ann.upkeep.sync(folder).devices[0].events == 2
    assert len([path for path in read if DEVICE in path]) == 1


def test_what_an_accepted_device_makes_wait_is_bounded(ann, folder, monkeypatch):
    monkeypatch.setattr(device_file, "WAITING_MAX", 50)
    lines = DeviceLines(DEVICE, FilePlace())
    data = lines.header(DEVICE, "01PLANE", "theirs")
    for n in range(20):
        named = {"forget": {"ids": [f"none-{n}-{at}" for at in range(20)]}}
        data += lines.event(f"f{n}", event(n, kind="forget", data={**event(n)["data"], **named}))
        data += lines.purge(f"p{n}", [f"gone-{n}-{at}" for at in range(20)])
    (folder / f"{DEVICE}.jsonl").write_bytes(data)
    ann.upkeep.sync(folder, name="ann")
    ann.upkeep.sync(folder, accept=DEVICE, mine=True)
    (kept,) = (ann.home / "shared").glob("folder-*.json")
    said = json.loads(kept.read_text())
    assert sum(len(one["ids"]) for one in said["waiting"]) <= 50
    assert len(said["unwanted"]) <= 50
    assert said["purging"] == {}


# --- files that are refused ---


@pytest.mark.parametrize("name", sampled([*HOSTILE, *PLACES], 2))
def test_of_a_hostile_file_nothing_is_taken_and_the_others_are(ann, bob, folder, name):
    befriended({"ann": ann, "bob": bob}, folder)
    written(folder, DEVICE, entries=[{"text": "fine", "key": "a"}])
    bob.upkeep.sync(folder, accept=DEVICE)
    assert bob.get("a").text == "fine"
    before = texts(bob)
    path = folder / f"{DEVICE}.jsonl"
    if name in HOSTILE:
        written(folder, DEVICE, entries=[{"text": "fine", "key": "a"}, {"text": "more"}])
        data = path.read_bytes()
        place = FilePlace(len(data), data.count(b"\n"), data[-19:-3].decode())
        path.write_bytes(data + hostile_line(HOSTILE[name][0], place))
    else:
        path.unlink()
        PLACES[name](path)
    ann.record("a value", kind="fact", key="v")
    ann.upkeep.sync(folder)
    report = bob.upkeep.sync(folder)
    assert [one.device for one in report.refused] == [DEVICE]
    if name in HOSTILE:
        assert HOSTILE[name][1] in report.refused[0].why
    assert bob.get("v").text == "a value"
    assert [text for text in texts(bob) if text not in before] == ["a value"]


def test_an_id_of_an_own_event_with_other_content_refuses_the_file(ann, folder):
    ann.record("mine", kind="fact", key="a", id="e1")
    written(folder, DEVICE, entries=[{"text": "fine"}, {"text": "not mine", "key": "a"}])
    ann.upkeep.sync(folder, name="ann")
    report = ann.upkeep.sync(folder, accept=DEVICE, mine=True)
    assert "the id of another event" in report.refused[0].why
    assert texts(ann) == ["mine"]


def test_the_same_event_on_both_sides_is_one(ann, folder):
    ann.record("ours", kind="fact", id="e0")
    written(folder, DEVICE, entries=[{"text": "ours"}])
    ann.upkeep.sync(folder, name="ann")
    for mine in (False, True):
        report = ann.upkeep.sync(folder, accept=DEVICE, mine=mine)
        assert report.refused == []
    assert texts(ann) == ["ours"]


def test_an_own_file_that_this_plane_did_not_write_stops_the_sync(ann, folder):
    ann.record("a value", kind="fact", key="a")
    device = ann.upkeep.sync(folder, name="ann").device
    path = folder / f"{device}.jsonl"
    data = path.read_bytes()
    lines = DeviceLines(device, FilePlace(len(data), 2, data[-19:-3].decode()))
    path.write_bytes(data + lines.event("x1", event(1, text="forged")))
    with pytest.raises(HomeError, match="did not write"):
        ann.upkeep.sync(folder)
    path.write_bytes(data[: data.index(b"\n") + 1])
    with pytest.raises(HomeError, match="not what this plane wrote"):
        ann.upkeep.sync(folder)
    path.unlink()
    with pytest.raises(HomeError, match="is gone"):
        ann.upkeep.sync(folder)
    path.write_bytes(data)
    assert ann.upkeep.sync(folder).sent == 0


@pytest.mark.parametrize("place", ["missing", "file", "home", "inside"])
def test_a_folder_that_is_none_is_refused(ann, tmp_path, place):
    (tmp_path / "file").write_text("x")
    where = {
        "missing": tmp_path / "missing", "file": tmp_path / "file", "home": ann.home,
        "inside": ann.home / "views",
    }[place]  # fmt: skip
    with pytest.raises(InputError):
        ann.upkeep.sync(where)


def test_other_files_of_the_folder_are_left_alone(ann, folder):
    (folder / "README.md").write_text("ours")
    (folder / "0123.sync-conflict.jsonl").write_text("{}")
    ann.upkeep.sync(folder, name="ann")
    assert (folder / "README.md").read_text() == "ours"
    assert len(list(folder.iterdir())) == 3


def test_a_read_only_plane_is_not_synced(ann, tmp_path, folder):
    with (
        memplane.open(ann.home, read_only=True) as plane,
        pytest.raises(HomeError, match="read-only"),
    ):
        plane.upkeep.sync(folder)


# --- the command ---


def test_the_command_names_devices_and_what_became_of_them(ann, folder, capsys):
    home = str(ann.home)
    ann.close()
    written(folder, DEVICE, name="carol", entries=[{"text": "hello"}])
    assert run_command_line(["sync", str(folder), "--home", home, "--name", "ann"]) == 0
    said = capsys.readouterr().out
    assert f"{DEVICE}  carol: 1 event, 2026-01-01 to 2026-01-01" in said
    assert f"--accept {DEVICE}" in said
    assert run_command_line(["sync", str(folder), "--home", home, "--accept", DEVICE]) == 0
    assert "carol: 1 taken" in capsys.readouterr().out
    (folder / f"{DEVICE}.jsonl").write_bytes(b"\x1b[31m\n")
    assert run_command_line(["sync", str(folder), "--home", home, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["devices"][0]["status"] == "refused"
    assert run_command_line(["sync", str(folder), "--home", home]) == 1
    said = capsys.readouterr().out
    assert "refused" in said
    assert "\x1b" not in said
