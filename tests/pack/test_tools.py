"""Files and tools in a pack: the session's own files, what a new session may need, own sections."""

import pytest

import memplane

TOOL = ["tool_state"]


def touch(plane, path, session="s", branch="", **fields):
    data = {
        "tool": fields.pop("tool", "Edit"),
        "path": path,
        **({"branch": branch} if branch else {}),
    }
    fields = {"kind": "tool_call", "session": session, **fields}
    return plane.record(f"Edit {path}", data=data, **fields)


def files_of(block) -> list[str]:
    return [
        line.removeprefix("file: ") for line in block.text.splitlines() if line.startswith("file: ")
    ]


def test_a_session_shows_its_own_files_the_warmest_first_with_their_branch(plane):
    plane.record("fix the login", role="user", session="a", data={"branch": "fix/login"})
    for _ in range(3):
        touch(plane, "src/login.py", "a", "fix/login")
    touch(plane, "src/other.py", "b", "main")
    touch(plane, "src/glance.py", "a", "fix/login", tool="Read")
    assert files_of(plane.pack(session="a", budget=4000)) == [
        "src/login.py (fix/login)", "src/glance.py (fix/login)",
    ]  # fmt: skip
    assert files_of(plane.pack(session="b", budget=4000)) == ["src/other.py (main)"]


def test_interleaved_sessions_keep_ten_files_each(plane):
    for number in range(14):
        touch(plane, f"a{number}.py", "a")
        for more in range(3):
            touch(plane, f"b{number}-{more}.py", "b")
    shown = files_of(plane.pack(session="a", budget=4000))
    assert shown == [f"a{number}.py" for number in range(13, 3, -1)]


def test_a_session_that_touched_nothing_yet_shows_what_it_may_need(plane):
    plane.record("login fails for long names", role="user", session="a", data={"branch": "login"})
    wanted = touch(plane, "src/session.py", "a", "login")
    for number in range(12):
        touch(plane, f"docs/{number}.md", "b", "main")
    plane.record("why does the login fail?", role="user", session="c", data={"branch": "login"})
    block = plane.pack(session="c", budget=4000)
    assert files_of(block)[0] == "src/session.py (login)"
    assert len(files_of(block)) == 10
    entry = next(
        one for one in block.entries if "src/session.py" in one.text and one.place == "tail"
    )
    assert (entry.parts, entry.events, entry.source) == ((wanted.id,), (), "projection:files")
    touch(plane, "src/new.py", "c", "login")
    assert files_of(plane.pack(session="c", budget=4000)) == ["src/new.py (login)"]


def test_without_a_session_the_files_of_all_stand_newest_first(plane):
    for session, path in (("a", "1.py"), ("b", "2.py"), ("a", "3.py"), ("b", "1.py")):
        touch(plane, path, session)
    touch(plane, "4.py", None)
    assert files_of(plane.pack(budget=4000)) == ["4.py", "1.py", "3.py", "2.py"]


@pytest.mark.parametrize("session", ["own", "new", None])
def test_a_file_that_only_a_hidden_event_touched_is_in_no_pack_and_no_listing(plane, session):
    touch(plane, "secret-plan.md", "own", sensitivity="high")
    touch(plane, "open.md", "own")
    forgotten = touch(plane, "gone.md", "own")
    plane.record("go on", role="user", session="new")
    plane.forget(id=forgotten.id)
    block = plane.pack(session=session, channel="public", budget=4000)
    assert files_of(block) == ["open.md"]
    assert [one.path for one in plane.work.files(session=session, channel="public")] == ["open.md"]
    assert "secret-plan" not in str(block.report)


