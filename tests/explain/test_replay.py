"""A saved pack can be made again, byte for byte, whatever has become of the plane since."""

import json
import random
import shutil

import pytest
from builders_planes import rows, sentence

import memplane
from memplane.errors import InputError, NotFoundError
from memplane.explain.replay import replay_pack, replay_packs
from memplane.upkeep import reports


def saved_packs(plane, seed: int, count: int) -> list:
    """Packs of all kinds between things that are recorded; their reports are saved."""
    chance = random.Random(seed)
    (plane.home / "views" / "identity.md").write_text("You are the build agent.\n")
    paths = []
    for number in range(count):
        plane.record_many(rows(seed * 1000 + number, chance.randint(1, 25)))
        if number == count // 2:
            path = plane.home / "policies" / "budgets.yaml"
            path.write_text(path.read_text().replace("share: 0.28", "share: 0.4"))
        session = chance.choice([None, "s0", "s1", "s2"])
        query = chance.choice(["", "parser retry timeout", sentence(chance, 6)])
        asked = {
            "intent": chance.choice(["auto", "fast", "deep", "orient"]),
            "budget": chance.choice([150, 900, 2000, 4000, 16000]),
            "channel": chance.choice(["private", "agent", "public"]),
            "session": session,
        }
        if chance.random() < 0.2:
            asked["as_of"] = chance.randint(2, plane.head().seq)
        if chance.random() < 0.2:
            last = asked.get("as_of", plane.head().seq)
            asked["expand"] = [f"expand://event/{chance.randint(2, last)}"]
        try:
            block = plane.pack(query, save_report=True, **asked)
        except NotFoundError:  # that channel may not see the event: it is as if it were not there
            del asked["expand"]
            block = plane.pack(query, save_report=True, **asked)
        paths.append((block.report_path, block.text))
    return paths


def change_everything(plane, more: int) -> None:
    """Other policies, other views, much more in the log, things forgotten."""
    budgets = plane.home / "policies" / "budgets.yaml"
    budgets.write_text(budgets.read_text().replace("share: 0.32", "share: 0.05"))
    privacy = plane.home / "policies" / "privacy.yaml"
    privacy.write_text(privacy.read_text().replace("[secret]", "[secret, high]"))
    scoring = plane.home / "policies" / "scoring.yaml"
    scoring.write_text(scoring.read_text() + "\n# another file\n")
    (plane.home / "views" / "identity.md").write_text("You are somebody else.\n")
    (plane.home / "views" / "rules.project.md").write_text("Never answer.\n")
    plane.forget(session="s1")
    plane.record_many(rows(77_777, more))


def test_a_pack_is_made_again_after_policies_views_and_log_have_moved_on(plane):
    paths = saved_packs(plane, 1, 10)
    change_everything(plane, 300)
    for path, text in paths:
        again = replay_pack(plane, reports.read_report(path))
        assert (again.same, again.lost, again.note) == (True, (), "")
        assert again.block.text == text


def test_packs_that_are_made_again_together_are_those_of_each_alone(plane):
    paths = saved_packs(plane, 3, 12)
    change_everything(plane, 40)
    packs = [reports.read_report(path) for path, _ in paths]
    reached = []
    made = replay_packs(plane, packs, lambda at, last: reached.append((at, last)))
    assert [one.saved for one in made] == packs
    assert [(one.same, one.block.text) for one in made] == [(True, text) for _, text in paths]
    assert reached
    assert all(at <= last == max(one.report["log"]["seq"] for one in packs) for at, last in reached)
    assert replay_packs(plane, []) == []


def test_of_two_packs_under_the_same_policies_the_log_is_folded_once(plane, monkeypatch):
    plane.record_many(rows(5, 30))
    first = plane.pack("parser", session="s0", save_report=True)
    plane.record_many(rows(6, 30))
    second = plane.pack("parser", session="s0", save_report=True)
    packs = [reports.read_report(one.report_path) for one in (first, second)]
    begun, under = [], plane.under
    monkeypatch.setattr(plane, "under", lambda files, seq: begun.append(seq) or under(files, seq))
    assert [one.same for one in replay_packs(plane, packs)] == [True, True]
    assert begun == [packs[0].report["log"]["seq"]]
    assert [one.same for one in replay_packs(plane, packs[::-1])] == [True, True]
    assert len(begun) == 3  # a log is folded forwards alone


