"""Real clients, offline: what is settled is told when the next session begins, and only there."""

import json
import sys

import process_clients as clients
import process_work as work
import pytest
from fakes_model_server import Model

import memplane
from memplane.clients import SKILL, section_text
from memplane.importers import import_paths

with_claude = pytest.mark.skipif(clients.CLAUDE is None, reason="no Claude Code: MEMPLANE_CLAUDE")
with_codex = pytest.mark.skipif(clients.CODEX is None, reason="no Codex: MEMPLANE_CODEX")
CLAUDE = pytest.param(work.ClaudeCode, {}, id="claude-code", marks=with_claude)
TASKS = pytest.param(work.ClaudeCode, {"tasks": True}, id="claude-code-tasks", marks=with_claude)
CODEX = pytest.param(work.Codex, {}, id="codex", marks=with_codex)

QUESTION = "Which colour should the hull of the Kestrel get?"
COLOURS = {"Green (Recommended)": "It hides the algae.", "White": "It stays cool."}
GOAL = "The Kestrel gets a new keel bolt and a green hull before May."
PLAN = f"# Repair the Kestrel\n\n## Summary\n{GOAL}\n\n1. Dry dock\n2. Paint\n"
STEPS = ("Put her into the dry dock", "Paint the hull")


@pytest.fixture
def model():
    model = Model()
    yield model
    model.close()


@pytest.fixture
def person(tmp_path):
    return clients.Person(tmp_path)


def installed(make, more, person, model):
    worker = make(person, model, **more)
    person(person.script, "install", worker.source, "--user")
    return worker


def first_block(requests):
    [block] = work.injected(requests[0])
    sys.stdout.write(block)  # with `-rP`: read it as a person would
    return block


@pytest.mark.parametrize(("make", "more"), [CLAUDE, TASKS, CODEX])
def test_a_list_an_answer_and_a_plan_are_a_task_and_decisions_when_the_next_session_begins(
    person, model, make, more
):
    worker = installed(make, more, person, model)
    with worker.session(person.project) as say:
        worker.plans(say, "Repair the Kestrel, in the shed", QUESTION, COLOURS, PLAN, STEPS)
    assert not any(map(work.injected, (body for _, body in model.requests)))
    with worker.session(person.project) as say:
        block = first_block(say("Good morning", "Hello"))
    tasks, _, rest = block.partition("## Decisions\n")
    decisions, _, words = rest.partition("memplane:end")[0].partition("## ")
    [task] = [line for line in tasks.splitlines() if line.startswith("task ")]
    assert task.endswith("Repair the Kestrel, in the shed. Doing step 2 of 2: Paint the hull.")
    # The newest first.
    assert [line.partition(": ")[2] for line in decisions.splitlines()] == [
        f"Plan: Repair the Kestrel: {GOAL}",
        f"{QUESTION} \u2192 Green",
    ]
    assert "Put her into the dry dock" not in block  # it is done
    assert "<" not in words  # nothing of the client's own
    with memplane.open(person.home / ".memplane", environment={}) as plane:
        before = {kind: list(plane.events(kind=kind)) for kind in ("decision", "task")}
        [summary] = [one.text for one in plane.events(kind="summary")]
        assert "Came to: 1 of 2 steps done" in summary
        import_paths(plane, worker.source, person.transcripts(worker.transcripts))
        assert {kind: list(plane.events(kind=kind)) for kind in before} == before


OFFER = "Two ways to keep the {}:\n\nA. {}\nB. {}\n\nWhich one?"
HERON = OFFER.format("invoices of the Heron", "in ledger files", "in the Duero database")
OTTER = OFFER.format("recipes of the Otter", "on index cards", "in the Tejo cabinet")
OF_HERON = ("Heron", "Duero", "invoices", "ledger")
OF_OTTER = ("Otter", "Tejo", "recipes", "index cards")


