"""The memories: what each key means now and meant before, however it was folded and wherever it lies."""

import stat

from builders_journal import HISTORIES, Journal
from checks_law import holds_the_law
from hypothesis import given, settings, strategies as st

from memplane.projections.in_force import MemoryChains
from memplane.projections.memories import Memories
from tests.examples import examples
from tests.projections.test_ledger import decision, forget

SKIPPED = {"forget", "pin", "touch", "purge", "repair", "segment", "session"}
KEYED = [
    {"kind": "fact", "key": f"k{n % 40:02}", "session": f"s{n % 7}", "id": f"src:{n}"}
    for n in range(300)
]


def opened(journal, folder=None):
    memories = Memories(journal, folder, plane="plane")
    memories.catch_up()
    return memories


def key_names(memories, *given, **options):
    found = memories.keys(*given, **options)
    return [row.key for row in found]


def of(rows):
    return opened(Journal(rows))


def fates(memories, key, ns="/global", **as_of):
    return [(row.seq, row.reason, row.by_seq) for row in memories.history(ns, key, **as_of)]


class Naive:
    """What the memories promise, said in the plainest way: every act is applied when it comes."""

    def __init__(self, lines):
        self.chains = {}
        self.touched = {}
        known = set()
        for line in lines:
            event = line.event
            undo = event.data.get("undo") is True
            if event.kind == "forget":
                named = event.data["forget"]
                why = "evicted" if event.data.get("reason") == "evicted" else "forgotten"
                self.forget(
                    named if isinstance(named, dict) else {}, None if undo else (why, event.seq)
                )
            elif event.kind == "touch":
                self.touched |= {ref: event.ts for ref in event.refs if ref in known}
            elif event.kind == "pin":
                for row in self.rows():
                    if row["id"] in event.refs:
                        row["pinned"] = not undo
            elif event.kind not in SKIPPED and event.key is not None:
                row = {
                    "seq": event.seq,
                    "id": event.id,
                    "session": event.session,
                    "forgotten": None,
                    "pinned": False,
                }
                self.chains.setdefault((event.ns, event.key), []).append(row)
            known.add(event.id)

    def rows(self):
        return [row for chain in self.chains.values() for row in chain]

    def forget(self, named, by):
        if "key" in named:
            for row in self.chains.get((named.get("ns", "/global"), named["key"]), [])[-1:]:
                row["forgotten"] = by
            return
        for row in self.rows():
            if (
                row["id"] in named.get("ids", [])
                or ("session" in named and row["session"] == named["session"])
                or ("source" in named and row["id"].startswith(named["source"] + ":"))
            ):
                row["forgotten"] = by

    def history(self, place):
        chain = self.chains.get(place, [])
        told = []
        for at, row in enumerate(chain):
            by = chain[at + 1]["seq"] if at + 1 < len(chain) else None
            reason, by = row["forgotten"] or ("superseded" if by else None, by)
            told.append((row["seq"], reason, by, row["pinned"]))
        return told

    def current(self):
        order = sorted(self.chains, key=lambda place: (place[0].encode(), place[1].encode()))
        return [
            (*place, *self.history(place)[-1])
            for place in order
            if self.history(place)[-1][1] is None
        ]


def says_what_is_promised(memories, lines, **as_of):
    naive = Naive(lines)
    found = memories.keys(limit=1000, **as_of)
    assert [
        (row.ns, row.key, row.seq, row.reason, row.by_seq, row.pinned) for row in found
    ] == naive.current()
    for ns in ("/global", "/task/a", "/agent/b"):
        for key in ("db", "db.engine", "#3"):
            rows = memories.history(ns, key, **as_of)
            assert [(row.seq, row.reason, row.by_seq, row.pinned) for row in rows] == naive.history(
                (ns, key)
            )
            assert memories.current(ns, key, **as_of) == (
                rows[-1] if rows and rows[-1].reason is None else None
            )
    for event in (line.event for line in lines):
        assert memories.touched(event, **as_of) == naive.touched.get(event.id)
        chain = [] if event.key is None else naive.history((event.ns, event.key))
        older = [row[0] for row in chain if row[0] < event.seq and event.kind not in SKIPPED]
        assert memories.before(event) == (older[-1] if older else None)


