"""Texts that are not plain English prose are found by a part of them and whole."""

from __future__ import annotations

import pytest

import memplane

# What was said, and what people type when they look for it: a part, the whole, another form.
SAID = {
    "ko-meeting": ("회의는 목요일 오후 세 시에 서울 사무실에서 합니다", ["목요일", "서울 사무실", "회의"]),
    "ko-order": ("주문 번호를 잃어버려서 고객센터에 전화했습니다", ["주문 번호", "고객센터", "전화했습니다"]),
    "ko-deploy": ("배포가 실패해서 이전 버전으로 되돌렸습니다", ["배포", "이전 버전", "되돌렸습니다"]),
    "zh-database": ("我们决定把数据库从MySQL迁移到PostgreSQL", ["数据库", "迁移到", "PostgreSQL"]),
    "zh-weather": ("明天北京会下大雨。记得带伞", ["北京", "下大雨", "带伞"]),
    "zh-tests": ("单元测试全部通过。可以发布新版本", ["单元测试", "发布新版本", "全部通过"]),
    "ja-train": ("京都行きの新幹線は九時に出発します", ["新幹線", "京都行き", "九時に出発"]),
    "ja-error": ("ログイン画面でエラーが表示されました", ["ログイン", "エラー", "ログイン画面"]),
    "ja-kana": ("ひらがなだけのぶんしょうもさがせます", ["ひらがな", "ぶんしょう", "さがせます"]),
    "snake": ("the crash comes from parse_http_url when the port is empty", ["parse_http_url", "http url", "parse url"]),
    "camel": ("HTTPServer now closes idle sockets after a minute", ["HTTPServer", "http server", "httpserver"]),
    "getter": ("callers of getUserById must handle a missing row", ["getUserById", "get user by id", "user id"]),
    "path": ("src/app/main.py reads its settings twice at start", ["src/app/main.py", "main.py", "app/main", "main"]),
    "deep-path": ("moved docs/guides/setup.md beside the installer", ["docs/guides/setup.md", "setup.md", "guides setup"]),
    "reset": ("the worker stopped with E_CONN_RESET at midnight", ["E_CONN_RESET", "conn reset", "e_conn_reset"]),
    "code": ("customers see ERR-4031 when the card has expired", ["ERR-4031", "4031", "err 4031"]),
    "version": ("numpy 2.1.3 broke the wheel of the geometry package", ["2.1.3", "numpy 2.1.3", "geometry"]),
    "flag": ("run it with --no-verify to skip the slow hook", ["--no-verify", "no verify", "verify hook"]),
}  # fmt: skip
ASKED = [(name, query) for name, (_, queries) in SAID.items() for query in queries]


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with memplane.init(tmp_path_factory.mktemp("scripts") / "plane", durability="os") as opened:
        for name, (text, _) in SAID.items():
            opened.record(text, id=name, role="user")
        yield opened


@pytest.mark.parametrize(("name", "query"), ASKED)
def test_what_was_said_is_the_first_hit_for_its_parts_and_for_the_whole(plane, name, query):
    hits = plane.search(query)
    assert hits, f"nothing found for {query}"
    assert hits[0].event.id == name


@pytest.mark.parametrize("name", SAID)
def test_a_text_is_found_by_all_of_itself(plane, name):
    assert plane.search(SAID[name][0])[0].event.id == name


def test_a_query_in_one_script_finds_nothing_that_was_said_in_another_only(plane):
    for query in ("目的地は博多", "택배 상자", "zebra crossing"):
        assert plane.search(query) == []
