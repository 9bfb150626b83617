"""While one request is answered the log stands still, whoever appends to it meanwhile."""

import pytest

import memplane
from memplane.clock import clock
from memplane.context.calls import checked_request
from memplane.context.folds import SnapshotLog
from memplane.ports import Position
from memplane.search.service import index_service, scope_of_request

LATE = "2030-01-01T00:00:00Z"


@pytest.fixture
def home(tmp_path):
    with memplane.init(tmp_path / "p") as plane:
        for n in range(12):
            plane.record(f"heron {n} in the pond", session="s", role="user")
            plane.record(f"{n} boats", kind="fact", key=f"boat.{n % 3}")
            plane.record("ok", kind="tool_result", role="tool", session="s", data={"path": f"f{n}"})
        return plane.home


def behind(line):
    return Position(line.event.seq, line.event.h, line.segment, line.end)


def test_a_log_that_stands_has_no_later_lines_until_it_moves(home):
    with memplane.open(home) as plane:
        log = SnapshotLog(plane._log)
        log.move()
        head, lines = log.head(), list(log.read())
        plane.record("later")
        assert (log.head(), list(log.read()), list(log.read(0, 999))) == (head, lines, lines)
        assert list(log.read_from(behind(lines[4]))) == lines[5:]
        assert log.matches(head)
        assert not log.matches(plane.head())
        with log.moving():
            assert log.matches(plane.head())
            assert len(list(log.read_from(head))) == 1
        assert log.head() == head
        log.move()
        assert log.head() == plane.head()


@pytest.mark.parametrize(
    "asked",
    [
        {"query": "herons and boats", "intent": "deep"}, {"query": "boats", "intent": "fast"},
        {"intent": "orient"}, {"session": "s"}, {"session": "late"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("warm", [False, True])
def test_what_is_appended_while_a_pack_is_made_is_no_part_of_it(home, asked, warm):
    """The clock is read behind the log's head: here others write at that moment."""
    writing = []

    def busy():
        if writing:
            other = writing.pop()
            other.record("heron 99 in the pond", session="late", role="user")
            other.record("99 boats", kind="fact", key="boat.1")
            other.record("ok", kind="tool_result", role="tool", session="s", data={"path": "f99"})
        return clock()

    with memplane.open(home) as other, memplane.open(home, clock=busy) as plane:
        if warm:
            plane.pack(**asked)
        writing.append(other)
        block = plane.pack(**asked)
        assert not writing
        request = {**asked, "now": block.report["request"]["now"]}
        head = block.report["log"]["seq"]
        assert head == other.head().seq - 3
        with memplane.open(home) as fresh:
            assert fresh.pack(**request, as_of=head).text == block.text
        again = plane.pack(**asked, now=LATE)
        with memplane.open(home) as fresh:
            assert fresh.pack(**asked, now=LATE).text == again.text
        assert plane.upkeep.differing() == []


def test_what_replaces_an_event_that_is_not_indexed_yet_hides_it_once_it_is(home):
    with memplane.open(home) as other, memplane.open(home) as plane:
        context = plane.context
        with context.lock:
            policies = plane.upkeep.policies
            retriever = index_service(context).retriever(policies, context.caught_up(policies))
            for n in (70, 71):
                other.record(f"{n} boats", kind="fact", key="boat.2")
            other.forget(id=other.record("80 boats").id)
            folds = context.caught_up(policies)  # further than what the retriever was made of
            request = checked_request(
                "boats", {}, policies, head=folds.log.head().seq, clock=clock,
                seq_by=lambda _: 0, redactor=context.intake(policies).redactor,
            )  # fmt: skip
            scope = scope_of_request(context, folds, request, policies)
            retriever.find("boats", upto=request.as_of, scope=scope, most=9)
        texts = [hit.event.text for hit in plane.search("boats", k=20)]
        assert "71 boats" in texts
        assert not {"70 boats", "80 boats"} & set(texts)
        with memplane.open(home) as fresh:
            assert texts == [hit.event.text for hit in fresh.search("boats", k=20)]
