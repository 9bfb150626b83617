"""What survives: a signal, a kill, a removed token, more than is taken at once."""

import http.client
import json
import threading
import time

import memplane
from memplane.serve import TokenFile


def recording(served, stored, stop, failed, first):
    """Record one after the other until a stop; what was acknowledged goes into `stored`."""
    n = 0
    while not stop.is_set():
        n += 1
        try:
            status, answer = served.ask("POST", "/v1/record", {"text": f"statement {first}-{n}"})
        except (OSError, json.JSONDecodeError, http.client.HTTPException) as error:
            failed.append(error)
            return
        if status == 200:
            stored.append((answer["seq"], answer["id"], f"statement {first}-{n}"))


def under_load(served, end):
    stored, failed, stop = [], [], threading.Event()
    threads = [
        threading.Thread(target=recording, args=(served, stored, stop, failed, first))
        for first in range(4)
    ]
    for one in threads:
        one.start()
    while len(stored) < 20:
        time.sleep(0.02)
    end()
    stop.set()
    for one in threads:
        one.join(30)
    return stored


def all_there(home, stored):
    with memplane.open(home) as plane:
        for seq, id_, text in stored:
            event = plane.event(seq)
            assert (event.id, event.text) == (id_, text)
        assert plane.upkeep.verify().ok


def test_sigterm_finishes_what_was_begun_and_ends_with_zero(start):
    with start("--rate", "5000") as served:
        codes = []
        stored = under_load(served, lambda: codes.append(served.end()))
        assert codes == [0]
        home = served.planes / "harbour"
    all_there(home, stored)


def test_a_kill_loses_nothing_that_was_acknowledged(start):
    with start("--rate", "5000") as served:

        def kill():
            served.process.kill()
            served.process.wait()

        stored = under_load(served, kill)
        home = served.planes / "harbour"
    all_there(home, stored)
    with start() as again:
        assert again.ask("POST", "/v1/record", {"text": "after the kill"})[0] == 200


def test_a_token_that_is_removed_is_refused_at_once(start, tmp_path):
    with start() as served:
        assert served.ask("GET", "/v1/get?key=none")[0] == 404
        TokenFile(tmp_path / "tokens.json").remove("ann")
        assert served.ask("GET", "/v1/get?key=none")[0] == 401
        assert served.ask("GET", "/v1/get?key=none", token="bob")[0] == 404


def test_a_token_file_that_others_may_read_lets_nobody_in(start, tmp_path):
    with start() as served:
        (tmp_path / "tokens.json").chmod(0o644)
        status, said = served.ask("GET", "/v1/get?key=none")
        assert status == 503
        assert str(tmp_path) not in said["error"]["message"]


def test_what_is_wrong_with_a_plane_is_for_the_person_and_no_client(start, tmp_path):
    with start() as served:
        (served.planes / "harbour" / "plane.json").write_text("{")
        status, said = served.ask("GET", "/v1/get?key=none")
        assert status in (500, 503)
        assert str(tmp_path) not in said["error"]["message"]
        assert served.ask("GET", "/v1/get?key=none&plane=quay", token="both")[0] == 404


def test_more_than_the_rate_is_refused_for_that_token_alone(start):
    with start("--rate", "1") as served:
        statuses = [served.ask("GET", "/v1/get?key=none")[0] for _ in range(12)]
        assert 429 in statuses
        assert served.ask("GET", "/v1/get?key=none", token="bob")[0] == 404
