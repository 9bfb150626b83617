"""Research reports and bundles: what their schemas take, and what a citation may name."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, strategies as st

from memplane.artifacts import bundle_text, check_bundle, check_report, citations
from memplane.errors import InputError

TOP = Path(__file__).parents[2] / "schemas"
REPORT = (TOP / "research_report.schema.json").read_bytes()
BUNDLE = (TOP / "research_bundle.schema.json").read_bytes()
SOURCE = {
    "id": "s1",
    "url": "https://example.org/a",
    "title": "On herons",
    "accessed": "2026-01-05",
}
SIDECAR = {
    "title": "Herons",
    "question": "Where do herons nest?",
    "created": "2026-01-05T12:00:00Z",
    "sources": [SOURCE, {**SOURCE, "id": "s2", "quote": "They nest in trees."}],
    "claims": [{"text": "They nest in trees.", "sources": ["s2"]}],
}
KEPT = [{**one, "text": f"What {one['id']} says."} for one in SIDECAR["sources"]]
BUNDLED = {**SIDECAR, "report": "They nest in trees [@s2].", "sources": KEPT}


def refusal(text="Nothing is cited.", **changed):
    sidecar = json.dumps({**SIDECAR, **changed}).encode()
    with pytest.raises(InputError) as error:
        check_report(text, sidecar, REPORT, ("herons.md", "herons.json"))
    return str(error.value).splitlines()


def test_a_report_whose_citations_name_sources_is_taken():
    text = "# Herons\n\nIn trees [@s1; @s2, p. 3], see [s2] and [^s1].\n\n[^s1]: the first\n"
    check_report(text, json.dumps(SIDECAR).encode(), REPORT, ("herons.md", "herons.json"))
    check_bundle(json.dumps(BUNDLED).encode(), BUNDLE, "herons.json")


def test_a_citation_of_no_source_is_refused_with_its_line():
    assert refusal("# Herons\n\nIn trees [@s2].\nOr not [@s9; @s1].\nOr [s7].\n") == [
        "herons.md:4: cites 's9', which is no source; there are s1, s2",
        "herons.md:5: cites 's7', which is no source; there are s1, s2",
    ]
    bundle = json.dumps({**BUNDLED, "report": "so it is [@s3]"}).encode()
    with pytest.raises(InputError, match=r"herons\.json: report:1: cites 's3'"):
        check_bundle(bundle, BUNDLE, "herons.json")


def test_what_stands_in_code_or_is_a_link_or_a_box_cites_nothing():
    text = (
        "```\na[@s9]\n~~~\n[s9]\n```\n`x[@s9]` and ``y [s9] ` z``\n- [x] done\n"
        "[s9](https://example.org) [see below] [s9]: https://example.org\n~~~~ py\n[@s9]\n~~~\n[@s9]\n~~~~\n"
    )
    assert list(citations(text, frozenset({"s1"}))) == []


def test_every_mistake_of_a_sidecar_is_named_with_its_place():
    assert refusal(created="yesterday", sources=[{**SOURCE, "url": "nowhere"}]) == [
        "herons.json: created: expected a date, or a time of RFC 3339, found `yesterday`",
        "herons.json: sources[0].url: expected an address with its scheme, found `nowhere`",
    ]
    assert refusal(sources=[SOURCE, SOURCE], claims=[{"text": "x", "sources": ["s2"]}]) == [
        "herons.json: sources[1].id: expected a name of its own, found 's1', which sources[0] has",
        "herons.json: claims[0].sources[0]: cites 's2', which is no source; there are s1",
    ]
    assert refusal(author="me")[0].startswith("herons.json: author: unknown")
    with pytest.raises(InputError, match=r"herons\.json: expected JSON in UTF-8"):
        check_report("", b"{", REPORT, ("herons.md", "herons.json"))


@given(st.binary(max_size=60))
def test_bytes_that_are_no_sidecar_are_refused_and_nothing_else_happens(data):
    with pytest.raises(InputError):
        check_report("", data, REPORT, ("a.md", "a.json"))
    with pytest.raises(InputError):
        check_bundle(b"[" * 100_000 + data, BUNDLE, "a.json")


@given(st.text(alphabet="[]@^s19;`~\n x", max_size=80))
def test_any_text_has_citations_that_stand_on_its_lines(text):
    lines = text.splitlines()
    for number, name in citations(text, frozenset({"s1"})):
        assert name in lines[number - 1]


def test_a_bundle_reads_as_a_report_with_its_sources_behind_it():
    said = bundle_text(json.dumps(BUNDLED))
    assert said.startswith("# Herons\n\nWhere do herons nest?\n\nThey nest in trees [@s2].\n\n")
    assert "## [@s2] On herons\nhttps://example.org/a (2026-01-05)\n\nWhat s2 says." in said
    assert bundle_text("[1, 2") == "[1, 2"
    assert bundle_text('{"title": 3}') == '{"title": 3}'


@pytest.mark.parametrize(("schema", "document"), [(REPORT, SIDECAR), (BUNDLE, BUNDLED)])
def test_the_schemas_are_valid_for_any_reader(schema, document):
    rules = json.loads(schema)
    jsonschema.Draft202012Validator.check_schema(rules)
    jsonschema.validate(document, rules)


@pytest.mark.parametrize("schema", [REPORT, BUNDLE])
def test_each_value_of_the_schemas_has_a_title_and_a_description(schema):
    def parts(one):
        yield one
        for key in ("properties", "$defs"):
            for part in one.get(key, {}).values():
                yield from parts(part)
        if "items" in one:
            yield from parts(one["items"])

    for part in parts(json.loads(schema)):
        assert "$ref" in part or (part["title"] and part["description"]), part
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
