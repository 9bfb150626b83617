"""What the index of a plane finds: names, tags, keys, markers, speakers, passages."""

from builders_searches import find, retriever, seqs

from memplane.search.retriever import ItemCache


def test_an_exact_key_stands_first_and_a_tag_counts(plane):
    plane.record_many({"text": f"the db engine of ledger {n}"} for n in range(30))
    named = plane.record("We keep PostgreSQL.", kind="decision", key="db.engine")
    tagged = plane.record("Something else entirely.", tags=["Ledger"])
    assert seqs(plane, "what is db.engine?")[0] == named.seq
    found = {one.seq: one for one in find(plane, "ledger").found}
    assert found[tagged.seq].tags > 0
    assert all(
        one.score == one.words + one.neighbours + one.markers + one.tags + one.key
        for one in found.values()
    )


def test_a_marker_lifts_what_is_relevant_and_nothing_else(plane):
    plain = plane.record("herons nest by the lake")
    marked = plane.record("herons nest by the lake", markers=["constraint", "custom:x"])
    plane.record("cranes dance at dawn", markers=["constraint"])
    found = find(plane, "herons nest").found
    assert [one.seq for one in found] == [marked.seq, plain.seq]
    assert found[0].markers > 0
    assert found[0].score <= 2 * found[1].score


def test_only_what_bears_the_labels_is_found(plane):
    fact = plane.record("herons nest", kind="fact", session="s1", tags=["Birds"])
    plane.record("herons nest", kind="fact", session="s2")
    plane.record("herons nest", session="s1")
    asked = (("kind:fact", "kind:rule"), ("session:s1",), ("tag:birds",))
    assert seqs(plane, "herons", only=asked) == [fact.seq]
    assert seqs(plane, "herons", only=(("kind:plan",),)) == []


def test_the_tokens_of_an_event_are_those_of_its_whole_text(plane):
    text = "The herons nest by the lake. " * 900
    plane.record(text, kind="tool_result", role="tool")
    plane.record(text, role="assistant")
    for found in find(plane, "herons").found:
        assert found.tokens == plane.event(found.seq).tokens


def test_a_passage_says_what_was_asked_for(plane):
    filler = "Nothing of note happened on that day at all. "
    plane.record(filler * 60 + "The herons nest by the lake. " + filler * 60)
    finding = find(plane, "herons nest")
    said = retriever(plane).passage(finding.found[0].doc, finding.wanted, 12)
    assert said == "The herons nest by the lake."


def test_the_tail_of_a_text_in_a_body_is_found_and_read(plane):
    plane.record("filler line\n" * 120_000 + "the herons nest at the very end")
    found = find(plane, "herons nest").found
    assert len(found) == 1
    assert retriever(plane).text(found[0].seq).endswith("very end")


def test_a_speaker_is_meant_by_name(plane):
    for name in ("Ann", "Bob", "Cleo"):
        plane.record("I went to the lake on Sunday.", role="user", actor=name)
    found = find(plane, "Where did Bob go?").found
    assert plane.event(found[0].seq).actor == "Bob"


def test_no_words_find_nothing(plane):
    plane.record("the herons")
    for query in ("", "the", "?!", "   "):
        assert find(plane, query).found == ()


def test_an_event_that_was_read_once_is_kept_as_it_stands_in_the_log(plane):
    herons = plane.record("herons nest by the lake")
    seen = ItemCache(plane.context.log, plane.context.counter(plane.upkeep.policies), 0)
    assert seen.kept(herons.seq) is None
    item = seen.item(herons.seq)
    item.superseded = item.forgotten = True  # for one request
    kept = seen.kept(herons.seq)
    assert kept is item
    assert (kept.text, kept.superseded, kept.forgotten) == ("herons nest by the lake", False, False)
