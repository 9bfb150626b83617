"""The event log: append-only segments of chained JSON lines, and what is promised about them.

Files, below the plane's home (directories 0700, files 0600)::

    log/00000001.jsonl ...      the segments; the highest number is active, all others sealed
    log/.lock                   flock'd for the length of one append; holds the last holder's pid
    log/quarantine/             bytes that a repair took out of the log; never read again
    log/spool/                  events of callers that could not wait for the lock (`spool`)
    log/.purging                a purge that is under way (`writer`)
    log/.sync                   up to where the last shared sync made a segment durable (`disk`)
    log/00000007.broken         a sync of that segment failed: nobody appends to it any more
    bodies/sha256/ab/cd...      texts too large for a line, blocks moved out of texts: by SHA-256
    index/ids/00000001.ids      per sealed segment: where each line and each id is. A cache

A segment is a sequence of lines, a line is one event::

    segment := header line*             the header is an event of kind `segment`
    line    := body suffix
    body    := '{"seq":' N (',"dur":' N)? ',"id":' STRING ',"ts":"' TIME '"' (',"rec":"' TIME '"')?
               ',"kind":"' ...          the other fields, in the order of memplane.event.FIELDS
    suffix  := ',"h":"' HEX16 '"}' LF   always 25 bytes

`seq` is dense from 1 over the whole log, headers included. `h` is the first 16 hex digits of
SHA-256(h of the line before, as ASCII + body); before the first line stands the first 16 hex digits
of SHA-256(plane id). All bytes of the suffix are compared, so no byte of a line is unprotected.
It is a hash chain (Haber and Stornetta 1991) without a secret: it shows damage, and no forgery.
`dur` is the highest seq of this segment that the writer knew to be covered by a successful sync of
the file and of its directory entry; 0 is left out. `rec` is left out where it equals `ts` because
no `ts` was given. It never runs backwards.

The header's data is `{"format":1,"plane":ID,"prev_seq":N,"prev_h":HEX16}`: the line that the
segment follows. A sealed segment therefore ends where its successor says, and bytes behind that
line are not part of the log. A segment is written under another name, synced, renamed and its
directory synced before it counts, so it appears with its header or not at all.

A plane named `demo` (genesis `2a97516c354b6884`) with one event; each line is folded here::

    {"seq":1,"id":"01KE68AHX0S9HNAPC8C6XVDB1V","ts":"2026-01-05T12:00:00.000000Z","kind":"segment",
     "data":{"format":1,"plane":"demo","prev_seq":0,"prev_h":"2a97516c354b6884"},"h":"..."}
    {"seq":2,"dur":1,"id":"m1","ts":"2026-01-05T12:00:00.000000Z","kind":"message","role":"user",
     "text":"hello","h":"..."}

Damage. A line that does not chain from the line before is bad; a later line is believed again once
it chains from what the line before it states. The watermark is the highest `dur` of the believed
lines of the active segment, and everything in a sealed one. A bad region above the watermark was
never acknowledged: it goes to quarantine, and the log goes on in a new segment that begins with a
`repair` event and repeats, with their ids, the believed lines that stood behind the region. At or
below the watermark the log is corrupt: writers refuse, readers go on with what they believe and
list the gap; a salvage copies the region to quarantine, leaves the sealed bytes as they are and
records the gap in a `repair` event of case `salvaged`, from where on writers go on.

What has a segment's name and cannot be one is no part of the log: a directory, a pipe, a link to
nothing; a segment of another plane; one whose header follows a line that is not behind the
segments before it (a copy, a wrong name). Readers pass over it, writers refuse, a salvage moves it
to quarantine and says so in a `repair` event of case `stray`. A marker of a failed sync says
`{"segment":7,"watermark":SEQ,"plane":ID}`; a torn or foreign one says that the sync failed, and no
more.

What is missing at the log's end cannot be seen in the log. Files that were made of more lines, or
that name later segments, show it (`verifying`): `verify` names them, a repair records it in an
event of case `ended`, and no first segment is made where a projection was folded from one. A newest
segment without a valid first line has lost acknowledged lines, since it got its name with that line
durable in it: writers refuse, and a repair moves what is left to quarantine, replaces the segment
and records an event of case `restarted` as its second line.

Purge. An event of kind `purge` names lines (`data.purge`: seqs, ids, and how many documents an
index held of each). Once it is durable they are overwritten in place, in the same length, spaces
filling it up::

    {"seq":2,"id":"m1","purged":true,"c":"<16 hex>"          ,"h":"<as before>"}

`c` is the first 16 hex digits of SHA-256(h of the line before + this line with nothing between the
quotes of `c`): no byte of a tombstone is unprotected, and the next line chains from it as before.
Readers pass over it, and over a line that a purge event they have met names, whatever stands there;
only `verify` asks that each tombstone has its purge event and each such event its tombstones. An
overwriting that was interrupted changes no byte that says where the line is or how the next one
chains, so `log/.purging` is enough for the next writer to finish it.

The price: a line carries 25 bytes of chain, the active segment is verified when it is first
written to (by a brief process what may not be durable), and 64 bits of hash guard against
accidents, not against a forger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplane.lazy import lazily

if TYPE_CHECKING:
    from memplane.log.disk import Disk
    from memplane.log.log import FileLog, MemoryLog
    from memplane.log.reader import Gap
    from memplane.log.repairing import RepairReport, RepairStep, repair_log
    from memplane.log.segments import Restart
    from memplane.log.verifying import LogProblem, VerifyReport, verify_log

__all__ = [
    "Disk",
    "FileLog",
    "Gap",
    "LogProblem",
    "MemoryLog",
    "RepairReport",
    "RepairStep",
    "Restart",
    "VerifyReport",
    "repair_log",
    "verify_log",
]

__getattr__ = lazily(
    __name__,
    {
        "memplane.log.disk": ("Disk",),
        "memplane.log.log": ("FileLog", "MemoryLog"),
        "memplane.log.reader": ("Gap",),
        "memplane.log.segments": ("Restart",),
        "memplane.log.repairing": ("RepairReport", "RepairStep", "repair_log"),
        "memplane.log.verifying": ("LogProblem", "VerifyReport", "verify_log"),
    },
)
