"""Saved requests packed again under two policies: the very blocks, and what is said of them."""

import contextlib
import random
import shutil

import pytest
from builders_planes import rows, sentence

import memplane
from memplane.errors import NotFoundError, PolicyError
from memplane.explain.history import PolicyVersion, in_home
from memplane.explain.replay import asked_of, last, trial, trial_blocks
from memplane.upkeep import reports
from tests.examples import sampled

CHANGES = {
    "budgets": ("share: 0.32", "share: 0.1"),
    "scoring": ("evidence_floor: 0.02", "evidence_floor: 0.3"),
    "privacy": ("private: {suppress_sensitivity: [secret]}", "private: {suppress_sensitivity: [secret, high], suppress_kinds: [fact]}"),
    "plane": ("tool_result_tokens: 200", "tool_result_tokens: 40"),
    "counter": ("counter: bound/1", "counter: len4"),
    "scale": ("scale: 1.0", "scale: 1.5"),
}  # fmt: skip
FILES = {"counter": "budgets", "scale": "budgets"}


def lived_in(plane, seed: int, packs: int) -> None:
    """A plane with a view and saved packs of all kinds between things that are recorded."""
    chance = random.Random(seed)
    (plane.home / "views" / "identity.md").write_text("You are the build agent.\n")
    for number in range(packs):
        plane.record_many(rows(seed * 1000 + number, chance.randint(1, 25)))
        if number % 5 == 4:
            plane.forget(chance.choice(plane.keys()))
        asked = {
            "intent": chance.choice(["auto", "fast", "deep", "orient"]),
            "budget": chance.choice([150, 900, 2000, 4000, 16000]),
            "channel": chance.choice(["private", "agent", "public"]),
            "session": chance.choice([None, "s0", "s1", "s2"]),
        }
        if chance.random() < 0.2:
            asked["as_of"] = chance.randint(2, plane.head().seq)
        if chance.random() < 0.2:
            seq = chance.randint(2, asked.get("as_of", plane.head().seq))
            with contextlib.suppress(NotFoundError):  # of what is hidden nothing is packed at all
                plane.event(seq, channel=asked["channel"])
                asked["expand"] = [f"expand://event/{seq}"]
        query = chance.choice(["", "parser retry timeout", sentence(chance, 6)])
        plane.pack(query, save_report=True, **asked)


def changed(version: PolicyVersion, *names: str) -> PolicyVersion:
    """A version with some policies otherwise, and another view."""
    files = {**version.files, "views/identity.md": b"You are somebody else.\n"}
    for name in names:
        path = f"policies/{FILES.get(name, name)}.yaml"
        old, new = (text.encode() for text in CHANGES[name])
        assert old in files[path]
        files[path] = files[path].replace(old, new)
    return PolicyVersion("+".join(names), files)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    home = tmp_path_factory.mktemp("lived in") / "plane"
    with memplane.init(home, durability="os") as plane:
        lived_in(plane, 3, 16)
    return home


