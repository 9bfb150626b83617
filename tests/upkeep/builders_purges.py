"""What tests of purges share: a secret, a plane that has used it, and whether it is gone."""

from memplane.log import verify_log

WORD = "quaggasecret"
SECRET = f"The {WORD} lives behind the third door of the old library"


def holds(home):
    """The files in which the word stands, as bytes."""
    return sorted(
        path.relative_to(home).as_posix()
        for path in home.rglob("*")
        if path.is_file() and WORD.encode() in path.read_bytes()
    )


def fill(plane, events=40):
    for n in range(events):
        plane.record(
            f"herons nest in tree {n}", id=f"h{n}", session=f"s{n % 3}", role="user",
            ts=f"2026-03-01T10:{n % 60:02d}:00Z",
        )  # fmt: skip


def used(plane):
    """Whatever memplane may keep of an event has been made once."""
    plane.search(WORD)
    plane.pack("who lives behind the door?", session="s1", intent="deep", save_report=True)
    plane.pack(SECRET, session="s1", save_report=True)
    plane.upkeep.index()
    plane.upkeep.rebuild()


def check_gone(plane):
    home = plane.home
    assert holds(home) == []
    assert plane.search(WORD) == []
    for intent in ("fast", "deep", "orient"):
        block = plane.pack("who lives behind the door?", session="s1", intent=intent, budget=20_000)
        assert WORD not in block.text
        assert [one for one in block.omissions if one.reason == "gap"] == []
    assert plane.upkeep.differing() == []
    assert verify_log(home, plane.id).ok
    plane.upkeep.rebuild()
    assert holds(home) == []
