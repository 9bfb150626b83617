"""What needs an extra says which, where it is not installed."""

import subprocess
import sys

import pytest

BARE = """
import asyncio, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("httpx", "opentelemetry", "openai", "anthropic"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
import memplane.acms
from memplane.errors import MissingExtraError
from memplane.providers import HTTPEmbedder, HTTPReflector, OpenAIEmbedder
from memplane.adapters.otel import OtelObserver

try:
    {call}
except MissingExtraError as error:
    print(error.extra)
"""


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        ("asyncio.run(HTTPEmbedder('http://127.0.0.1:9').embed(['heron']))", "http"),
        ("OtelObserver()", "otel"),
        ("print(OpenAIEmbedder(None, 'm', dimension=3).dimension)", "3"),
    ],
)
def test_without_its_extra_a_provider_names_it(call, extra):
    done = subprocess.run(
        [sys.executable, "-c", BARE.format(call=call)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == extra
