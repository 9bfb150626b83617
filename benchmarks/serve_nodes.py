"""Many shared planes on several nodes of `memplane serve` over one engine, under a mixed load.

    python benchmarks/serve_nodes.py --engine PostgreSQL --planes 1000 --requests 6000

Every node has every plane, as a folder that follows the plane's shared log; a request goes to the
node that its plane's name is hashed to, as a proxy would send it, and is asked once more of another
node where the first fails. First each plane gets one event (most of them have to be opened), then
a tenth of the planes gets nine of ten requests; with `--restart` the nodes are ended by SIGTERM
(with `--kill` by SIGKILL) and started again, one after the other, meanwhile. Afterwards another
node is asked for what was acknowledged. Prints figures as JSON; exits with 1 where something
acknowledged is not there, or a request failed twice. A node answers from what it has when it does
not catch up within `shared.catch_up_ms`: what another one acknowledged just before may be missing.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import workload
from place import Place
from shared_works import STARTS

from memplane.home import ADDRESS_VARIABLE, shared_name
from memplane.serve import TokenFile, made
from memplane.shared.follower import begin_shared_log, shared_log_of
from memplane.wiring import clock, init_shared, ulid

_OPEN: Final = "memplane_planes_open "
_CREATED: Final = "2026-01-01T00:00:00.000000Z"
_KINDS: Final = ("record", "get", "search", "pack")
_SHARES: Final = (40, 20, 20, 20)  # of a hundred requests
_WAIT_S: Final = 0.2  # before a request is asked again
_TIMEOUT_S: Final = 60
# Between two nodes: what was asked again because one was away is answered before the next one goes.
_PAUSE_S: Final = 2
_CHECKED: Final = 300  # acknowledged events that are asked for at the end


@dataclass
class Node:
    """One `memplane serve`, its folder of planes and its port."""

    folder: Path
    port: int
    environment: dict[str, str]
    tokens: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["serve", "--planes", self.folder, "--port", self.port, "--tokens", self.tokens]
        command = [sys.executable, "-m", "memplane", *map(str, words), "--rate", "100000"]
        with self.folder.with_suffix(".output").open("ab") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, env=self.environment
            )
        for _ in range(600):
            with suppress(OSError, http.client.HTTPException):
                line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_TIMEOUT_S)
                line.request("GET", "/health")
                if line.getresponse().status == 200:
                    line.close()
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(self.folder.with_suffix(".output").read_text())

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """The exit code after a signal; 0 for a SIGKILL that was asked for."""
        if self.process is None:
            return 0
        self.process.send_signal(how)
        code = self.process.wait(60)
        return 0 if how == signal.SIGKILL == -code else code

    def uses(self) -> dict[str, int]:
        """What the process has: resident memory in KiB, threads, descriptors."""
        assert self.process is not None
        place = Path(f"/proc/{self.process.pid}")
        said = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
        return {
            "kib": int(said["VmRSS"].split()[0]),
            "threads": int(said["Threads"]),
            "descriptors": len(list((place / "fd").iterdir())),
        }


@dataclass
class Load:
    """A number of requests for some planes, by threads; what came of them."""

    nodes: list[Node]
    secret: str
    planes: list[str]
    acknowledged: dict[str, list[tuple[str, str]]]
    times: dict[str, list[float]] = field(default_factory=lambda: {one: [] for one in _KINDS})
    counts: Counter[str] = field(default_factory=Counter)
    restarts: list[tuple[float, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, wanted: list[tuple[str, str]], clients: int) -> dict[str, Any]:
        """Send the requests, pairs of kind and plane; the figures."""
        left = iter(enumerate(wanted))
        begun = time.perf_counter()
        threads = [threading.Thread(target=self._client, args=(left, n)) for n in range(clients)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        took = time.perf_counter() - begun
        every = [one for times in self.times.values() for one in times]
        return {
            "requests": len(every),
            "seconds": round(took, 1),
            "per second": round(len(every) / took, 1),
            "ms": {"all": _spread(every)} | {k: _spread(v) for k, v in self.times.items() if v},
            **self.counts,
        }

    def _client(self, left: Any, seed: int) -> None:
        client, chance = Client(self.nodes, self.secret), random.Random(seed)
        while True:
            with self.lock:
                number, asked = next(left, (0, None))
            if asked is None:
                return
            kind, plane = asked
            method, path, value = self._request(kind, plane, number, chance)
            begun = time.perf_counter()
            status, said, tries = client.ask(method, path, value, crc32(plane.encode()))
            took = time.perf_counter() - begun
            with self.lock:
                self.times[kind].append(took)
                self.counts["asked again"] += tries - 1
                stale = status == 404 and kind == "get" and tries > 1
                self.counts["not there yet"] += stale
                self.counts["failed"] += status != 200 and not stale
                if status != 200:
                    self.counts[f"status {status}"] += 1
                if status == 200 and kind == "record":
                    assert value is not None
                    self.counts["in an outbox"] += said["seq"] == 0
                    self.acknowledged.setdefault(plane, []).append((said["id"], value["text"]))

    def _request(
        self, kind: str, plane: str, number: int, chance: random.Random
    ) -> tuple[str, str, dict[str, Any] | None]:
        with self.lock:
            known = self.acknowledged.get(plane, [])[-20:]
        if kind == "get" and known:
            return "GET", f"/v1/get?plane={plane}&id={chance.choice(known)[0]}", None
        if kind == "record" or not known:
            text = workload.text(crc32(f"{plane}/{number}".encode()), 300)
            once = f"{plane}/{number}/{time.time_ns()}"
            return "POST", "/v1/record", {"plane": plane, "text": text, "idempotency_key": once}
        words = " ".join(chance.choice(known)[1].split()[:5])
        if kind == "search":
            return "POST", "/v1/search", {"plane": plane, "query": words, "limit": 5}
        return "POST", "/v1/pack", {"plane": plane, "query": words, "budget": 1_000}


class Client:
    """Asks a node, and once more another one where that fails; keeps its connections."""

    def __init__(self, nodes: list[Node], secret: str) -> None:
        self._nodes, self._secret = nodes, secret
        self._lines: dict[int, http.client.HTTPConnection] = {}

    def ask(
        self, method: str, path: str, value: dict[str, Any] | None, hashed: int
    ) -> tuple[int, Any, int]:
        """Status, the answer, and how many times it was asked."""
        status, said = 0, None
        for tries in (1, 2):
            at = (hashed + tries - 1) % len(self._nodes)
            try:
                status, said = self._once(at, method, path, value)
            except (OSError, http.client.HTTPException, ValueError):
                self._lines.pop(at).close()
                status, said = 0, None
            if 0 < status < 500:
                break
            if tries == 1:
                time.sleep(_WAIT_S)
        return status, said, tries

    def _once(
        self, at: int, method: str, path: str, value: dict[str, Any] | None
    ) -> tuple[int, Any]:
        line = self._lines.get(at)
        # As any client does: a connection that the server has closed meanwhile is not used.
        if line is None or line.sock is None or select.select([line.sock], [], [], 0)[0]:
            if line is not None:
                line.close()
            line = http.client.HTTPConnection("127.0.0.1", self._nodes[at].port, timeout=_TIMEOUT_S)
            self._lines[at] = line
        body = None if value is None else json.dumps(value).encode()
        line.request(method, path, body, {"Authorization": f"Bearer {self._secret}"})
        answer = line.getresponse()
        return answer.status, json.loads(answer.read())


def _spread(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    found = {"p50": statistics.median(ordered), "p95": ordered[int(len(ordered) * 0.95)]}
    return {name: round(one * 1000, 1) for name, one in found.items()}


def _mixed(planes: list[str], count: int) -> list[tuple[str, str]]:
    """Kinds and planes, nine of ten of a tenth of the planes."""
    chance = random.Random(7)
    hot = planes[: max(1, len(planes) // 10)]
    kinds = chance.choices(_KINDS, _SHARES, k=count)
    return [(one, chance.choice(hot if chance.random() < 0.9 else planes)) for one in kinds]


def _planes(folder: Path, names: list[str], nodes: int, environment: dict[str, str]) -> float:
    """Begin each plane and make its folder on each node; milliseconds that a command takes for one.

    The first plane is begun and joined as by `memplane init --shared` and `memplane join`. The
    others are copies of it with their own names, as nothing else differs between empty planes.
    """
    begun = time.perf_counter()
    for number in range(nodes):
        home = folder / f"node{number}" / names[0]
        init_shared(home, names[0], join=number > 0, environment=environment).close()
    took = (time.perf_counter() - begun) * 1000 / nodes
    template = folder / "node0" / names[0]
    said = json.loads((template / "plane.json").read_text())
    for name in names[1:]:
        mine = {**said, "plane": ulid(clock()), "shared": {**said["shared"], "name": name}}
        log = shared_log_of(shared_name(name, ADDRESS_VARIABLE), environment)
        begin_shared_log(log, mine["plane"])
        log.close()
        for number in range(nodes):
            home = folder / f"node{number}" / name
            shutil.copytree(template, home)
            (home / "plane.json").write_text(json.dumps(mine))
    return took


def _restart(load: Load, requests: int, how: signal.Signals, codes: list[int]) -> None:
    """End and start each node when the next part of the requests was answered."""
    for number, node in enumerate(load.nodes, 1):
        while sum(map(len, load.times.values())) < requests * number // (len(load.nodes) + 1):
            time.sleep(0.01)
        begun = time.perf_counter()
        codes.append(node.end(how))
        ended = time.perf_counter()
        node.start()
        load.restarts.append((round(ended - begun, 1), round(time.perf_counter() - ended, 1)))
        time.sleep(_PAUSE_S)


def _lost(load: Load, chance: random.Random) -> int:
    """How many acknowledged events the node that comes after a plane's own does not have."""
    client = Client(load.nodes, load.secret)
    every = [(plane, *one) for plane, rows in load.acknowledged.items() for one in rows]
    lost = 0
    for plane, id_, text in chance.sample(every, min(len(every), _CHECKED)):
        path = f"/v1/get?plane={plane}&id={id_}"
        status, said, _ = client.ask("GET", path, None, crc32(plane.encode()) + 1)
        lost += status != 200 or said["text"] != text
    return lost


