"""Mistakes in scenario files: each with its file, line and key, what was expected and found."""

import pytest

from memplane.scenario import ScenarioError


def test_every_mistake_is_named_with_its_line_and_what_was_meant(mistakes):
    found = mistakes("""\
        version: 1
        scenario: bad
        titel: x
        given:
          policies: {budget: {a: 1}}
          events:
            - {txt: a}
            - {kind: decison}
            - {generate: {seed: 1}}
        when:
          - recrod: {text: a}
          - pack: {query: a, budget: many, as: A B}
          - restart: now
          - reload
          - {record: {text: a}, pack: b}
          - delete: everything
          - tear_tail: {}
          - 5
        assertions:
          - acb_max_tokns: 5
          - {type: acb_max_tokns, max: 5}
          - {type: acb_max_tokens, mx: 5}
          - acb_max_tokens: many
          - exit: {code: a}
          - frobnicate
        """)
    assert found == [
        "a.yaml:3: titel: unknown; did you mean `title`?",
        "a.yaml:5: given.policies.budget: unknown; did you mean `budgets`?",
        "a.yaml:7: given.events[0].txt: unknown; did you mean `text`?",
        (
            "a.yaml:8: given.events[1].kind: expected a kind of event, found `decison`; did you mean "
            "`decision`?"
        ),
        (
            "a.yaml:9: given.events[2].generate.count: missing; expected a number of events from 1 to "
            "1000000"
        ),
        "a.yaml:11: when[0].recrod: unknown; did you mean `record`?",
        (
            "a.yaml:12: when[1].pack.budget: expected a number of tokens from -1000000 to 1000000, "
            "found `many`"
        ),
        "a.yaml:12: when[1].pack.as: expected a name: small letters, digits, _ and -, found `A B`",
        "a.yaml:13: when[2].restart: expected nothing behind the colon, found `now`",
        "a.yaml:14: when[3]: expected one of `restart`, `rebuild`, found `reload`",
        (
            "a.yaml:15: when[4]: expected one step, such as record, pack or restart (at most 1), found "
            "a mapping of 2 keys"
        ),
        (
            "a.yaml:16: when[5].delete: expected one of `projections`, `index`, `both`, found "
            "`everything`"
        ),
        (
            "a.yaml:17: when[6].tear_tail: expected a mapping of cut or add (at most 1), found an "
            "empty mapping"
        ),
        (
            "a.yaml:18: when[7]: expected one step, such as record, pack or restart (at most 1), found "
            "`5`"
        ),
        "a.yaml:20: assertions[0].acb_max_tokns: unknown; did you mean `acb_max_tokens`?",
        (
            "a.yaml:21: assertions[1].type: expected an assertion, found `acb_max_tokns`; did you mean "
            "`acb_max_tokens`?"
        ),
        "a.yaml:22: assertions[2].max: missing; expected a number of tokens from 0 to 65000",
        "a.yaml:22: assertions[2].mx: unknown; did you mean `max`?",
        (
            "a.yaml:23: assertions[3].acb_max_tokens: expected a number of tokens from 0 to 65000, "
            "found `many`"
        ),
        "a.yaml:24: assertions[4].exit.code: expected an exit code from 0 to 255, found `a`",
        "a.yaml:25: assertions[5]: expected one of `events_intact`, found `frobnicate`",
    ]


