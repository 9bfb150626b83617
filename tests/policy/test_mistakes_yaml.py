"""What YAML itself gets wrong, or would pass over, is named like any other mistake."""

from __future__ import annotations

import pytest
import yaml


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("version: 1\nfoo: 1\n", [":2: foo: unknown; expected one of `version`, `reports`, `log`, `sessions`, `episodes`, `index`, `namespaces`, `statements`, `keep`, `shared`, `prompt_cache`, `hooks`"]),
        ("version: 1\nreprots: {}\n", [":2: reprots: unknown; did you mean `reports`?"]),
        ("[1, 2]", [":1: expected a mapping of keys, found a list of 2 items"]),
        ("plane", [":1: expected a mapping of keys, found `plane`"]),
        (
            "version: 1\nlog: {}\nreports: {keep: 1, keep: 2}\nlog: {}\n",
            [":3: reports.keep: given twice; line 3 has it already", ":4: log: given twice; line 2 has it already"],
        ),
        ("version: 1\n? [a]\n: 1\n", [":2: expected a plain text as key, found something else"]),
        ("version: 1\nreports: {? {keep: 1} : 2}\n", [":2: reports: expected a plain text as key, found something else"]),
        ("version: !!int 1\n", [":1: version: expected a value without a tag, found `tag:yaml.org,2002:int`"]),
        ("version: 1\nlog: !!python/name:os.system {}\n", [":2: log: expected a value without a tag, found `tag:yaml.org,2002:python/name:os.system`"]),
        ("version: 1\n---\nversion: 1\n", [":3: expected one document, found a second one"]),
        ("version: 1\nreports:\n\tkeep: 1\n", [":3: expected spaces, found a tab in the indentation"]),
        ("version: 1\nlog: *other\n", [":2: expected an anchor that ends before its alias, found `*other`"]),
        ("version: 1\nlog: &log {a: *log}\n", [":2: expected an anchor that ends before its alias, found `*log`"]),
        (b"version: 1\nlog: \xff\n", [":2: expected UTF-8 text, found the byte 0xff"]),
        ("version: 1".encode("utf-16"), [":1: expected UTF-8 text, found the byte 0xff"]),
        (b"version: 1\r\nlog:\r\n  a: \0\r\n", [":3: expected printable text, found the character U+0000"]),
        ("[" * 33, [":1: expected at most 32 levels, found more"]),
        ("- " * 100_000, [":1: expected at most 32 levels, found more"]),
        ("x" * 262_145, [": expected at most 262144 bytes, found 262145"]),
        (f"version: 1\nlog: [{'1,' * 10_000}]", [":2: expected at most 10000 values, aliases written out, found more"]),
    ],
)  # fmt: skip
def test_what_yaml_would_pass_over_or_choke_on_is_named(mistakes, text, messages):
    assert mistakes(plane=text) == [f"plane.yaml{message}" for message in messages]


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="the words are those of libyaml")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 1\nlog: [1, 2", ":2: expected YAML, found a mistake: did not find expected ',' or ']' (while parsing a flow sequence, begun in line 2)"),
        ("version: 1\nlog: {a: b\n\n\n", ":2: expected YAML, found a mistake: did not find expected ',' or '}' (while parsing a flow mapping, begun in line 2)"),
        ("version: 1\n log: 2\n", ":2: expected YAML, found a mistake: mapping values are not allowed in this context"),
        ("%YAML 3.0\n---\nversion: 1", ":1: expected YAML, found a mistake: found incompatible YAML document"),
        ('version: "\\ud800"', ":1: expected YAML, found a mistake: found invalid Unicode character escape code (while parsing a quoted scalar, begun in line 1)"),
    ],
)  # fmt: skip
def test_a_syntax_error_is_named_with_its_line(mistakes, text, message):
    assert mistakes(plane=text) == [f"plane.yaml{message}"]


def test_aliases_are_taken_and_bombs_refused(mistakes, policies):
    shared = "version: 1\nchannels:\n- {name: a, default_load_views: &v [views/x.md]}\n- {name: b, default_load_views: *v}\n"
    assert policies(channels=shared).channels.default_views("b") == ("views/x.md",)
    bomb = "version: 1\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
    )
    expected = "expected at most 10000 values, aliases written out, found more"
    assert mistakes(channels=bomb) == [f"channels.yaml:5: {expected}"]


def test_a_mistake_behind_an_alias_is_named_where_it_is_written(mistakes):
    text = "version: 1\nreports: &r\n  keep: 3\nlog: *r\n"
    assert mistakes(plane=text) == [
        "plane.yaml:3: log.keep: unknown; expected one of `lock_wait_ms_max`"
    ]


def test_after_a_hundred_mistakes_the_rest_is_counted(mistakes):
    text = "version: 1\n" + "".join(f"key{n}: 1\n" for n in range(250))
    found = mistakes(plane=text)
    assert len(found) == 101
    assert found[99].startswith("plane.yaml:101: key99: unknown")
    assert found[100] == "plane.yaml: and 150 more mistakes"
