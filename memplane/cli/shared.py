"""`memplane join`, and the commands of a plane whose log many machines share."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

from memplane.cli.commands import command
from memplane.cli.options import Argument, Home, Json, Option
from memplane.cli.output import counted, print_answer, say
from memplane.errors import HomeError, MemplaneError
from memplane.home import ADDRESS_VARIABLE
from memplane.plane import Plane
from memplane.shared.follower import FollowerLog
from memplane.trust import printable
from memplane.wiring import init_shared, open_plane

_PAUSE_S: Final = 1.0  # after a fault
_WAIT_S: Final = 30.0  # between two looks where nobody wakes this one


@command("join", example="join --help")
def join(
    name: Annotated[str, Argument(metavar="NAME", help="The shared log, as it was begun.")],
    folder: Annotated[
        str | None, Argument(metavar="DIR", help="The folder; else --home, .memplane.")
    ] = None,
    *,
    address: Annotated[
        str,
        Option("--address", metavar="VARIABLE", help="The variable with the engine's address."),
    ] = ADDRESS_VARIABLE,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make a plane that follows a shared log, and bring its log here.

    Begin one with `memplane init --shared NAME`. The engine's address, postgresql://... or
    nats://..., stands in MEMPLANE_SHARED. From then on every command works on the files here, and
    takes in what the other machines recorded.
    """
    with init_shared(folder or home, name, address=address, join=True) as plane:
        log = _follower(plane)
        log.exchange()
        seq, where = plane.head().seq, str(plane.home.absolute())
    print_answer(
        {"home": where, "plane": plane.id, "seq": seq},
        f"{where}: joined {name}, {counted(seq, 'line')} of its log",
        as_json=as_json,
    )


@command("status", group="shared", example="shared status --help")
def shared_status(*, home: Home = None, as_json: Json = False) -> None:
    """Say how this machine stands to the shared log, and where the others are.

    A machine whose policies or views differ is named: equal packs are promised for equal files.
    """
    with open_plane(home) as plane:
        log = _follower(plane)
        notes: dict[str, dict[str, Any]] = {}
        try:
            log.exchange()
            notes = log.notes()
        except MemplaneError as error:
            say(str(error))
        said = log.status()
        hashes = plane.context.watched.policies_or_last().hashes
    peers = [
        {
            "device": device,
            "seq": note.get("seq"),
            "behind": max(said.seq - seq, 0) if isinstance(seq := note.get("seq"), int) else None,
            "differing": _differing(note.get("files"), hashes),
        }
        for device, note in sorted(notes.items())
    ]
    lines = [
        f"seq         {said.seq}",
        f"behind      {counted(said.behind, 'position')}",
        f"outbox      {counted(said.waiting, 'file')}",
    ]
    lines += [f"fault       {said.fault}"] * bool(said.fault)
    lines += [_peer_words(peer) for peer in peers]
    print_answer({**said._asdict(), "peers": peers}, "\n".join(lines), as_json=as_json)


def _differing(theirs: object, ours: dict[str, str]) -> list[str]:
    """The files of the other machine that differ from those here."""
    if not isinstance(theirs, dict):
        return []
    names = sorted({*map(str, theirs), *ours})
    return [name for name in names if theirs.get(name) != ours.get(name)]


def _peer_words(peer: dict[str, Any]) -> str:
    behind = f", {peer['behind']} behind this one" if peer["behind"] else ""
    other = f"; differs in {', '.join(peer['differing'])}" if peer["differing"] else ""
    return printable(f"machine     {peer['device']} at seq {peer['seq']}{behind}{other}")


@command("follow", group="shared", example="shared follow --help")
def shared_follow(
    *,
    once: Annotated[bool, Option("--once", help="Exchange what there is, and end.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Publish the outbox and take in what others record, until Ctrl-C.

    With --once it prints how far the log goes then, and ends.
    """
    with open_plane(home) as plane:
        log = _follower(plane)
        while True:
            try:
                log.exchange()
                if once:
                    break
                say(f"at seq {plane.head().seq}")
                while not log.wait(_WAIT_S):
                    pass
            except MemplaneError as error:
                if once:
                    raise
                say(str(error))
                time.sleep(_PAUSE_S)
        seq = plane.head().seq
    print_answer({"seq": seq}, f"at seq {seq}", as_json=as_json)


@command("refill", group="shared", example="shared refill --help")
def shared_refill(
    *,
    again: Annotated[
        bool, Option("--again", help="Derive this machine's log from the first entry on.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Publish what the engine lost of this machine's log; mend this log from the engine's.

    Where others have published meanwhile, or with --again, the log here is derived anew, and the
    old segments go to log/quarantine. Nothing that is in either is lost.
    """
    with open_plane(home) as plane:
        done = _follower(plane).refill(again=again)
        seq = plane.head().seq
    words = f"{counted(done.published, 'event')} published again; this log goes up to seq {seq}"
    if done.derived:
        words += ", and was derived anew"
    print_answer({**done._asdict(), "seq": seq}, words, as_json=as_json)


def _follower(plane: Plane) -> FollowerLog:
    log = plane.context.log
    if not isinstance(log, FollowerLog):
        raise HomeError(
            f"{plane.home}: follows no shared log, or is read-only; begin one with "
            "`memplane init --shared NAME` in another folder"
        )
    return log