def test_packs_of_one_moment_stand_in_the_order_in_which_they_were_made(plane):
    plane.record_many(rows(8, 30))
    now = "2026-03-01T08:00:00Z"
    asked = [f"heron {number}" for number in range(12)]
    made = [plane.pack(one, now=now, budget=500, save_report=True) for one in asked]
    assert len({one.report_path for one in made}) == len(asked)
    kept = [one.report["request"]["query"] for one in reports.saved(plane.home)]
    assert kept == asked[::-1]
    last = reports.find_report(plane.home, "last")
    assert last.report["request"]["query"] == asked[-1]
    plane.pack("later", now="2026-03-01T08:00:00.000001Z", save_report=True)
    assert next(reports.saved(plane.home)).report["request"]["query"] == "later"


@pytest.mark.long
def test_two_hundred_packs_are_made_again_after_ten_thousand_events(plane):
    paths = saved_packs(plane, 2, 200)
    change_everything(plane, 10_000)
    made = [replay_pack(plane, reports.read_report(path)) for path, _ in paths]
    assert sum(again.same for again in made) == 200
    assert [again.block.text for again in made] == [text for _, text in paths]


def test_replaying_writes_nothing(plane):
    paths = saved_packs(plane, 3, 3)
    plane.flush()

    def files():
        return {
            path: path.read_bytes()
            for path in plane.home.rglob("*")
            if path.is_file() and "projections" not in path.parts
        }

    before = files()
    for path, _ in paths:
        replay_pack(plane, reports.read_report(path))
    assert files() == before


def test_what_is_lost_is_named(plane):
    plane.record("we keep pg", kind="decision", key="db")
    (plane.home / "views" / "identity.md").write_text("You are the build agent.\n")
    path = plane.pack("pg?", save_report=True).report_path
    saved = reports.read_report(path)
    body = reports.kept_bytes_path(plane.home, saved.report["views"]["views/identity.md"])
    data = body.read_bytes()

    body.unlink()
    without = replay_pack(plane, saved)
    assert [(one.what, one.name) for one in without.lost] == [("view", "views/identity.md")]
    assert not without.same
    assert without.block is not None

    body.write_bytes(b"other bytes")
    assert "other bytes" in str(replay_pack(plane, saved).lost[0])
    body.write_bytes(data)
    assert replay_pack(plane, saved).same

    policy = reports.kept_bytes_path(plane.home, saved.report["policies"]["budgets.yaml"])
    policy.unlink()
    none = replay_pack(plane, saved)
    assert none.block is None
    assert [(one.what, one.name) for one in none.lost] == [("policy", "policies/budgets.yaml")]


def test_a_report_of_another_log_is_not_made_again(plane, tmp_path, clock):
    plane.record("we keep pg", kind="decision", key="db")
    path = plane.pack("pg?", save_report=True).report_path
    with memplane.init(tmp_path / "other", durability="os", clock=clock) as other:
        shutil.copytree(plane.home / "bodies", other.home / "bodies", dirs_exist_ok=True)
        shorter = replay_pack(other, reports.read_report(path))
        assert "shorter" in str(shorter.lost[0])
        other.record("something else")
        found = replay_pack(other, reports.read_report(path))
    assert found.block is None
    assert "another log" in str(found.lost[0])


def test_a_report_is_found_by_path_id_part_and_last(plane, clock):
    plane.record("hello", role="user")
    one = plane.pack("hello", save_report=True).report_path
    clock.now = "2026-01-06T12:00:00.000000Z"
    two = plane.pack("hello", save_report=True, budget=900).report_path
    for given in (str(two), two.name, two.name.removesuffix(".report.json"), "last"):
        assert reports.find_report(plane.home, given).path == two
    assert reports.find_report(plane.home, "20260105").path == one
    with pytest.raises(InputError, match="2 reports have"):
        reports.find_report(plane.home, "2026")
    with pytest.raises(NotFoundError, match="no report 'nothing'"):
        reports.find_report(plane.home, "nothing")
    one.write_text("{}")
    with pytest.raises(InputError, match="expected the report of a pack"):
        reports.find_report(plane.home, str(one))