def test_what_only_the_whole_file_shows_is_named_too(mistakes):
    found = mistakes("""\
        long: true
        given:
          clock: yesterday
          events: [{file: nowhere.jsonl}]
        when:
          - pack: {query: a, as: one}
          - pack: {query: b, as: one}
          - run: say 'a
          - forget: {key: a, id: b}
          - processes: {count: 2, steps: [{record_many: [{generate: {seed: 1, count: 2}}]}]}
        assertions:
          - contains: {text: a, pack: oen}
          - identical: tow
          - {type: prefix_kept, of: on}
          - contains: {pack: one}
          - contains: {text: a, search: x}
          - section_tokens: {section: rules}
        """)
    assert found == [
        "a.yaml:3: long: expected a `generate` with `short`, found none",
        (
            "a.yaml:5: given.clock: found no time that can be read; expected RFC 3339 with a zone, "
            "such as 2026-01-05T12:17:31Z"
        ),
        (
            "a.yaml:6: given.events[0].file: expected a file that can be read, found `nowhere.jsonl`: "
            "No such file or directory"
        ),
        "a.yaml:9: when[1].pack.as: given twice; when[0] is `one` already",
        "a.yaml:10: when[2].run: expected a command line, found `say 'a`: no closing quotation",
        (
            "a.yaml:11: when[3].forget: expected one of `key`, `id`, `session`, `source`, found key "
            "and id"
        ),
        (
            "a.yaml:12: when[4].processes.steps[0].record_many[0]: expected an event in a process, "
            "found `generate`"
        ),
        "a.yaml:14: assertions[0].contains.pack: expected the name of a pack (`as`), found `oen`",
        "a.yaml:15: assertions[1].identical: expected the name of a pack (`as`), found `tow`",
        (
            "a.yaml:16: assertions[2].of: expected the name of a pack (`as`), found `on`; did you mean "
            "`one`?"
        ),
        "a.yaml:17: assertions[3].contains: expected `text` or `event`, found none",
        (
            "a.yaml:18: assertions[4].contains: expected a step `search` for it to be about, found "
            "none"
        ),
        "a.yaml:18: assertions[4].contains.search: expected the name of a search (`as`), found `x`",
        "a.yaml:19: assertions[5].section_tokens: expected `max` or `min`, found none",
    ]


SHORT = (
    "given: {events: [{generate: {seed: 1, count: 9, short: SHORT}}]}\nassertions: [events_intact]"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a.yaml:1: assertions: missing; expected a list of assertions, or a mapping of their types (at most 1000)"),
        ("assertions: [events_intact]\nassertions: [events_intact]",
         "a.yaml:4: assertions: given twice; line 3 has it already"),
        ("assertions: [contains: a]",
         "a.yaml:3: assertions[0].contains: expected a step `pack` for it to be about, found none"),
        ("assertions: [exit: 0]",
         "a.yaml:3: assertions[0].exit: expected a step `run` for it to be about, found none"),
        (SHORT.replace("SHORT", "5"),
         "a.yaml:3: given.events[0].generate.short: expected `long: true` at the top, found none"),
        ("long: true\n" + SHORT.replace("SHORT", "10"),
         "a.yaml:4: given.events[0].generate.short: expected at most its count, 9, found `10`"),
    ],
)  # fmt: skip
def test_each_of_these_is_the_one_mistake(mistakes, text, said):
    assert mistakes(text) == [said]


def test_a_line_of_a_file_that_is_no_object_is_named(mistakes, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n\n["b"]\n')
    assert mistakes("given: {events: [{file: rows.jsonl}]}\nassertions: [events_intact]") == [
        (
            "a.yaml:3: given.events[0].file: expected one JSON object a line, found another thing in "
            "line 3"
        )
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "a.yaml: expected a scenario, found an empty file"),
        (b"- 1", "a.yaml:1: expected a mapping of keys, found a list of 1 item"),
        (b"scenario: [", "a.yaml:1: expected YAML, found a mistake"),
        (b"version: 2\nscenario: a\nassertions: [events_intact]",
         ("a.yaml:1: version: expected 1, the version that this memplane reads, found 2: written "
         "for a newer memplane")),
        (b"\xff", "a.yaml:1: expected UTF-8 text, found the byte 0xff"),
    ],
)  # fmt: skip
def test_what_is_no_scenario_at_all_is_refused_in_words(data, said):
    from memplane.home import asset
    from memplane.scenario import read_scenario

    with pytest.raises(ScenarioError) as caught:
        read_scenario(
            "a.yaml", data, schema=asset("schemas/scenario.schema.json"), open_file=lambda _: b""
        )
    assert str(caught.value).startswith(said)


def test_an_assertion_may_be_written_in_any_of_its_three_ways(read):
    scenario = read("""\
        when: [{pack: a}]
        assertions:
          - {type: acb_max_tokens, max: 65000}
          - acb_max_tokens: 65000
          - acb_max_tokens: {max: 65000}
          - events_intact
          - events_intact:
        """)
    assert [(one.type, one.said) for one in scenario.assertions] == [
        *[("acb_max_tokens", {"max": 65000})] * 3,
        *[("events_intact", {})] * 2,
    ]
    assert [one.line for one in scenario.assertions] == [5, 6, 7, 8, 9]
