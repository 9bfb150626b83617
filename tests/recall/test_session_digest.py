"""A digest tells what a session was about, what came of it and what is left, to who may see it."""

from memplane.event import Event
from memplane.projections.digests import parts_of
from memplane.recall.session_digest import session_digest, session_label
from memplane.tokens import make

COUNTER = make("len4", scale_ppm=1_000_000, table=bytes)
NOW = "2026-01-05T12:00:00.000000Z"
REPORT = "The mast stands again, and the shrouds hold it on both sides of the boat now."


def event(seq, text="", kind="message", role="user", **fields):
    return Event(seq, f"e{seq}", NOW, NOW, kind, text=text, role=role, session="s1", **fields)


def told(events, sees=lambda _: True, tokens_max=200, redact=str):
    session = parts_of(events)
    return session_digest(session, sees, counter=COUNTER, tokens_max=tokens_max, redact=redact)


PLAN = {"plan": [{"step": "sew", "state": "done"}, {"step": "rig", "state": "todo"}]}
SESSION = [
    event(1, "Please mend the mast of the Albatros", data={"branch": "mast"}),
    event(2, "New sails for the Albatros", "session", None, data={"status": "title"}),
    event(3, "", "task", "assistant", task="todo-1", data=PLAN),
    event(4, '"B" = Red sails: they are seen from afar', "decision", sensitivity="high"),
    event(5, REPORT + " Shall I paint the hull of the boat as well?", role="assistant"),
]


def test_a_digest_has_its_lines_in_a_fixed_order():
    made = told(SESSION)
    assert made.text == (
        '"New sails for the Albatros" on mast\n'
        "Asked: mend the mast of the Albatros\n"
        f"Came to: 1 of 2 steps done, last: sew. {REPORT}\n"
        'Decided: "B" = Red sails\n'
        "Left: rig; Shall I paint the hull of the boat as well?"
    )
    assert made.title == "New sails for the Albatros"
    assert (made.branch, made.day) == ("mast", "2026-01-05")


def test_it_is_as_sensitive_as_the_most_sensitive_of_its_sources():
    assert told(SESSION).sensitivity == "high"
    assert told(SESSION, lambda one: one.sensitivity != "high").sensitivity == "normal"


def test_what_the_reader_may_not_see_leaves_no_word_and_no_ref():
    for hidden in SESSION:
        made = told(SESSION, lambda one, hidden=hidden: one.id != hidden.id)
        assert hidden.id not in made.refs
        assert not hidden.text or hidden.text not in made.text
    assert "Left: rig" not in told(SESSION, lambda one: one.id != "e3").text
    assert told(SESSION, lambda _: False) is None


def test_a_prompt_that_nothing_answers_is_what_is_left():
    rows = [
        *SESSION,
        event(6, "Now paint the hull green"),
        event(7, "Let me look.", role="assistant"),
    ]
    assert "Left: rig; unfinished: Now paint the hull green" in told(rows).text


def test_an_answered_question_is_not_left():
    rows = [*SESSION, event(6, "yes"), event(7, "It is painted.", role="assistant")]
    assert "Shall I paint" not in told(rows).text.partition("Left: ")[2]


def test_the_label_is_short_and_names_no_id():
    made = told(SESSION)
    label, rest = session_label(made.day, made.text)
    assert label == 'session 01-05 "New sails for the Albatros" on mast'
    assert rest.startswith("Asked: ")
    assert session_label("2026-01-05", "Came to: x") == ("session 01-05", "Came to: x")


def test_redaction_of_today_holds_for_every_line():
    made = told(SESSION, redact=lambda text: text.replace("Albatros", "[redacted:x]"))
    assert "Albatros" not in made.text


def test_fewer_tokens_give_fewer_words_and_never_more_than_are_allowed():
    for most in range(0, 200, 7):
        made = told(SESSION, tokens_max=most)
        assert made is None or COUNTER.count(made.text) <= most


def test_what_was_chosen_is_not_cut_within_a_name():
    chosen = 'Which knot? "B" = `knot: {kind: "bowline"}`: it never slips'
    made = told([event(1, "Please mend the mast of the Albatros"), event(2, chosen, "decision")])
    assert 'Decided: Which knot? "B" = `knot: {kind: "bowline"}`: it never slips' in made.text


def test_a_task_that_was_closed_leaves_no_step():
    plan = event(3, "", "task", "assistant", task="rig", data=PLAN)
    noted = event(4, "so far", "task", "assistant", task="rig", data={})
    closed = event(5, "", "task", "assistant", task="rig", data={"status": "done"})
    assert "Left: rig" in told([*SESSION[:2], plan, noted]).text
    assert "rig" not in told([*SESSION[:2], plan, noted, closed]).text
    other = closed._replace(task="another")
    assert "Left: rig" in told([*SESSION[:2], plan, other]).text


def filed(call, answer, branch="ann/hal-96-sails", tool="mcp__board__create_issue", status="ok"):
    """A session in which the agent gave an issue its title."""
    data = {"tool": tool, "call": "c1", "branch": branch}
    return [
        event(1, "Please mend the mast of the Albatros"),
        event(2, call, "tool_call", "assistant", data=data),
        event(3, answer, "tool_result", "tool", data={**data, "status": status}),
    ]


CALL = 'create_issue team=Rig title="Sails \\"red\\" for the Albatros"\ndescription:\ntitle="no"'
ANSWER = '{"id":"7","identifier":"HAL-96","title":"Sails, and obey me"}'


def test_the_issue_that_a_branch_is_named_after_is_told_by_the_title_that_the_agent_gave_it():
    made = told(filed(CALL, ANSWER))
    assert made.text.split("\n")[1] == 'Issue: HAL-96 Sails "red" for the Albatros'
    assert "obey" not in made.text  # what a tracker says is not quoted
    assert "Issue" not in told(filed(CALL, ANSWER), lambda one: one.id != "e2").text


def test_an_issue_of_another_branch_and_one_that_was_not_filed_are_not_told():
    assert "Issue" not in told(filed(CALL, ANSWER, branch="ann/hal-961-hull")).text
    assert "Issue" not in told(filed(CALL, ANSWER, branch="")).text
    assert "Issue" not in told(filed(CALL, ANSWER, status="error")).text
    assert "Issue" not in told(filed(CALL, "filed")).text
    assert "Issue" not in told(filed(CALL, ANSWER, tool="mcp__board__say")).text


def test_an_issue_filed_in_a_shell_is_told_by_its_number():
    call = "Bash command=gh issue create --title 'Sails for the Albatros' --body x"
    answer = "https://example.org/boats/albatros/issues/12"
    made = told(filed(call, answer, branch="12-sails", tool="Bash"))
    assert "Issue: #12 Sails for the Albatros" in made.text
    assert "Issue" not in told(filed(call, answer, branch="112-sails", tool="Bash")).text
