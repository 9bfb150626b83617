"""`file_reads_max` and `bytes_read_max` bound what a request needs, whatever a process has read."""

from __future__ import annotations

import shutil

from hypothesis import HealthCheck, given, settings, strategies as st

import memplane
from memplane.explain.replay import replay_pack
from memplane.upkeep.reports import find_report
from tests.examples import examples

VIEWS = ("identity.md", "rules.project.md", "preferences.md")


def made(home, **limits: int):
    plane = memplane.init(home)
    for name in VIEWS:
        (home / "views" / name).write_text(f"The heron of {name} stands still.\n")
    policy = home / "policies" / "budgets.yaml"
    rows = "".join(f"  {name}: {most}\n" for name, most in limits.items())
    policy.write_text(f"version: 1\nlimits:\n{rows}")
    rows = [
        {"text": f"Turn {n}: heron {n % 9} waits at post {n}. " * (10 + n % 30), "kind": "message",
         "role": "user" if n % 2 else "assistant", "session": f"s{n // 40}"}
        for n in range(200)
    ]  # fmt: skip
    rows += [
        {"text": f"Post {n} is watched by herons.", "kind": "decision", "key": f"post.{n}"}
        for n in range(20)
    ]
    plane.record_many(rows)
    return plane


def counted(block, reason: str = "limit") -> int:
    return block.report["omissions"]["counts"].get(reason, 0)


REQUESTS = st.fixed_dictionaries(
    {
        "query": st.sampled_from(["", "which heron waits at post 7", "herons"]),
        "budget": st.sampled_from([300, 4000, 40_000]),
    },
    optional={
        "session": st.sampled_from(["s1", "s4"]),
        "intent": st.sampled_from(["fast", "deep", "orient"]),
        "expand": st.just(["event/9", "views/identity.md"]),
    },
)


@settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files=st.integers(1, 6), size=st.integers(65_536, 120_000), asked=REQUESTS)
def test_a_block_is_the_same_warm_cold_one_shot_and_replayed(tmp_path_factory, files, size, asked):
    home = tmp_path_factory.mktemp("needs") / "plane"
    with made(home, file_reads_max=files, bytes_read_max=size) as plane:
        now = "2026-11-01T00:00:00Z"
        first = plane.pack(**asked, now=now, save_report=True)
        warm = plane.pack(**asked, now=now)
        assert first.report["needs"]["files"] <= files
        assert first.report["needs"]["bytes"] <= size
        assert replay_pack(plane, find_report(home, str(first.report_path))).same
    with memplane.open(home) as plane:
        one_shot = plane.pack(**asked, now=now)
    for caches in ("projections", "index"):
        shutil.rmtree(home / caches, ignore_errors=True)
    with memplane.open(home) as plane:
        cold = plane.pack(**asked, now=now)
    for block in (warm, one_shot, cold):
        assert block.text == first.text
        assert block.report["needs"] == first.report["needs"]
        assert block.report["omissions"] == first.report["omissions"]


def test_views_go_last(tmp_path):
    with made(tmp_path / "plane", file_reads_max=3, bytes_read_max=65_536) as plane:
        block = plane.pack("which heron waits at post 7", expand=["views/identity.md"])
        assert all(f"The heron of {name} stands still" in block.text for name in VIEWS)
        assert block.report["needs"]["files"] == 3
        assert counted(block) > 0
        listed = {one.id: one.reason for one in block.omissions}
        assert listed["expand://views/identity.md"] == "limit"  # the handle: a fourth file
    with made(tmp_path / "less", file_reads_max=2, bytes_read_max=65_536) as plane:
        block = plane.pack("")
        assert {one.id for one in block.omissions if one.reason == "limit"} == {
            "views/preferences.md"
        }


def test_large_budgets_stop_at_the_bytes(tmp_path):
    with made(tmp_path / "plane", bytes_read_max=65_536) as plane:
        block = plane.pack("which heron waits at post 7", budget=60_000)
        assert 40_000 < block.report["needs"]["bytes"] <= 65_536
        assert counted(block) > 0


def test_the_commonest_words_of_a_query_are_left_out_first(tmp_path):
    with made(tmp_path / "plane", bytes_read_max=65_536) as plane:
        plane.record_many([{"text": f"salt {n} " + "ferry " * (n % 2)} for n in range(16_000)])
        plane.record("The lighthouse keeper buys salt for the ferry.")
        block = plane.pack("salt ferry lighthouse", intent="deep", budget=1000, wait=True)
        assert "lighthouse keeper" in block.text
        assert counted(block) >= 1
        assert block.report["needs"]["bytes"] <= 65_536


def test_the_shipped_limits_leave_nothing_out(tmp_path):
    with made(tmp_path / "plane", file_reads_max=20, bytes_read_max=8_000_000) as plane:
        for budget in (500, 4000, 60_000):
            assert not counted(plane.pack("which heron waits at post 7", budget=budget))
