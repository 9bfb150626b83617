"""What an observer is told of a plane at work, and what it is never told."""

import asyncio
import contextlib
import io
import json
import logging

import pytest
from hypothesis import given, settings, strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import memplane
from memplane.acms import ACMS
from memplane.adapters.otel import OtelObserver
from memplane.errors import ConfigurationError, InputError
from memplane.observe import JsonLogs, correlated, correlation_id
from tests.examples import examples
from tests.providers.fakes_model_server import letters


class Written:
    """JSON lines, read back."""

    def __init__(self, level="debug"):
        self.stream = io.StringIO()
        self.observer = JsonLogs(self.stream, level)

    @property
    def lines(self):
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def named(self, name):
        return [line for line in self.lines if line["event"] == name]


class Letters:
    name, dimension = "letters", 26

    def __init__(self):
        self.fails = False

    async def embed(self, texts):
        if self.fails:
            raise ConnectionError("herons-secret")
        return [letters(text) for text in texts]


@pytest.fixture
def written():
    return Written()


@pytest.fixture
def plane(tmp_path, written):
    with memplane.init(
        tmp_path / "p", durability="os", observer=written.observer, environment={}
    ) as made:
        yield made


def test_each_call_is_a_line_with_counts_and_times(plane, written):
    plane.record("herons eat frogs", role="user", session="s")
    plane.record_many([{"text": f"owl {n}", "role": "user"} for n in range(3)])
    block = plane.pack("herons", budget=500, channel="agent")
    found = plane.search("herons", k=5)
    plane.get("no.such.key")
    plane.expand("expand://event/2")
    first, many = written.named("record")
    assert (first["seq"], first["count"]) == (2, 1)
    assert many["count"] == 3
    (packed,) = written.named("pack")
    assert (packed["tokens"], packed["count"]) == (block.tokens, len(block.entries))
    assert packed["channel"] == "agent"
    assert written.named("search")[0]["count"] == len(found)
    assert written.named("get")[0]["count"] == 0
    assert written.named("expand")[0]["tokens"] > 0
    assert written.named("catch_up")
    assert written.named("index")
    for line in written.lines:
        assert {"ts", "level", "event", "correlation_id", "plane"} <= line.keys()
        assert line["correlation_id"]
    assert len({line["correlation_id"] for line in written.named("record")}) == 2


def test_what_happens_within_a_call_has_its_id(plane, written):
    plane.record("herons", role="user")
    with correlated("turn-7") as name:
        assert name == correlation_id() == "turn-7"
        plane.record("owls", role="user")
        plane.pack("owls", budget=500)
    assert correlation_id() == ""
    plane.pack("owls", budget=500)
    inside = [line["event"] for line in written.lines if line["correlation_id"] == "turn-7"]
    assert {"record", "catch_up", "index", "pack"} <= set(inside)
    assert written.named("pack")[1]["correlation_id"] != "turn-7"


def test_one_id_follows_a_turn_from_ingest_to_recall(plane, written):
    async def main():
        async with ACMS("s", plane) as session:

            async def turn(name):
                with correlated(name):
                    await session.ingest("user", f"herons {name}")
                    await session.recall("herons")

            await asyncio.gather(*(turn(f"turn-{n}") for n in range(5)))

    asyncio.run(main())
    for n in range(5):
        names = [one["event"] for one in written.lines if one["correlation_id"] == f"turn-{n}"]
        assert names.count("record") == 1
        assert names.count("recall") == 1


@pytest.mark.parametrize("bad", ["", "a b", "x" * 65, "é", 5, "a\nb", "--"])
def test_an_id_is_a_word(bad):
    with pytest.raises(InputError), correlated(bad):
        pass


def test_a_failure_is_a_class_and_no_message(plane, written):
    with pytest.raises(InputError):
        plane.record("herons", kind="herons-secret")
    (line,) = written.named("record")
    assert (line["error"], line["level"]) == ("InputError", "warning")
    assert "herons" not in written.stream.getvalue()


def test_an_embedder_that_fails_is_told(tmp_path, written):
    made = Letters()
    with memplane.init(tmp_path / "q", embedder=made, observer=written.observer) as plane:
        plane.record("herons eat frogs", role="user")
        plane.upkeep.embed()
        made.fails = True
        plane.pack("what do herons eat?", budget=500)
    assert [line.get("error") for line in written.named("embed")] == [None, "ProviderError"]
    assert len(written.named("degraded")) == 1
    assert "herons" not in written.stream.getvalue()


