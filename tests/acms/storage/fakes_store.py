"""A store as somebody else might write it: the twelve methods over one JSON file."""

import json

from memplane.acms.storage import StorageBackend, VectorSearchResult
from memplane.errors import PlaneError
from memplane.work.episodes import Episode, EpisodeStatus, Fact, Turn

KINDS = {"turns": Turn, "episodes": Episode, "facts": Fact}


class OwnStore(StorageBackend):
    def __init__(self, path):
        self.path, self.rows = path, None

    async def initialize(self):
        if self.rows is None:
            empty = {"turns": {}, "episodes": {}, "facts": {}, "vectors": {}}
            self.rows = json.loads(self.path.read_text()) if self.path.exists() else empty

    async def close(self):
        self.rows = None

    def ready(self):
        if self.rows is None:
            raise PlaneError("closed")

    def put(self, table, id_, row, *, over=False):
        self.ready()
        there = self.rows[table].get(id_)
        if there is not None and there != row and not over:
            raise PlaneError(f"another one has the id {id_}")
        self.rows[table][id_] = row
        self.path.write_text(json.dumps(self.rows))

    def all(self, table, wanted, newest=False):
        self.ready()
        found = [KINDS[table].from_dict(row) for row in self.rows[table].values() if wanted(row)]
        at = "started_at" if table == "episodes" else "created_at"
        return sorted(found, key=lambda one: (getattr(one, at), one.id), reverse=newest)

    async def save_turn(self, turn):
        self.put("turns", turn.id, turn.to_dict())

    async def get_turn(self, turn_id):
        return next(iter(self.all("turns", lambda row: row["id"] == turn_id)), None)

    async def get_turns_by_episode(self, episode_id):
        return self.all("turns", lambda row: row["episode_id"] == episode_id)

    async def save_episode(self, episode):
        known = await self.get_episode(episode.id)
        still = known is not None and known.status == EpisodeStatus.OPEN
        same = still and known.session_id == episode.session_id
        self.put("episodes", episode.id, episode.to_dict(), over=same)

    async def get_episode(self, episode_id):
        return next(iter(self.all("episodes", lambda row: row["id"] == episode_id)), None)

    async def get_episodes(self, session_id, *, limit=100, status=None):
        wanted = None if status is None else str(EpisodeStatus(status))
        return self.all(
            "episodes",
            lambda row: row["session_id"] == session_id and wanted in (None, row["status"]),
            newest=True,
        )[:limit]

    async def save_embedding(self, id, embedding, metadata):  # noqa: A002
        for one, _ in self.rows["vectors"].values() if self.rows else ():
            if len(one) != len(embedding):
                raise PlaneError("another dimension")
        self.put("vectors", id, [list(embedding), metadata])

    async def vector_search(self, embedding, *, k=10, filter=None):  # noqa: A002
        self.ready()
        found = []
        for id_, (vector, metadata) in self.rows["vectors"].items():
            if len(vector) != len(embedding):
                raise PlaneError("another dimension")
            wanted = (filter or {}).items()
            if all(key in metadata and metadata[key] == value and type(metadata.get(key)) is type(value)
                   for key, value in wanted):  # fmt: skip
                dot = sum(a * b for a, b in zip(vector, embedding, strict=True))
                size = (sum(a * a for a in vector) * sum(b * b for b in embedding)) ** 0.5
                score = round(dot / size, 6) if size else 0.0
                found.append(VectorSearchResult(id=id_, score=score, metadata=metadata))
        return sorted(found, key=lambda one: (-one.score, one.id))[: max(k, 0)]

    async def save_fact(self, fact):
        self.put("facts", fact.id, fact.to_dict())

    async def get_facts_by_session(self, session_id):
        return self.all("facts", lambda row: row["session_id"] == session_id)