def test_a_pack_as_of_a_seq_shows_the_files_of_then(plane):
    touch(plane, "early.py", "a")
    plane.record("begin", role="user", session="n")
    seq = plane.head().seq
    then = plane.pack(session="n", budget=4000)
    touch(plane, "late.py", "b")
    now = plane.pack(session="n", as_of=seq, now=then.report["request"].get("now"), budget=4000)
    assert files_of(now) == ["early.py"] == files_of(then)
    assert [one.path for one in plane.at(seq).work.files()] == ["early.py"]
    assert files_of(plane.pack(session="n", budget=4000)) == ["late.py", "early.py"]


def test_the_same_prefix_gives_the_same_bytes_from_a_file_a_fold_and_a_rebuild(plane, clock):
    for number in range(200):
        plane.record(f"prompt {number} about part{number % 7}", role="user", session=f"s{number}")
        touch(plane, f"part{number % 23}/file{number % 50}.py", f"s{number}", f"b{number % 5}")
    plane.record("part3 again", role="user", session="new", data={"branch": "b2"})
    asked = {"session": "new", "budget": 4000, "now": clock()}
    first = plane.pack(**asked)
    plane.upkeep.rebuild()
    assert plane.pack(**asked).text == first.text
    assert plane.upkeep.differing() == []
    plane.close()
    assert (plane.home / "projections" / "files.json").exists()
    with memplane.open(plane.home, clock=clock) as again:
        block = again.pack(**asked)
        assert block.text == first.text
        assert block.report["io"]["files"] <= again.upkeep.policies.budgets.limits.file_reads_max
        assert [one.path for one in again.work.files(session="new")][:10] == [
            line.split(" (")[0] for line in files_of(block)
        ]
    assert len(files_of(first)) == 10


def test_only_a_session_without_files_reads_the_files_view(plane, clock):
    for number in range(40):
        plane.record(f"turn {number}", role="user", session="own")
        touch(plane, f"{number}.py", "own")
    plane.pack(session="own")
    plane.upkeep.rebuild()
    plane.close()
    with memplane.open(plane.home, clock=clock) as again:
        for asked in ({}, {"session": "own"}, {"session": "new", "sections": ["rules"]}):
            again.pack(**asked, budget=4000)
            assert not opened_files_view(again), asked
        again.pack(session="new", budget=4000)
        assert opened_files_view(again)


def opened_files_view(plane) -> bool:
    return plane.context.caught_up().files_opened


def test_a_block_without_room_for_a_file_opens_no_files_view(plane, clock):
    for number in range(100):
        touch(plane, f"{number}.py", "own")
    plane.pack(session="own")
    plane.close()
    with memplane.open(plane.home, clock=clock) as again:
        again.pack(session="own")
        again.pack(session="new", budget=7)
        assert not opened_files_view(again)
        again.pack(session="new", budget=4000)
        assert opened_files_view(again)


def test_the_files_view_lists_own_files_before_guessed_ones_by_falling_score(plane):
    touch(plane, "guessed.py", "a")
    touch(plane, "own.py", "b")
    touch(plane, "own.py", "b")
    found = plane.work.files(session="b")
    assert [(one.path, one.touches, one.why[0]) for one in found] == [
        ("own.py", 2, "session"), ("guessed.py", 1, "recent"),
    ]  # fmt: skip
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert plane.event(found[0].seq).id == found[0].id
    assert [one.path for one in plane.work.files(limit=1)] == ["own.py"]


@pytest.mark.parametrize(
    "asked", [{"limit": 0}, {"limit": 1001}, {"limit": True}, {"channel": "nobody"}, {"branch": 3}]
)
def test_a_wrong_question_for_files_is_refused(plane, asked):
    with pytest.raises(memplane.InputError):
        plane.work.files(**asked)


def test_a_path_is_redacted_on_emit_under_todays_policy(plane):
    touch(plane, "notes/zebra-7.md", "a")
    policy = plane.home / "policies" / "privacy.yaml"
    policy.write_text(
        policy.read_text().replace("redact_patterns: [", 'redact_patterns: ["zebra-[0-9]", ', 1)
    )
    assert "zebra" not in plane.pack(session="a", budget=4000).text
    assert "zebra" not in str(plane.work.files(session="a"))


