"""A disk that is full, then has room again: a limit on file sizes, or a small tmpfs of one's own."""

import ctypes
import os
import random
import resource
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from builders_plane_operations import opened_plane, promised_by, rows
from checks_promises import Erased, broken_by_plane

from memplane.errors import MemplaneError

NEW_MOUNTS, NEW_USERS, PRIVATE, RECURSIVE = 0x20000, 0x10000000, 1 << 18, 1 << 14
REFUSALS = 2


class NoMountError(OSError):
    """This process may not mount anything here."""


def mount_small(path, kilobytes):
    """Give this process alone a small tmpfs at that path."""
    libc = ctypes.CDLL(None, use_errno=True)

    def done(result):
        if result:
            raise NoMountError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    ids = os.getuid(), os.getgid()
    if ids[0]:
        done(libc.unshare(NEW_MOUNTS | NEW_USERS))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {ids[0]} 1")
        Path("/proc/self/gid_map").write_text(f"0 {ids[1]} 1")
    else:
        done(libc.unshare(NEW_MOUNTS))
    done(libc.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None))
    options = f"size={kilobytes}k".encode()
    done(libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", 0, options))


def limited(base, place, seed):
    """Files may not grow beyond a size, until they may."""
    rng = random.Random(f"limit {seed}")
    shutil.copytree(base, place / "home")
    largest = max(p.stat().st_size for p in (place / "home").rglob("*") if p.is_file())
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    free = resource.RLIM_INFINITY
    # Below the largest file that is there: nothing that big can be written anew either.
    limit = rng.randrange(largest // 4, largest * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, free))
    return used(
        place / "home", rng, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (free, free))
    )


def on_small_disk(base, place, seed):
    """A disk with little room, which a file beside the plane takes and gives back."""
    rng = random.Random(f"small {seed}")
    mount_small(place, 3000)
    shutil.copytree(base, place / "home")
    found = os.statvfs(place)
    ballast = place / "ballast"
    left = rng.randrange(4096, 200_000)
    ballast.write_bytes(bytes(max(0, found.f_bavail * found.f_frsize - left)))
    return used(place / "home", rng, ballast.unlink)


def used(home, rng, make_room):
    """Use the plane until it has refused some things; make room, go on. What is broken."""
    promised = []
    refused = fill(home, promised.extend, rng)
    make_room()
    broken = [] if refused else ["nothing was refused"]
    before = len(promised)
    with opened_plane(home) as plane:
        promised_by(plane, promised.extend, [plane.record("there is room again").seq])
    if len(promised) == before:
        broken.append("the writer does not go on")
    return [*broken, *broken_by_plane(home, promised)]


def fill(home, ack, rng):
    """Record, pack, save and index until that is refused often enough; how often it was."""
    refused = 0
    plane = opened_plane(home)
    for n in range(400):
        size = rng.choice((10, 100, 3000, 30_000))
        things = [
            lambda n=n, size=size: ack_one(plane, ack, f"f{n}", "w " * size),
            lambda n=n, size=size: ack_one(plane, ack, f"g{n}", "w " * size),
            lambda: plane.pack("database", budget=700, save_report=True, intent="deep"),
            lambda: plane.context.caught_up().save(),
            plane.upkeep.index,
            lambda: plane.forget("k1"),
            lambda n=n: ack_many(plane, ack, f"m{n}-"),
            lambda n=n: ack_purge(plane, ack, f"p{n}"),
        ]
        try:
            rng.choice(things)()
        except MemplaneError:
            refused += 1
        if refused >= REFUSALS:
            break
    with suppress(MemplaneError):
        plane.close()
    return refused


def ack_one(plane, ack, id_, text):
    promised_by(plane, ack, [plane.record(text, id=id_).seq])


def ack_many(plane, ack, prefix):
    done = plane.record_many(rows(prefix, 40), batch=9)
    lines = (plane._log.line(seq) for seq in range(done.first_seq, done.last_seq + 1))
    own = [line.event.seq for line in lines if line is not None and line.event.kind != "segment"]
    promised_by(plane, ack, own)


def ack_purge(plane, ack, id_):
    """Record a word that stands nowhere else and purge it; one that was refused may be there."""
    word = f"quagga-{id_}-quagga"
    plane.record(word, id=id_)
    plane.upkeep.purge(id_)
    ack([Erased(id_, word.encode())])
