"""Providers by name."""

import pytest

from memplane.errors import ConfigurationError
from memplane.providers import HTTPEmbedder, registry


def test_what_memplane_ships_is_found_by_name():
    """A2-69"""
    made = registry.get("embedder", "http", base_url="http://127.0.0.1:1", model="m", dimension=3)
    assert isinstance(made, HTTPEmbedder)
    assert registry.names("reflector") == ("anthropic", "http", "openai")


def test_what_a_program_registers_is_found_until_it_is_taken_back():
    registry.register("reflector", "mine", lambda **given: given)
    try:
        assert registry.get("reflector", "mine", model="m") == {"model": "m"}
        assert "mine" in registry.names("reflector")
        with pytest.raises(ConfigurationError, match="mine"):
            registry.register("reflector", "mine", dict)
    finally:
        registry.unregister("reflector", "mine")
    with pytest.raises(ConfigurationError, match="known: anthropic, http, openai"):
        registry.get("reflector", "mine")
    with pytest.raises(ConfigurationError):
        registry.unregister("reflector", "mine")


def test_a_shipped_name_is_taken_and_an_unknown_kind_refused():
    with pytest.raises(ConfigurationError):
        registry.register("embedder", "http", dict)
    for call in (lambda: registry.get("oracle", "x"), lambda: registry.names("oracle")):
        with pytest.raises(ConfigurationError, match="embedder, reflector, counter, storage"):
            call()
