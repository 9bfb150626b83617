"""Ask a plane's retriever, as packs and searches do."""

from memplane.policy import ChannelRule
from memplane.recall.suppress import Scope
from memplane.search.service import index_service

NOW = "2026-03-01T12:00:00.000000Z"


def retriever(plane):
    context = plane.context
    with context.lock:
        policies = plane.upkeep.policies
        return index_service(context).retriever(policies, context.caught_up(policies))


def scope_of(plane, **fields):
    fields = {"rule": ChannelRule(), "now": NOW, "as_of": plane.head().seq} | fields
    return Scope(fields.pop("rule"), **fields)


def find(plane, query, *, upto=None, never=(), most=50, only=(), **scope):
    asked = scope_of(plane, **({"as_of": upto} if upto is not None else {}) | scope)
    upto = asked.as_of if upto is None else upto
    made = retriever(plane).find(query, upto=upto, scope=asked, never=never, most=most, only=only)
    return made._replace(found=tuple(made.found))  # rows, which compare by what they say


def seqs(plane, query, **asked):
    return [found.seq for found in find(plane, query, **asked).found]


def texts(plane, query, **asked):
    return [plane.event(seq).text for seq in seqs(plane, query, **asked)]


def index_files(home):
    """The bytes of the index, without what is said of the files from outside."""
    return {
        path.name: path.read_bytes()
        for path in sorted((home / "index").iterdir())
        if path.is_file() and path.name not in ("stamps.json", ".lock")
    }