# --- sections of the policy's own ---


def own_section(plane, fields: str) -> None:
    policy = plane.home / "policies" / "budgets.yaml"
    added = f"  house_rules: {{max_tokens: 3000, priority: 5, share: 0.1, {fields}}}\nlimits:"
    policy.write_text(policy.read_text().replace("limits:", added, 1))


def section_of(block) -> list[str]:
    return [entry.text.strip() for entry in block.entries if entry.section == "house_rules"]


def test_an_own_section_shows_its_view_then_its_kinds_in_log_order(plane):
    own_section(plane, "views: [views/house.md], kinds: [insight, observation]")
    (plane.home / "views" / "house.md").write_text("Doors are closed at ten.\n")
    plane.record("first seen", kind="observation")
    plane.record("then understood", kind="insight", ns="/task/t")
    plane.record("not asked for", kind="plan")
    block = plane.pack(budget=4000, sections=["house_rules"])
    assert section_of(block) == [
        "Doors are closed at ten.", "observation: first seen", "insight: then understood",
    ]  # fmt: skip
    assert "## House rules" in block.text
    assert {entry.place for entry in block.entries} == {"tail"}


def test_an_own_section_takes_the_newest_within_its_room_and_says_what_it_left_out(plane):
    own_section(plane, "kinds: [observation]")
    for number in range(60):
        plane.record(f"seen {number} " + "word " * 60, kind="observation")
    block = plane.pack(budget=2000, sections=["house_rules"])
    shown = section_of(block)
    assert shown
    assert shown[-1].startswith("observation: seen 59")
    assert block.tokens <= 2000
    assert block.report["omissions"]["counts"]["budget"] >= 1
    hidden = plane.record("not for all", kind="observation", sensitivity="high")
    block = plane.pack(budget=2000, sections=["house_rules"], channel="public")
    assert "not for all" not in block.text
    assert hidden.id not in {
        one for entry in block.entries for one in (*entry.events, *entry.parts)
    }


def test_an_own_section_finds_decisions_and_cards_that_left_every_ring(plane):
    own_section(plane, "kinds: [decision, insight, observation]")
    plane.record("We keep herons", kind="decision", key="birds")
    plane.record("Herons nest in March", kind="insight")
    plane.record("A heron stood there", kind="observation")
    plane.record_many(
        {"text": f"turn {number}", "session": f"s{number % 12}"} for number in range(1200)
    )
    shown = section_of(plane.pack(budget=4000, sections=["house_rules"]))
    assert shown == [
        "decision birds: We keep herons", "insight: Herons nest in March",
        "observation: A heron stood there",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "hidden",
    [
        {"sensitivity": "high"},
        {"ns": "/task/other"},
        {"ns": "/agent/somebody"},
        {"kind": "decision", "text": "We merge with acme"},
    ],
)
def test_a_branch_that_only_a_hidden_event_names_is_told_nowhere(plane, hidden):
    start = {"kind": "session", "session": "a", "data": {"status": "start", "branch": "acquire"}}
    plane.record(**{"text": "s", **start, **hidden})
    plane.record("edit", kind="tool_call", session="a", data={"tool": "Edit", "path": "src/a.py"})
    packed = plane.pack("x", session="new", channel="public", task="mine").text
    listed = plane.work.files(channel="public") + plane.work.files(session="a", channel="public")
    assert "src/a.py" in packed
    assert "acquire" not in packed + str(listed)


def test_a_branch_is_forgotten_with_the_event_that_named_it(plane):
    named = {"status": "start", "branch": "acquire"}
    start = plane.record("s", kind="session", session="a", data=named)
    plane.forget(id=start.id)
    plane.record("edit", kind="tool_call", session="a", data={"tool": "Edit", "path": "src/a.py"})
    assert "acquire" not in plane.pack("x", session="new").text + str(plane.work.files(session="a"))
