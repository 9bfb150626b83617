"""What happens in a scenario happens as it says: each step against what is seen afterwards."""

import json

import pytest


def failures(outcome):
    return [outcome.error, *outcome.failures] if outcome.error else outcome.failures


def test_events_get_ids_and_times_of_the_scenario_so_its_blocks_are_the_same_everywhere(run):
    text = """\
        given:
          clock: 2026-03-01T09:00:00+02:00
          events: [{text: a heron, role: user, session: s}, {id: own, text: the reeds, role: assistant, session: s}]
        when:
          - advance: {days: 1, hours: 2, minutes: 3, seconds: 4}
          - record: {text: later, role: user, session: s}
          - pack: {query: heron, session: s, as: seen}
          - run: {command: show event-1 --json, as: first}
          - run: {command: show event-3 --json, as: third}
        assertions:
          - contains: {event: [event-1, own, event-3]}
          - contains: {text: "2026-03-01T07:00:00.000000Z", run: first}
          - contains: {text: "2026-03-02T09:03:04.000000Z", run: third}
        """
    one, other = run(text), run(text)
    assert failures(one) == []
    assert one.packs[0].last.block.text == other.packs[0].last.block.text


def test_a_row_stands_for_as_many_events_as_it_says_and_a_text_for_as_many_copies(run):
    outcome = run("""\
        given: {events: [{id: "e{n}", text: "post {n}", repeat: 3}]}
        when:
          - repeat:
              times: 2
              steps:
                - record: {text: "time {n} ", text_times: 2}
                - pack: {query: time, as: seen}
          - record: {id: braces, text: "not {n} here"}
          - pack: {query: "time post here", as: last}
        assertions:
          - contains: {text: [post 1, post 2, post 3, time 1 time 1, time 2 time 2, "not {n} here"]}
          - contains: {event: [e1, e3, event-4, event-5, braces]}
        """)
    assert failures(outcome) == []
    assert {packed.name: len(packed.runs) for packed in outcome.packs} == {"seen": 2, "last": 1}


