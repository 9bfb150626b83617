"""Handles: each form is read, written and read again; what is no handle is refused in words."""

import contextlib

import pytest
from hypothesis import given, strategies as st

from memplane.errors import InputError
from memplane.pack.block import Handle, parse_handle

SHA = "ab" * 32
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
FORMS = ("event", "task", "session", "memory", "artifact", "views", "tsak", "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("#5", Handle("event", "5")),
        ("#5?from=12", Handle("event", "5", start=12)),
        ("event/claude:1/a", Handle("event", "claude:1/a")),
        ("task/parser", Handle("task", "parser", depth=1)),
        ("expand://task/a%20b?from=7&depth=3", Handle("task", "a b", depth=3, start=7)),
        ("session/s1?depth=0", Handle("session", "s1", depth=0)),
        ("memory/global/db.engine", Handle("memory", "db.engine")),
        ("memory//task/p/a/b?depth=1", Handle("memory", "a/b", "/task/p", depth=1)),
        (f"artifact/{SHA}?page=3", Handle("artifact", SHA, page=3)),
        (f"artifact/sha256/{SHA}", Handle("artifact", SHA)),
        ("views/rules.project.md?from=9", Handle("views", "views/rules.project.md", start=9)),
    ],
)
def test_a_handle_says_what_it_stands_for(given, said):
    assert parse_handle(given) == said
    assert parse_handle(str(said)) == said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("tsak/parser", "did you mean task/…?"),
        ("nonsense", "handle: expected expand://event/<seq>, #<seq>"),
        ("task/", "handle: expected expand://event/<seq>"),
        ("task/parser?depht=2", "did you mean depth?"),
        ("task/parser?depth=2&depth=3", "once each"),
        ("task/parser?depth=4", "depth: task has the depths 0 to 3, found 4"),
        ("task/parser?depth=-1", "depth: expected a whole number, found '-1'"),
        ("task/parser?depth=", "depth: expected a whole number"),
        ("task/parser?depth=1&from=4", "from: depth 1 is told in one piece"),
        ("memory/global/k?depth=2", "depth: memory has the depths 0 to 1"),
        ("memory/db.engine", "expected memory/global/<key>"),
        ("memory/task/parser", "expected memory/global/<key>"),
        ("event/5?depth=1", "event takes from, once each"),
        ("artifact/report.md", "hex digits of its SHA-256"),
        (f"artifact/{SHA}?page=0", "page: expected 1 or more"),
        ("event/5?from=" + "9" * 30, "from: expected a whole number"),
    ],
)
def test_what_is_no_handle_is_refused_with_what_was_expected(given, said):
    with pytest.raises(InputError) as refused:
        parse_handle(given)
    assert said in str(refused.value)


@given(
    form=st.sampled_from(["event", "task", "session", "memory", "views"]), name=NAMES,
    space=st.sampled_from(["/global", "/task/", "/spec/", "/agent/"]), own=NAMES,
    depth=st.integers(0, 3), start=st.integers(0, 10**15),
)  # fmt: skip
def test_whatever_the_names_a_written_handle_reads_as_itself(form, name, space, own, depth, start):
    most = {"task": 3, "session": 3, "memory": 1}.get(form, 0)
    depth = min(depth, most)
    if form in ("task", "session", "memory") and depth < min(2, most):
        start = 0
    if form == "views":
        name = f"views/{name}"
    ns = "/global" if form != "memory" or space == "/global" else f"{space}{own}"
    handle = Handle(form, name, ns, depth, start)
    assert parse_handle(str(handle)) == handle


@given(
    given=st.one_of(
        st.text(max_size=60),
        st.builds(
            "{}{}/{}?{}={}".format,
            st.sampled_from(["", "expand://", "#"]), st.sampled_from(FORMS), NAMES,
            st.sampled_from(["depth", "from", "page", "dpth", ""]),
            st.one_of(st.integers(-2, 10).map(str), NAMES),
        ),
    )
)  # fmt: skip
def test_no_text_does_more_than_be_read_or_refused(given):
    with contextlib.suppress(InputError):
        assert parse_handle(str(parse_handle(given))) == parse_handle(given)


@pytest.mark.parametrize("given", [None, 5, b"#5", ["#5"], True])
def test_what_is_no_text_is_refused(given):
    with pytest.raises(InputError, match="expected a text"):
        parse_handle(given)