@pytest.mark.parametrize("packs", [2, pytest.param(24, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "names",
    sampled(
        [
            ("privacy", "scoring"),
            ("budgets",),
            ("scoring",),
            ("scale", "plane"),
            ("plane",),
            ("counter",),
        ],
        3,
    ),
)
def test_the_blocks_are_those_that_each_policy_packs_alone_byte_for_byte(
    once, tmp_path, names, packs
):
    with memplane.open(shutil.copytree(once, tmp_path / "plane"), durability="os") as plane:
        are_those_packed_alone(plane, names, packs)


def are_those_packed_alone(plane, names, packs):
    asked = last(plane.home, packs)
    old = in_home(plane.home)
    new = changed(old, *names)
    again = {one.id: one.report["acb_sha256"] for one in asked}
    count = 0
    for one, (before, after), why in trial_blocks(plane, asked, old, new):
        assert why == ""
        assert before.report["acb_sha256"] == again[one.id]
        with plane.under(new.files, one.report["log"]["seq"]) as then:
            alone = then.pack(**asked_of(one))
        assert after.text == alone.text
        for name in ("tokens", "sections", "entries", "prefix", "policies", "views"):
            assert after.report[name] == alone.report[name], name
        counts = [block.report["omissions"]["counts"] for block in (after, alone)]
        assert counts[0] == counts[1]
        count += 1
    assert count == len(asked) == packs


def test_a_trial_of_a_policy_against_itself_finds_every_pack_the_same(plane):
    lived_in(plane, 5, 7)
    old = in_home(plane.home)
    found = trial(plane, last(plane.home, 100), old, old)
    assert all(row.same and not row.enters and not row.leaves for row in found.rows)
    assert found.side("before") == found.side("after")
    assert found.largest(10) == []


def named(block) -> set[tuple[str, str]]:
    """The events that have an entry of their own, by section."""
    every = ((entry, (*entry.events, *entry.parts)) for entry in block.entries)
    return {(entry.section, ids[0]) for entry, ids in every if len(ids) == 1}


def test_what_enters_and_leaves_is_what_the_two_blocks_differ_in(plane):
    lived_in(plane, 7, 6)
    old = in_home(plane.home)
    new = changed(old, "budgets", "scoring")
    asked = last(plane.home, 100)
    found = {row.report: row for row in trial(plane, asked, old, new).rows}
    for one, (before, after), _ in trial_blocks(plane, asked, old, new):
        row = found[one.id]
        ids = [named(block) for block in (before, after)]
        moved = [{(m.section, m.name) for m in some} for some in (row.enters, row.leaves)]
        assert moved[0] >= ids[1] - ids[0]
        assert moved[1] >= ids[0] - ids[1]
        assert not moved[0] & ids[0]
        assert not moved[1] & ids[1]
        for side, block in ((row.before, before), (row.after, after)):
            assert side.tokens == block.tokens
            # A decision is paid by the decisions' section wherever it stands.
            assert sum(side.sections.values()) >= sum(entry.tokens for entry in block.entries)


def test_the_view_that_changed_is_told_on_both_sides(plane):
    lived_in(plane, 9, 6)
    old = in_home(plane.home)
    without = PolicyVersion(
        "none", {k: v for k, v in old.files.items() if k != "views/identity.md"}
    )
    rows_ = [row for row in trial(plane, last(plane.home, 9), old, without).rows if row.leaves]
    assert rows_
    assert all("view:views/identity.md" in [one.name for one in row.leaves] for row in rows_)
    back = [row for row in trial(plane, last(plane.home, 9), without, old).rows if row.enters]
    assert all("view:views/identity.md" in [one.name for one in row.enters] for row in back)


def test_the_share_of_the_prefix_is_that_of_packs_saved_one_after_the_other(plane, clock):
    plane.record("Why does the parser fail?", role="user", session="s1")
    shares = []
    for number in range(8):
        plane.record(
            f"step {number}: {sentence(random.Random(number), 30)}", role="assistant", session="s1"
        )
        clock.now = f"2026-01-05T12:{number:02}:00.000000Z"
        block = plane.pack("", session="s1", budget=1500, save_report=True)
        shares.append(block.report["prefix"]["common_tokens"])
    old = in_home(plane.home)
    found = trial(plane, last(plane.home, 100), old, old)
    assert [row.before.common_tokens for row in found.rows] == [None, *shares[1:]]
    total = sum(row.before.tokens for row in found.rows[1:])
    assert found.side("after").prefix_ppm == sum(shares[1:]) * 1_000_000 // total


def test_a_request_that_a_policy_cannot_serve_is_told_and_the_rest_goes_on(plane):
    path = plane.home / "policies" / "budgets.yaml"
    own = (
        "  insights: {max_tokens: 1000, priority: 5, share: 0.03, kinds: [insight]}\n  expansions:"
    )
    path.write_text(path.read_text().replace("  expansions:", own))
    lived_in(plane, 11, 3)
    plane.pack("parser", sections=["insights"], save_report=True)
    now = in_home(plane.home)
    gone = {
        **now.files,
        "policies/budgets.yaml": now.files["policies/budgets.yaml"].replace(
            own.encode(), b"  expansions:"
        ),
    }
    found = trial(plane, last(plane.home, 9), now, PolicyVersion("gone", gone))
    (failed,) = (row for row in found.rows if row.after is None)
    assert failed.before is not None
    assert "unknown section 'insights'" in failed.why
    assert found.as_json()["failed"] == 1


def test_the_report_of_another_log_is_told_and_not_packed(plane, tmp_path):
    lived_in(plane, 13, 3)
    (strange,) = last(plane.home, 1)
    log = {**strange.report["log"], "h": "0" * 16}
    beyond = {**strange.report["log"], "seq": plane.head().seq + 10}
    asked = [
        strange._replace(id="a", report={**strange.report, "log": log}),
        strange._replace(id="b", report={**strange.report, "log": beyond}),
    ]
    old = in_home(plane.home)
    found = trial(plane, asked, old, old)
    assert [(row.before, row.after) for row in found.rows] == [(None, None)] * 2
    assert "has another hash" in found.rows[0].why
    assert "this log ends at" in found.rows[1].why


def test_a_version_with_mistakes_is_named_with_all_of_them(plane):
    lived_in(plane, 15, 2)
    old = in_home(plane.home)
    broken = PolicyVersion(
        "a draft", {**old.files, "policies/plane.yaml": b"version: 1\nreports: {kep: 1}\n"}
    )
    with pytest.raises(PolicyError) as caught:
        trial(plane, last(plane.home, 9), old, broken)
    assert str(caught.value) == (
        "a draft: policies/plane.yaml:2: reports.kep: unknown; did you mean `keep`?"
    )


def test_a_trial_writes_nothing_and_tells_how_far_it_is(plane):
    lived_in(plane, 17, 6)
    plane.upkeep.index()

    def files():
        return {path: path.stat().st_mtime_ns for path in plane.home.rglob("*") if path.is_file()}

    before, told = files(), []
    old = in_home(plane.home)
    trial(
        plane, last(plane.home, 5), old, changed(old, "plane"), progress=lambda *at: told.append(at)
    )
    assert told == [(number, 5) for number in range(1, 6)]
    assert files() == before
    newest = next(iter(reports.saved(plane.home)))
    assert last(plane.home, 1)[0].id == newest.id
    assert plane.pack("parser").text


def test_without_saved_requests_there_is_nothing_to_try(plane):
    old = in_home(plane.home)
    found = trial(plane, [], old, changed(old, "budgets"))
    assert found.rows == ()
    assert found.as_json()["packs"] == 0
    assert found.side("before").prefix_ppm is None
    assert memplane.__doc__