@settings(max_examples=examples(20), deadline=None)
@given(
    words=st.lists(
        st.text(st.characters(categories=("L", "N")), min_size=6, max_size=12),
        min_size=5,
        max_size=5,
    )
)
def test_nothing_that_is_stored_or_asked_is_in_any_line(tmp_path_factory, words):
    text, query, key, session, agent = (f"canary{word}" for word in words)
    written = Written()
    spans, observer = telemetry()
    where = tmp_path_factory.mktemp("p") / "canaryplace"
    both = memplane.observe.Both(written.observer, observer)
    with memplane.init(where, durability="os", observer=both, environment={}) as plane:
        plane.record(text, role="user", session=session, tags=[f"t{key}"], actor=agent)
        plane.record(f"{text} b", kind="decision", key=key, ns=f"/agent/{agent}")
        for call in (
            lambda: plane.pack(query, budget=500, session=session, agent=agent),
            lambda: plane.search(query, session=session),
            lambda: plane.get(key),
            lambda: plane.history(key),
            lambda: plane.keys(key),
            lambda: plane.event(query),
            lambda: plane.recall(query, session=session, agent=agent),
            lambda: plane.expand(f"expand://event/{query}"),
            lambda: plane.record(text, kind=query),
        ):
            with contextlib.suppress(memplane.MemplaneError):
                call()
    told = written.stream.getvalue() + "".join(
        span.to_json() for span in spans.get_finished_spans()
    )
    assert "canary" not in told


def test_a_thousand_secrets_are_in_no_line(plane, written):
    rows = [
        {
            "text": f"password=canary-{n}-hunter and sk-canary{n:040d}",
            "role": "user",
            "key": f"canary.{n}",
        }
        for n in range(1_000)
    ]
    plane.record_many(rows)
    for n in range(0, 1_000, 100):
        plane.pack(f"canary {n} hunter", budget=1_000)
        plane.search(f"canary {n} hunter")
    assert "canary" not in written.stream.getvalue()
    assert "hunter" not in written.stream.getvalue()


def test_an_observer_that_raises_is_dropped_and_costs_no_call(tmp_path, caplog):
    class Broken:
        def event(self, *_):
            raise ValueError("herons")

        span = event

    with (
        memplane.init(tmp_path / "p", observer=Broken()) as plane,
        caplog.at_level(logging.WARNING),
    ):
        for n in range(3):
            plane.record(f"owl {n}", role="user")
        assert plane.pack("owl", budget=500).tokens > 0
    assert [record.message for record in caplog.records] == [
        "the observer failed and was dropped (ValueError)"
    ]


def test_a_block_is_the_same_with_an_observer_and_without(tmp_path):
    with memplane.init(tmp_path / "p", durability="os") as plane:
        for n in range(30):
            plane.record(f"heron {n} eats frogs", role="user", session=f"s{n % 3}")
        now = plane.context.clock()
        before = [plane.pack(f"heron {n}", budget=600, now=now).text for n in range(10)]
    with memplane.open(tmp_path / "p", observer=Written().observer) as plane:
        assert [plane.pack(f"heron {n}", budget=600, now=now).text for n in range(10)] == before


def test_levels_leave_out_what_is_below(tmp_path):
    counts = []
    for level in ("debug", "info", "warning"):
        written = Written(level)
        with memplane.init(tmp_path / level, observer=written.observer) as plane:
            plane.record("owl", role="user")
            plane.pack("owl", budget=500)
        counts.append({line["event"] for line in written.lines})
    assert counts[0] >= {"record", "pack", "catch_up", "index"}
    assert counts[1] == {"record", "pack"}
    assert counts[2] == set()


def test_a_variable_writes_lines_to_stderr(tmp_path, capsys):
    with memplane.init(tmp_path / "p", environment={"MEMPLANE_LOG": "json"}) as plane:
        plane.record("owl", role="user")
    assert json.loads(capsys.readouterr().err)["event"] == "record"
    for bad, error in (("text", InputError), ("json:loud", ConfigurationError)):
        with pytest.raises(error):
            memplane.open(tmp_path / "p", environment={"MEMPLANE_LOG": bad})


def test_an_observer_is_checked(tmp_path):
    with pytest.raises(ConfigurationError, match="observer"):
        memplane.init(tmp_path / "p", observer=object())
    assert not (tmp_path / "p").exists()


# --- OpenTelemetry ---


def telemetry():
    spans = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    return spans, OtelObserver(tracers, MeterProvider([InMemoryMetricReader()]))


def test_the_spans_of_one_call_are_one_trace(tmp_path):
    spans, observer = telemetry()
    with memplane.init(tmp_path / "p", embedder=Letters(), observer=observer) as plane:
        plane.record("herons eat frogs", role="user")
        plane.upkeep.embed()
        spans.clear()
        block = plane.pack("what do herons eat?", budget=500)
    embed, pack = spans.get_finished_spans()
    assert (embed.name, pack.name) == ("memplane.embed", "memplane.pack")
    assert embed.context.trace_id == pack.context.trace_id
    assert embed.parent.span_id == pack.context.span_id
    assert pack.attributes["memplane.tokens"] == block.tokens
    assert embed.attributes["gen_ai.operation.name"] == "embeddings"
    assert embed.attributes["gen_ai.request.model"] == "letters"


def test_counts_of_an_observer_are_those_of_the_calls(tmp_path):
    reader = InMemoryMetricReader()
    observer = OtelObserver(TracerProvider(), MeterProvider([reader]))
    with memplane.init(tmp_path / "p", observer=observer) as plane:
        for n in range(7):
            plane.record(f"owl {n}", role="user")
        for _ in range(3):
            plane.search("owl")
    (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    calls = next(one for one in scope.metrics if one.name == "memplane.calls")
    counted = {point.attributes["memplane.call"]: point.value for point in calls.data.data_points}
    assert (counted["record"], counted["search"]) == (7, 3)
