"""The five files as people meet them: bytes in, records or a list of mistakes out."""

from __future__ import annotations

from pathlib import Path

import pytest

from memplane import policy
from memplane.errors import PolicyError
from memplane.policy import NAMES, load_policies

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def defaults():
    return {name: (TOP / "policies" / name).read_bytes() for name in NAMES}


@pytest.fixture(scope="session", autouse=True)
def _defaults_read_once(defaults, schemas):
    """A test is about one file: what the shipped ones beside it hold is read and checked once."""
    read, check = policy.read_document, policy._faults
    roots = {name: read(name, data) for name, data in defaults.items()}
    plain = {name: policy.without_places(root) for name, (root, _) in roots.items()}
    found = {name: check(name, document, schemas) for name, document in plain.items()}

    def read_document(name, data):
        if data != defaults.get(name):
            return read(name, data)
        root, problems = roots[name]
        return root, [*problems]

    def faults(name, document, given):
        if document == plain.get(name) and dict(given) == schemas:
            return [*found[name]]
        return check(name, document, given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "read_document", read_document)
        patch.setattr(policy, "_faults", faults)
        yield


@pytest.fixture(scope="session")
def schemas():
    names = [name.replace(".yaml", ".schema.json") for name in NAMES]
    return {name: (TOP / "schemas" / name).read_bytes() for name in names}


@pytest.fixture(scope="session")
def kept(defaults, schemas):
    """The parsed forms of the defaults, by their keys."""
    forms = {}
    load_policies({}, defaults=defaults, schemas=schemas, version="1.2", keep=forms.__setitem__)
    return forms


@pytest.fixture(scope="session")
def policies(defaults, schemas):
    """Load what is given by the stems of the names, the defaults for the rest."""

    def read(**files):
        data = {f"{stem}.yaml": _bytes(text) for stem, text in files.items()}
        return load_policies(data, defaults=defaults, schemas=schemas)

    return read


@pytest.fixture(scope="session")
def mistakes(policies):
    """The mistakes of the given files, as people read them."""

    def read(**files):
        try:
            policies(**files)
        except PolicyError as error:
            return [str(problem) for problem in error.problems]
        return []

    return read


def _bytes(text):
    return text.encode() if isinstance(text, str) else text
