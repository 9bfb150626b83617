"""A pack or a search beside an append of another thread answers as of the seq that it names."""

import threading

import pytest

import memplane
from memplane.log.log import Tail

NOW = "2030-01-01T00:00:00Z"
QUERY = "which heron stands in pond 3?"


def recorded(plane, count):
    for number in range(count):
        plane.record(f"heron {number} in pond {number % 5}", kind="fact", key=f"pond.{number % 5}")


class Meanwhile:
    """An append whose line lies in the file, and that goes on at the n-th look at own lines."""

    def __init__(self, plane, monkeypatch, look):
        self._written, self._goes_on = threading.Event(), threading.Event()
        self._left, behind = look, Tail.behind
        writer = plane._log._writer
        write = writer.write

        def paused(*given):
            write(*given)
            self._written.set()
            assert self._goes_on.wait(60)

        def looked(tail, position):
            found = behind(tail, position)
            self._left -= 1
            if not self._left:
                self.finish()
            return found

        monkeypatch.setattr(writer, "write", paused)
        monkeypatch.setattr(Tail, "behind", looked)
        said = "the last heron in pond 3"
        record = {"kind": "fact", "key": "pond.3"}
        self._thread = threading.Thread(target=plane.record, args=(said,), kwargs=record)
        self._thread.start()
        assert self._written.wait(60)

    def finish(self):
        self._goes_on.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("look", range(1, 9))
def test_a_block_made_while_another_thread_records_is_made_again(plane, monkeypatch, look):
    recorded(plane, 40)
    plane.pack(QUERY, intent="deep", budget=900, now=NOW)
    recorded(plane, 5)
    meanwhile = Meanwhile(plane, monkeypatch, look)
    block = plane.pack(QUERY, intent="deep", budget=900, now=NOW)
    meanwhile.finish()
    seq = block.report["log"]["seq"]
    with memplane.open(plane.home, read_only=True) as fresh:
        again = fresh.pack(QUERY, intent="deep", budget=900, now=NOW, as_of=seq)
    assert again.text == block.text