def test_events_may_come_from_a_file_beside_the_scenario(run, tmp_path):
    rows = [{"id": "a", "text": "a heron"}, {"text": "the reeds"}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    outcome = run("""\
        given: {events: [{file: rows.jsonl}]}
        when: [{pack: heron and reeds}]
        assertions: [{contains: {event: [a, event-2]}}, events_intact]
        """)
    assert failures(outcome) == []


def test_policies_are_changed_by_key_or_as_a_whole_and_views_written_or_taken_away(run):
    outcome = run("""\
        given:
          policies:
            budgets: {default_pack_tokens: 700, limits: {cards_max: 1}}
            privacy: "version: 1\\nstore: {redact_patterns: ['heron']}\\n"
          views: {identity: You keep the ledger.}
          events: [{text: a heron in the reeds}]
        when:
          - pack: {query: reeds, as: small}
          - run: {command: policy show budgets --json, as: shown}
          - edit_policy: {budgets: {default_pack_tokens: null}}
          - edit_view: {identity: null, rules.more: Never push.}
          - pack: {query: reeds, as: usual}
        assertions:
          - acb_max_tokens: {max: 700, pack: small}
          - contains: {text: You keep the ledger., pack: small}
          - lacks: {text: [You keep the ledger., heron], pack: usual}
          - contains: {text: reeds, pack: usual}
        """)
    assert failures(outcome) == []
    small, usual = (packed.last.block.report for packed in outcome.packs)
    assert (small["budget"], usual["budget"]) == (700, 4000)


def test_the_owners_policies_stand_in_place_of_memplanes_own(run):
    text = "when: [{pack: {query: a, as: p}}]\nassertions: [{acb_max_tokens: 300}]"
    outcome = run(text, policies={"budgets.yaml": b"version: 1\ndefault_pack_tokens: 300\n"})
    assert outcome.packs[0].last.block.report["budget"] == 300


def test_a_restart_keeps_everything_and_a_deletion_takes_only_what_is_made_again(run):
    outcome = run("""\
        given: {events: [{text: "post {n} of the heron", repeat: 80}]}
        when:
          - pack: {query: heron, as: first}
          - restart
          - pack: {query: heron, as: restarted}
          - delete: projections
          - pack: {query: heron, as: refolded}
          - delete: index
          - pack: {query: heron, as: indexed}
          - delete: both
          - rebuild:
          - pack: {query: heron, as: rebuilt}
          - pack: {query: heron, as: another, process: true, repeat: 2}
        assertions:
          - identical: {pack: restarted, to: first}
          - identical: {pack: refolded, to: first}
          - identical: {pack: indexed, to: first}
          - identical: {pack: rebuilt, to: first}
          - identical: {pack: another, to: first}
          - events_intact
        """)
    assert failures(outcome) == []
    assert len(outcome.packs[-1].runs) == 2


def test_what_is_forgotten_is_gone_until_it_is_not(run):
    outcome = run("""\
        given: {events: [{id: a, kind: fact, key: bird, text: a heron}]}
        when:
          - forget: {key: bird, reason: it flew}
          - pack: {query: heron, as: gone}
          - unforget: {key: bird}
          - pack: {query: heron, as: back}
        assertions:
          - lacks: {event: a, pack: gone}
          - contains: {event: a, pack: back}
        """)
    assert failures(outcome) == []


def test_the_clock_stands_until_it_is_moved_and_commands_go_by_it_too(run):
    outcome = run("""\
        given: {events: [{id: a, kind: fact, key: k, text: a heron, valid_until: 2026-01-06T00:00:00Z}]}
        when:
          - pack: {query: heron, as: before}
          - run: {command: get k, as: there}
          - advance: {days: 1}
          - pack: {query: heron, as: after}
          - run: {command: get k, as: gone}
          - run: {command: [record, by hand], as: recorded}
          - run: {command: log --json, as: log}
        assertions:
          - contains: {event: a, pack: before}
          - lacks: {event: a, pack: after}
          - exit: {run: there, code: 0}
          - exit: {run: gone, code: 1}
          - exit: {run: recorded, code: 0}
          - contains: {text: "2026-01-06T12:00:00.000000Z", run: log}
        """)
    assert failures(outcome) == []


def test_processes_record_and_pack_at_once_and_all_that_they_were_told_is_kept(run):
    outcome = run("""\
        given: {events: [{id: first, kind: decision, text: The heron stays}]}
        when:
          - processes:
              count: 3
              times: 4
              steps:
                - record: {text: "process {p}, time {n}"}
                - record_many: [{id: "m-{p}-{n}", text: "process {p} again, time {n}"}, {text: x, repeat: 2}]
                - pack: {query: heron, as: seen}
          - pack: {query: process, budget: 8000, as: all}
        assertions:
          - events_intact
          - contains: {text: ["process 1, time 1", "process 3 again, time 4"], event: m-2-4, pack: all}
          - contains: {event: first, pack: seen}
        """)
    assert failures(outcome) == []
    assert {packed.name: len(packed.runs) for packed in outcome.packs} == {"seen": 12, "all": 1}
    assert outcome.held[0].finding.found == "49 of them"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("record: {kind: secret, text: a}", "when[0].record: InputError: "),
        ("pack: {query: a, budget: 0}", "when[0].pack: BudgetError: "),
        ("pack: {query: a, channel: nobody}", "when[0].pack: InputError: channel: "),
        ("forget: {key: nothing}", "when[0].forget: NotFoundError: "),
        ("tear_tail: {cut: 9}", "when[0].tear_tail: InputError: expected events in the log, found none"),
        ("repeat: {times: 1, steps: [{record: {text: a}}, {tear_tail: {cut: 1000000}}]}",
         "when[0].repeat: InputError: cut: expected fewer bytes than the last segment has, "),
        ("processes: {count: 2, steps: [{record: {kind: secret}}]}",
         "when[0].processes: ProcessError: memplane.errors.InputError: "),
        ("repeat: {times: 1, steps: [{forget: {id: nothing}}]}", "when[0].repeat: NotFoundError: "),
    ],
)  # fmt: skip
def test_a_step_that_cannot_happen_fails_the_scenario_with_its_place(run, step, said):
    outcome = run(f"when: [{{{step}}}]\nassertions: [events_intact]")
    assert not outcome.passed
    (message,) = outcome.failures
    assert message.startswith(f"a.yaml:3: {said}")
