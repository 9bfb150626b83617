"""What the environment says stands before the files, and becomes what the policy is."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hypothesis import given, settings, strategies as st

from memplane.errors import PolicyError
from memplane.policy import NAMES, load_policies, variables, written
from memplane.policy.document import read_document, without_places
from tests.examples import examples


@pytest.fixture(scope="session")
def overridden(defaults, schemas):
    """Load the given files under the given variables, whose prefix is left out."""

    def read_under(given_variables, **files):
        data = {f"{stem}.yaml": text.encode() for stem, text in files.items()}
        named = {f"MEMPLANE_{name}": value for name, value in given_variables.items()}
        return load_policies(data, defaults=defaults, schemas=schemas, overrides=named)

    return read_under


@pytest.fixture(scope="session")
def refused(overridden):
    """What is said about the given variables."""

    def said(given_variables, **files):
        with pytest.raises(PolicyError) as raised:
            overridden(given_variables, **files)
        return [str(problem) for problem in raised.value.problems]

    return said


def test_only_names_with_two_underscores_are_overrides():
    found = variables(
        {
            "MEMPLANE_PLANE__REPORTS__KEEP": "5", "MEMPLANE_HOME": "/x", "PATH": "a__b",
            "MEMPLANE_BUDGETS__SCALE": "2", "memplane_plane__log": "", "MEMPLANE_": "",
        }
    )  # fmt: skip
    assert list(found.items()) == [
        ("MEMPLANE_BUDGETS__SCALE", "2"),
        ("MEMPLANE_PLANE__REPORTS__KEEP", "5"),
    ]


def test_a_variable_stands_before_the_file_and_the_default(overridden):
    given_variables = {
        "BUDGETS__DEFAULT_PACK_TOKENS": "6000", "budgets__Sections__RULES__max_tokens": "7000",
        "BUDGETS__COUNTER": "len4", "BUDGETS__LIMITS__CARDS_MAX": "9", "PLANE__SESSIONS__GAP_MINUTES": "45",
        "SCORING__MARKER_BOOSTS__GOAL": "0.5", "BUDGETS__SCALE": "1.5",
    }  # fmt: skip
    loaded = overridden(given_variables, budgets="version: 1\ndefault_pack_tokens: 5000\n")
    budgets = loaded.budgets
    assert (budgets.default_pack_tokens, budgets.counter) == (6000, "len4")
    assert (budgets.scale_ppm, budgets.limits.cards_max) == (1_500_000, 9)
    assert (loaded.plane.session_gap_minutes, loaded.plane.reports_keep) == (45, 500)
    assert loaded.scoring.marker_boosts["goal"] == 500


def test_a_section_that_a_variable_changes_stays_among_the_default_ones(overridden, policies):
    sections = overridden({"BUDGETS__SECTIONS__RULES__MAX_TOKENS": "7000"}, budgets="").budgets
    ours = policies().budgets
    assert sections.section("rules") == ours.section("rules")._replace(max_tokens=7000)
    assert [s.name for s in sections.sections] == [s.name for s in ours.sections]


def test_a_section_of_ones_own_and_only_one_that_is_there_can_be_changed(overridden, refused):
    own = "version: 1\nsections: {runbooks: {max_tokens: 1, priority: 1, share: 1, views: [views/r.md]}}\n"
    name = "BUDGETS__SECTIONS__RUNBOOKS__MAX_TOKENS"
    assert overridden({name: "900"}, budgets=own).budgets.section("runbooks").max_tokens == 900
    assert refused({name.replace("BOOKS", "BOOK"): "900"}, budgets=own) == [
        "environment: MEMPLANE_BUDGETS__SECTIONS__RUNBOOK__MAX_TOKENS: `runbook` unknown; did you mean `MEMPLANE_BUDGETS__SECTIONS__RUNBOOKS__MAX_TOKENS`?"
    ]
    assert refused({"BUDGETS__SECTIONS__RULES__MAX_TOKENS": "5"}, budgets=own) == [
        "environment: MEMPLANE_BUDGETS__SECTIONS__RULES__MAX_TOKENS: sections.rules.priority: missing; expected a priority from 0 to 100"
    ]


@pytest.mark.parametrize(
    ("given_variables", "said"),
    [
        ({"BUDGETS__DEFAULT_PACK_TOKENS": "many"}, "expected a number of tokens from 1 to 65000, found `many`"),
        ({"BUDGETS__DEFAULT_PACK_TOKENS": ""}, "expected a number of tokens from 1 to 65000, found nothing"),
        ({"BUDGETS__DEFAULT_PACK_TOKENS": "'9'"}, "expected a number of tokens from 1 to 65000, found `'9'`"),
        ({"BUDGETS__COUNTER": "two words"}, "expected one of `bound/1`, `o200k`, `cl100k`, `len4`, found `two words`"),
        ({"BUDGETS__ACB_TOTAL_MAX_TOKENS": "4000"}, "reserve_tokens: expected `reserve_tokens` to be less than `acb_total_max_tokens` (4000), found `5000`: no room is left"),
        ({"BUDGETS__RESERVE_TOKENS": "65000"}, "expected `reserve_tokens` to be less than `acb_total_max_tokens` (65000), found `65000`: no room is left"),
        ({"PLANE__VERSION": "2"}, "expected 1, the version that this memplane reads, found `2`: written for a newer memplane"),
        ({"BUDGET__SCALE": "1"}, "unknown; did you mean `MEMPLANE_BUDGETS__SCALE`?"),
        ({"X__SCALE": "1"}, "unknown; expected one of `MEMPLANE_BUDGETS__<KEY>`, `MEMPLANE_PRIVACY__<KEY>`, `MEMPLANE_CHANNELS__<KEY>`, `MEMPLANE_SCORING__<KEY>`, `MEMPLANE_PLANE__<KEY>`"),
        ({"BUDGETS__SCALLE": "1"}, "unknown; did you mean `MEMPLANE_BUDGETS__SCALE`?"),
        ({"PLANE__X": "1"}, "unknown; expected one of `version`, `reports`, `log`, `sessions`, `episodes`, `index`, `namespaces`, `statements`, `keep`, `shared`, `prompt_cache`, `hooks`"),
        ({"PLANE__": "1"}, "unknown; expected one of `version`, `reports`, `log`, `sessions`, `episodes`, `index`, `namespaces`, `statements`, `keep`, `shared`, `prompt_cache`, `hooks`"),
        ({"PLANE__SESSION__GAP_MINUTES": "1"}, "unknown; did you mean `MEMPLANE_PLANE__SESSIONS__GAP_MINUTES`?"),
        ({"PLANE__SESSIONS__GAP": "1"}, "`gap` unknown; expected one of `gap_minutes`, `summary_tokens_max`"),
        ({"BUDGETS__LIMITS": "{}"}, "expected one value, found a mapping of limits; write that into budgets.yaml"),
        ({"PRIVACY__STORE__REDACT_PATTERNS": "x"}, "expected one value, found a list of regular expressions; write that into privacy.yaml"),
        ({"CHANNELS__CHANNELS__0__NAME": "x"}, "expected one value, found a key below `channels`, a list of channels"),
        ({"BUDGETS__SCALE__X": "1"}, "expected one value, found a key below `scale`, a factor"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_variable_is_named_by_its_name(refused, given_variables, said):
    (name,) = given_variables
    assert refused(given_variables) == [f"environment: MEMPLANE_{name}: {said}"]


def test_one_key_has_one_variable(refused):
    assert refused({"BUDGETS__SCALE": "1", "BUDGETS__scale": "2"}) == [
        "environment: MEMPLANE_BUDGETS__scale: given twice; `MEMPLANE_BUDGETS__SCALE` has it already"
    ]


def test_mistakes_of_files_and_variables_are_named_at_once(refused):
    found = refused(
        {"PLANE__REPORTS__KEEP": "-1", "PLANE__LOGG__X": "1"},
        plane="version: 1\nlog: []\n", budgets="version: 1\nscale: 0\n",
    )  # fmt: skip
    assert found == [
        "budgets.yaml:2: scale: expected a factor from 0.1 to 10, found `0`",
        "plane.yaml:2: log: expected a mapping of lock_wait_ms_max, found an empty list",
        "environment: MEMPLANE_PLANE__LOGG__X: unknown; did you mean `MEMPLANE_PLANE__LOG__X`?",
        "environment: MEMPLANE_PLANE__REPORTS__KEEP: expected a number of reports from 0 to 100000, found `-1`",
    ]


def test_a_variable_does_not_heal_a_mistake_of_its_file(refused):
    found = refused({"PLANE__REPORTS__KEEP": "5"}, plane="version: 1\nreports: {keep: many}\n")
    assert found == [
        "plane.yaml:2: reports.keep: expected a number of reports from 0 to 100000, found `many`"
    ]


def test_an_overridden_file_is_the_canonical_json_of_what_it_says(overridden, defaults, schemas):
    loaded = overridden({"PLANE__REPORTS__KEEP": "7"}, plane="# mine\nversion: 1\nlog: {}\n")
    assert loaded.overridden == {
        "plane.yaml": b'{"version":1,"log":{},"reports":{"keep":7}}\n',
    }
    data = loaded.overridden["plane.yaml"]
    assert loaded.hashes["plane.yaml"] == sha256(data).hexdigest()
    assert loaded.hashes["budgets.yaml"] == sha256(defaults["budgets.yaml"]).hexdigest()
    again = load_policies({"plane.yaml": data}, defaults=defaults, schemas=schemas)
    assert again == loaded._replace(overridden={})


@settings(max_examples=examples(30), deadline=None)
@given(
    tokens=st.integers(1, 65_000),
    scale=st.floats(0.1, 10).map(lambda value: f"{value:.17g}"),
    weight=st.decimals(0, 10, places=3),
    stem=st.sampled_from(["", "shipped"]),
)
def test_the_bytes_of_an_overridden_policy_always_load_to_the_same_policy(
    overridden, defaults, schemas, tokens, scale, weight, stem
):
    given_variables = {
        "BUDGETS__DEFAULT_PACK_TOKENS": str(tokens), "BUDGETS__SCALE": scale,
        "SCORING__TAG_WEIGHT": str(weight),
        "BUDGETS__SECTIONS__RULES__SHARE": str(weight),
    }  # fmt: skip
    files = dict.fromkeys(["budgets", "scoring"], "") if not stem else {}
    loaded = overridden(given_variables, **files)
    data = {name: loaded.overridden.get(name) for name in NAMES}
    again = load_policies(
        {name: data[name] or b"" for name in NAMES if data[name] or files},
        defaults=defaults, schemas=schemas,
    )  # fmt: skip
    assert again[:5] == loaded[:5]
    for name in loaded.overridden:
        assert again.hashes[name] == loaded.hashes[name]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
)


@settings(max_examples=examples(66), deadline=None)
@given(
    document=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        st.recursive(
            SCALARS,
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(st.text("abc é", max_size=5), inner, max_size=4)
            ),
            max_leaves=8,
        ),
        max_size=5,
    )
)
def test_canonical_json_always_reads_as_yaml_of_the_same_document(document):
    root, problems = read_document("any.yaml", written(document))
    assert problems == []
    assert json.dumps(without_places(root)) == json.dumps(document)
