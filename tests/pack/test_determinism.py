"""A block is a function of the log, the policies, the views and the request: nothing else shows."""

import hashlib

from builders_planes import rows

import memplane

NOW = "2026-02-01T00:00:00Z"


def log_bytes(home) -> dict[str, str]:
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted((home / "log").glob("*.jsonl"))
    }


def test_packing_writes_nothing_below_log_and_reading_neither(plane):
    plane.record_many(rows(22, 200))
    before = log_bytes(plane.home)
    for query in ("parser", ""):
        plane.pack(query, session="s1")
    plane.get("k1")
    list(plane.events(limit=5))
    plane.history("k1")
    plane.expand("expand://event/5")
    plane.upkeep.rebuild()
    assert log_bytes(plane.home) == before


def test_a_resident_process_packs_the_same_as_one_that_opens_the_plane(plane):
    plane.pack("warm the caches")
    for row in rows(23, 300):
        plane.record(**row)
    resident = plane.pack("parser retry", session="s1", now=NOW)
    with memplane.open(plane.home) as fresh:
        again = fresh.pack("parser retry", session="s1", now=NOW)
    assert again.text == resident.text
    assert again.entries == resident.entries


def test_the_plane_as_of_a_seq_packs_what_the_plane_packed_then(plane):
    seen = []
    for number, row in enumerate(rows(24, 160)):
        plane.record(**row)
        if number % 40 == 0:
            block = plane.pack("parser retry timeout", session="s1", now=NOW)
            seen.append((plane.head().seq, block.text))
    for seq, text in seen:
        with plane.at(seq) as then:
            assert then.pack("parser retry timeout", session="s1", now=NOW).text == text
        assert plane.pack("parser retry timeout", session="s1", now=NOW, as_of=seq).text == text


def test_a_counter_or_its_scale_of_another_policy_recounts_everything(plane):
    plane.record_many(rows(25, 120))
    small = plane.pack("parser", budget=2000)
    policy = plane.home / "policies" / "budgets.yaml"
    policy.write_text(policy.read_text().replace("scale: 1.0", "scale: 1.5"))
    scaled = plane.pack("parser", budget=2000)
    assert scaled.tokens <= 2000
    assert len(scaled.text) < len(small.text)
    policy.write_text(policy.read_text().replace("counter: bound/1", "counter: len4"))
    assert plane.pack("parser", budget=2000).report["counter"] == "len4"