@settings(max_examples=examples(26), deadline=None)
@given(HISTORIES)
def test_any_split_of_any_history_folds_to_the_same_bytes(rows):
    holds_the_law(MemoryChains(), Journal(rows).lines)


@settings(max_examples=examples(26), deadline=None)
@given(HISTORIES, st.integers(0, 40))
def test_every_answer_is_what_applying_each_event_at_once_would_give_also_as_of_earlier(rows, upto):
    journal = Journal(rows)
    memories = opened(journal)
    says_what_is_promised(memories, journal.lines)
    says_what_is_promised(memories, journal.lines[:upto], upto=upto)


@settings(max_examples=examples(20), deadline=None)
@given(
    HISTORIES,
    st.lists(st.sampled_from(["fold", "save", "reopen", "other saves"]), max_size=10),
    st.integers(0, 40),
)
def test_file_and_memory_together_say_the_same_wherever_the_line_between_them_lies(
    tmp_path_factory, rows, steps, upto
):
    folder = tmp_path_factory.mktemp("projections")
    size = len(rows) // (steps.count("fold") + 2) + 1
    journal = Journal(rows[:size])
    memories, other = opened(journal, folder), opened(journal, folder)
    memories.save()
    for step in [*steps, "fold"]:
        if step == "fold":
            journal.extend(rows[len(journal.lines) : len(journal.lines) + size])
            memories.catch_up()
        elif step == "save":
            memories.save()
        elif step == "reopen":
            memories.close()
            memories = opened(journal, folder)
        else:
            other.catch_up()
            other.save()
        says_what_is_promised(memories, journal.lines)
    says_what_is_promised(memories, journal.lines[:upto], upto=upto)
    assert memories.dump() == opened(journal).dump()
    memories.close()
    other.close()


def test_a_later_event_of_any_kind_supersedes_and_the_chain_says_by_which():
    memories = of([decision(key="k"), {"key": "k"}, {"kind": "task", "key": "k"}])
    assert fates(memories, "k") == [(1, "superseded", 2), (2, "superseded", 3), (3, None, None)]
    assert memories.current("/global", "k").kind == "task"


def test_a_forgotten_current_value_does_not_bring_its_predecessor_back_and_a_later_one_is_current():
    rows = [decision(key="k"), decision(key="k"), forget(key="k")]
    memories = of(rows)
    assert memories.current("/global", "k") is None
    assert fates(memories, "k") == [(1, "superseded", 2), (2, "forgotten", 3)]
    assert of([*rows, decision(key="k")]).current("/global", "k").seq == 4
    assert of([*rows, forget(undo=True, key="k")]).current("/global", "k").seq == 2


def test_unforgetting_what_was_superseded_meanwhile_makes_it_superseded_not_current():
    rows = [decision(key="k", id="x:1"), forget(ids=["x:1"]), decision(key="k")]
    assert fates(of(rows), "k")[0] == (1, "forgotten", 2)
    assert fates(of([*rows, forget(undo=True, ids=["x:1"])]), "k") == [
        (1, "superseded", 3),
        (3, None, None),
    ]


def test_an_answer_as_of_an_earlier_seq_knows_nothing_of_what_followed():
    memories = of([decision(key="k"), decision(key="k"), forget(key="k")])
    assert fates(memories, "k", upto=1) == [(1, None, None)]
    assert fates(memories, "k", upto=2) == [(1, "superseded", 2), (2, None, None)]
    assert memories.current("/global", "k", upto=2).seq == 2
    assert memories.keys(upto=0) == []