def _measured(asked: argparse.Namespace, folder: Path, address: str) -> dict[str, Any]:
    environment = {**os.environ, "MEMPLANE_SHARED": address, "XDG_STATE_HOME": str(folder)}
    names = [f"p{number:05d}" for number in range(asked.planes)]
    figures: dict[str, Any] = {"engine": asked.engine, "planes": asked.planes}
    figures["ms to begin or join a plane"] = round(
        _planes(folder, names, asked.nodes, environment), 1
    )
    token, secret = made("load", "load", "agent", (), names, _CREATED)
    TokenFile(folder / "tokens.json").add(token)
    nodes = [
        Node(folder / f"node{n}", _port(), environment, folder / "tokens.json")
        for n in range(asked.nodes)
    ]
    codes: list[int] = []
    try:
        for node in nodes:
            node.start()
        figures["empty node"] = nodes[0].uses()
        acknowledged: dict[str, list[tuple[str, str]]] = {}
        load = Load(nodes, secret, names, acknowledged)
        figures["first event of each plane"] = load.run(
            [("record", name) for name in names], asked.clients
        )
        load = Load(nodes, secret, names, acknowledged)
        how = signal.SIGKILL if asked.kill else signal.SIGTERM
        restarting = threading.Thread(target=_restart, args=(load, asked.requests, how, codes))
        if asked.restart or asked.kill:
            restarting.start()
        figures["mixed"] = load.run(_mixed(names, asked.requests), asked.clients)
        if asked.restart or asked.kill:
            restarting.join()
            figures["seconds to end and to start"] = load.restarts
        figures["full nodes"] = [one.uses() | {"open": _open(one, secret)} for one in nodes]
        figures["acknowledged"] = sum(map(len, acknowledged.values()))
        figures["lost"] = _lost(load, random.Random(1))
    finally:
        codes += [node.end() for node in nodes if node.process is not None]
    figures["exit codes"] = codes
    figures["KiB a plane on a node"] = _kib(folder / "node0") // asked.planes
    figures["KiB a plane in the engine"] = sum(map(_kib, folder.glob("*-1"))) // asked.planes
    return figures