@pytest.mark.parametrize(("make", "more"), [CLAUDE, CODEX])
def test_of_two_projects_in_one_plane_each_is_told_its_own_and_small_talk_is_met_by_silence(
    person, model, make, more
):
    worker = installed(make, more, person, model)
    places = {name: person.home / name for name in ("first", "second")}
    said = {name: [] for name in places}
    for place in places.values():
        (place / ".git").mkdir(parents=True)
        (place / ".git" / "HEAD").write_text("ref: refs/heads/main\n")

    def session(name, *turns):
        """Say the turns, each a prompt and what the model does; give its requests of each."""
        with worker.session(places[name]) as say:
            made = [say(prompt, *steps) for prompt, *steps in turns]
        said[name] += [body for bodies in made for body in bodies]
        return made

    def search(words):
        return worker.tool("search"), {"query": words}

    def told(requests, text):
        """Whether hooks put the text before the model."""
        return any(text in block for block in work.injected(requests[-1]))

    session("first", ("How do we keep the invoices of the Heron?", HERON), ("B", "Agreed"))
    session("second", ("How do we keep the recipes of the Otter?", OTTER), ("B", "Agreed"))
    hello, yes, thanks = session("first", ("yes", "Hello"), ("1", "Yes?"), ("thanks", "Bye"))
    assert "Two ways to keep the invoices of the Heron: " in first_block(hello)
    for later in (yes, thanks):  # nothing but what stood at the start
        assert work.injected(later[0]) == work.injected(hello[0])
    session("second", ("yes", "Hello"), ("thank you", search("which database"), "Bye"))
    [asked] = session("first", ("Where do we keep the invoices of the Heron?", "In the Duero"))
    assert told(asked, "in the Duero database")
    [asked] = session(
        "second", ("Where do we keep the recipes of the Otter?", search("a cabinet"), "In the Tejo")
    )
    assert told(asked, "in the Tejo cabinet")
    for name, foreign in (("first", OF_OTTER), ("second", OF_HERON)):
        texts = [text for body in said[name] for text in work.texts_in(body)]
        assert [word for word in foreign for text in texts if word in text] == []


def settings(person):
    """Every file of the home but the plane and what memplane remembers of installs."""
    ours = (person.home / ".memplane", person.home / ".local" / "state" / "memplane")
    files = [one for one in person.home.rglob("*") if one.is_file() and not one.is_symlink()]
    own = [one for one in files if not any(map(one.is_relative_to, ours))]
    return {one.relative_to(person.home): one.read_bytes() for one in own}


OWN = {"claude-code": "MEMORY.md", "codex": "memories = true"}  # a sign of the client's own memory


@pytest.mark.parametrize(("make", "more"), [CLAUDE, CODEX])
def test_an_install_is_sound_is_read_by_its_client_and_goes_to_the_byte(person, model, make, more):
    worker = make(person, model, **more)
    if worker.source == "codex":
        rules, config = (person.home / ".codex" / one for one in ("AGENTS.md", "config.toml"))
        rules.write_text("Use tabs.")
        config.write_text(f"{config.read_text()}[features]\nmemories = true\n")

    def requests():
        with worker.session(person.project) as say:
            return list(work.texts_in(say("hello", "Hello")))

    def run(*argv):
        return person(person.script, *argv)

    def own_memory(texts):
        """Whether the client's own memory is on, by what its model was told or by its settings."""
        if worker.source == "codex":
            return OWN["codex"] in config.read_text()
        return any(OWN["claude-code"] in text for text in texts)

    bare = requests()
    assert not any("memplane" in text for text in bare if str(person.home) not in text)
    assert own_memory(bare)
    before = settings(person)
    install = ("install", worker.source, "--user")
    run(*install)
    found = json.loads(run("doctor", "--json", "--home", str(person.home / ".memplane")))
    assert {one["status"] for one in found["checks"]} == {"ok"}, found
    done = settings(person)
    assert run(*install).count("as it was") == 4
    assert settings(person) == done
    run(*install, "--native-memory", "off")
    told = requests()
    assert not own_memory(told)
    taught = [text for text in told if SKILL in text and "Long-term memory" in text]
    if worker.source == "codex":
        taught = [text for text in told if section_text().strip() in text]
        assert any("Use tabs." in text for text in taught)
    assert taught
    run(*install, "--native-memory", "on")
    assert own_memory(requests())
    run(*install, "--native-memory", "off")
    run("uninstall", worker.source)
    gone = requests()
    assert own_memory(gone)
    assert not any("memplane" in text for text in gone if str(person.home) not in text)
    # Apart from what the client wrote itself meanwhile, all is what it was.
    after = settings(person)
    ours = [one for one in before if one.suffix in (".toml", ".md") or one.name == "settings.json"]
    assert {one: after.get(one) for one in ours} == {one: before[one] for one in ours}
    assert [one for one in after if "memplane" in one.parts or "memplane-backup" in one.name] == []


@pytest.mark.parametrize(("make", "more"), [CLAUDE, CODEX])
def test_where_its_client_did_not_run_meanwhile_an_install_leaves_no_trace(
    person, model, make, more
):
    worker = make(person, model, **more)
    with worker.session(person.project) as say:
        say("hello", "Hello")
    before = settings(person)
    for native in ([], ["--native-memory", "off"], []):
        person(person.script, "install", worker.source, "--user", *native)
    person(person.script, "uninstall", worker.source)
    assert settings(person) == before