def test_events_without_a_key_are_in_no_chain_and_still_answer_whether_they_are_forgotten():
    journal = Journal(
        [
            {"session": "s"},
            {"session": "t"},
            forget(session="s"),
            decision(key="k"),
            decision(key="k"),
        ]
    )
    memories = opened(journal)
    told = [memories.archived(line.event) for line in journal.lines]
    assert told == [("forgotten", 3), None, None, ("superseded", 5), None]
    assert len(memories.keys()) == 1


def test_keys_come_in_byte_order_by_page_by_namespace_and_by_prefix(tmp_path):
    journal = Journal()
    memories = opened(journal, tmp_path)
    names = ["b", "a", "a.b", "a.c", "\U0001f600", "\uffff", "é", "Z"]
    for at, name in enumerate(names):  # half of them in the file, half in memory
        journal.extend([{"key": name}, {"key": name, "ns": "/task/t"}, {"key": "a.b"}])
        memories.catch_up()
        if at == 4:
            assert memories.save()
    order = sorted(names, key=str.encode)
    assert key_names(memories, ns="/global") == order
    found = memories.keys()
    assert [(row.ns, row.key) for row in found] == [
        (ns, key) for ns in ("/global", "/task/t") for key in order
    ]
    assert [row.key for row in memories.keys("a", ns="/global")] == ["a", "a.b", "a.c"]
    assert [(row.ns, row.key) for row in memories.keys("a.")] == [
        (ns, k) for ns in ("/global", "/task/t") for k in ("a.b", "a.c")
    ]
    paged, after = [], None
    while page := memories.keys(limit=3, after=after):
        assert len(page) <= 3
        paged += page
        after = page[-1].ns, page[-1].key
    assert paged == memories.keys(limit=1000)
    assert memories.keys("none") == memories.keys(limit=0) == memories.keys(ns="/task/none") == []
    memories.close()


def test_a_key_that_is_new_since_the_last_look_is_in_the_next():
    journal = Journal([{"key": "b"}, {"key": "d"}])
    memories = opened(journal)
    assert key_names(memories) == ["b", "d"]
    journal.extend([{"key": "c"}, {"key": "a"}])
    memories.catch_up()
    assert key_names(memories) == ["a", "b", "c", "d"]


def test_many_keys_are_paged_out_of_the_file_in_order(tmp_path):
    journal = Journal({"key": f"k{n * 7919 % 2000:04}"} for n in range(2000))
    memories = opened(journal, tmp_path)
    journal.extend([forget(key="k0003"), {"key": "k0004"}])
    assert memories.save()
    memories.catch_up()
    found = memories.keys(limit=1999)
    assert [row.key for row in found] == [f"k{n:04}" for n in range(2000) if n != 3]
    assert found[3].seq == 2002
    assert len(memories.keys("k1", limit=5000)) == 1000
    memories.close()


def test_the_file_is_its_owners_alone_and_nothing_is_left_beside_it(tmp_path):
    memories = opened(Journal(KEYED), tmp_path)
    assert memories.save()
    assert stat.S_IMODE((tmp_path / "cache.sqlite").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "cache.acts",
        "cache.sqlite",
    ]
    memories.close()


def test_the_journal_of_a_killed_writer_is_not_left_for_the_new_file(tmp_path):
    (tmp_path / "cache.sqlite-journal").write_bytes(b"what a killed writer left" * 400)
    memories = opened(Journal(KEYED), tmp_path)
    assert memories.save()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "cache.acts",
        "cache.sqlite",
    ]
    memories.close()


def test_what_was_saved_is_not_folded_again(tmp_path):
    journal = Journal(KEYED)
    memories = opened(journal, tmp_path)
    assert memories.save()
    memories.close()
    journal.lines_read = 0
    journal.extend(KEYED[:2])
    again = Memories(journal, tmp_path, plane="plane")
    assert again.catch_up() == 2
    assert again.dump() == opened(Journal([*KEYED, *KEYED[:2]])).dump()
    again.close()