def _kib(folder: Path) -> int:
    """What the files of a folder take on the disk."""
    return sum(one.lstat().st_blocks for one in folder.rglob("*")) // 2


def _open(node: Node, secret: str) -> int:
    """How many planes are open at a node."""
    line = http.client.HTTPConnection("127.0.0.1", node.port, timeout=_TIMEOUT_S)
    line.request("GET", "/metrics", None, {"Authorization": f"Bearer {secret}"})
    said = line.getresponse().read().decode()
    line.close()
    return int(next(row for row in said.splitlines() if row.startswith(_OPEN)).split()[1])


def _port() -> int:
    with socket.socket() as made_:
        made_.bind(("127.0.0.1", 0))
        return int(made_.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=STARTS, default="PostgreSQL")
    parser.add_argument("--planes", type=int, default=1_000)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--requests", type=int, default=6_000, help="of the mixed load")
    parser.add_argument("--clients", type=int, default=12, help="that ask at the same time")
    parser.add_argument("--restart", action="store_true", help="one node after the other")
    parser.add_argument("--kill", action="store_true", help="the same by SIGKILL")
    parser.add_argument("--folder", type=Path, help="in which all is made, and removed")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="memplane-nodes-", dir=asked.folder))
    place = Place(folder, 0, 0, 0, lambda _said: None)
    try:
        address = STARTS[asked.engine](place)
        if not address:
            print(f"{asked.engine} is not installed (requirements-servers.txt)", file=sys.stderr)
            return 2
        figures = _measured(asked, folder, address)
    finally:
        place.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures, indent=1))
    phases = [figures["first event of each plane"], figures["mixed"]]
    failed = sum(one["failed"] for one in phases) + figures["lost"] + any(figures["exit codes"])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
