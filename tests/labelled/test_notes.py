"""The notes in several scripts: the form of the file. What is found of it: tests/index."""

SCRIPTS = {"korean", "chinese", "japanese", "identifier", "path", "code"}


def test_there_are_at_least_forty_notes_in_all_scripts(notes):
    assert len(notes) >= 40
    assert {note["script"] for note in notes} == SCRIPTS
    assert (
        len({note["id"] for note in notes}) == len({note["text"] for note in notes}) == len(notes)
    )


def test_every_note_is_asked_for_whole_and_by_a_part(notes):
    for note in notes:
        assert set(note) == {"id", "script", "text", "whole", "part"}, note
        for query in (*note["whole"], *note["part"]):
            assert query.strip(), note["id"]
        assert note["whole"], note["id"]
        assert note["part"], note["id"]