def test_a_plane_under_other_policies_is_moved_forward_as_if_it_had_been_opened_there(plane):
    plane.record_many(rows(5, 200))
    files = {
        f"policies/{name}": (plane.home / "policies" / name).read_bytes()
        for name in plane.upkeep.policies.hashes
    }
    files["policies/budgets.yaml"] = files["policies/budgets.yaml"].replace(b"0.28", b"0.4")
    with plane.under(files, 20) as moved:
        for seq in (20, 60, 61, 150, plane.head().seq):
            moved.advance(seq)
            asked = {"session": "s1", "budget": 3000, "now": "2026-01-05T12:00:00Z"}
            with plane.under(files, seq) as fresh:
                assert moved.pack("parser", **asked).text == fresh.pack("parser", **asked).text
            assert moved.head().seq == seq
        with pytest.raises(InputError, match="expected a seq from"):
            moved.advance(10)
    with pytest.raises(InputError, match="the log's head"):
        plane.advance(30)


def test_what_is_replayed_is_read_from_its_own_report_alone(plane):
    """The report as JSON is all there is: a copy elsewhere does as well."""
    ((path, text),) = saved_packs(plane, 6, 1)
    copied = plane.home.parent / "copy.json"
    copied.write_text(json.dumps(json.loads(path.read_text())))
    path.unlink()
    assert replay_pack(plane, reports.read_report(copied)).block.text == text


def test_an_artifact_whose_file_is_gone_is_named(plane, tmp_path):
    file = tmp_path / "herons.md"
    file.write_text("Herons nest in trees.\n")
    added = plane.work.artifacts.add(file).facts
    plane.work.artifacts.approve(added.sha256)
    block = plane.pack("herons nest", save_report=True)
    assert "nest in trees" in block.text
    saved = reports.read_report(block.report_path)
    assert replay_pack(plane, saved).same
    reports.kept_bytes_path(plane.home, added.sha256).unlink()
    again = replay_pack(plane, saved)
    assert not again.same
    assert [one.what for one in again.lost] == ["artifact"]
    assert again.note == ""


def odd(report: dict, change) -> str:
    other = json.loads(json.dumps(report))
    change(other)
    return json.dumps(other)


CHANGES = {
    "no prefix.prompt_seq": lambda r: r["prefix"].pop("prompt_seq"),
    "no prefix that is a mapping": lambda r: r.update(prefix=None),
    "no log.seq": lambda r: r.update(log={"seq": "x", "h": ""}),
    "no request": lambda r: r.update(request=None),
    "no hash of budgets.yaml": lambda r: r.update(policies={}),
    "without its SHA-256": lambda r: r["views"].update(a=4),
    "no prefix.chain with a row": lambda r: r["prefix"].update(chain=[]),
    "no prefix.break": lambda r: r["prefix"].pop("break"),
    "no gaps": lambda r: r.pop("gaps"),
    "no mapping as entries": lambda r: r["entries"].append(4),
}


@pytest.mark.parametrize("words", CHANGES)
def test_a_file_that_is_no_whole_report_is_refused_and_stops_no_pack(plane, clock, words):
    plane.record("hello", role="user", session="s")
    path = plane.pack(session="s", save_report=True).report_path
    strange = path.with_name("9" + path.name)
    strange.write_text(odd(json.loads(path.read_text()), CHANGES[words]))
    with pytest.raises(InputError, match=words):
        reports.read_report(strange)
    clock.now = "2026-01-05T12:00:01.000000Z"
    again = plane.pack(session="s", save_report=True)
    assert again.report["prefix"]["compared_with"] == path.name.removesuffix(".report.json")
    assert len(list(reports.saved(plane.home))) == 2


def test_deep_json_is_refused_too(plane, tmp_path):
    path = tmp_path / "deep.report.json"
    path.write_text("[" * 200_000)
    with pytest.raises(InputError, match="expected a report in JSON"):
        reports.read_report(path)


def test_a_pack_whose_lines_were_printed_in_an_earlier_form_is_said_to_be_so(plane):
    plane.record("one\ntwo", role="user", session="s")
    saved = reports.read_report(plane.pack(session="s", save_report=True).report_path)
    report = {**saved.report, "acb_sha256": "0" * 64}
    del report["form"]
    again = replay_pack(plane, saved._replace(report=report))
    assert (again.same, again.lost) == (False, ())
    assert again.note == "made in form 1 of blocks, this one is 3: entries are printed otherwise"
