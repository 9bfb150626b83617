"""Planes that share folders, and how the files in those reach each other."""

import json
import shutil

import memplane
from memplane.shared.device_file import DeviceLines, FilePlace, device_of


class Ticking:
    """A clock of its own that is so many seconds ahead of a common one, and never stands still."""

    looks = 0

    def __init__(self, ahead=0):
        self.ahead = ahead

    def __call__(self):
        Ticking.looks += 1
        seconds = 3600 + self.ahead + Ticking.looks // 1000
        return (
            f"2026-01-05T{12 + seconds // 3600 % 12:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            f".{Ticking.looks % 1000:03}000Z"
        )


def made(home, ahead=0):
    """A plane with a clock that moves, which no test has to close before the next."""
    return memplane.init(home, durability="os", clock=Ticking(ahead), environment={}, trusted=False)


def device_in(plane, folder):
    """The id of the plane's device in a folder."""
    from memplane.shared.folder import own_device

    return own_device(plane.context, folder)


def befriended(planes, folder, *, mine=True):
    """Let each of these planes (by name) write a file, and accept those of all others."""
    for name, plane in planes.items():
        plane.upkeep.sync(folder, name=name)
    ids = {name: device_in(plane, folder) for name, plane in planes.items()}
    for name, plane in planes.items():
        for other, device in ids.items():
            if other != name:
                plane.upkeep.sync(folder, accept=device, mine=mine)
    return ids


def everyone(planes, folder, rounds=3):
    """Let all planes sync until nobody has anything to say."""
    for _ in range(rounds):
        for plane in planes:
            plane.upkeep.sync(folder)


def in_force(plane, spaces=("/global",)):
    """The values in force, by namespace and key."""
    return {
        (ns, key): value.text
        for ns in spaces
        for key in keys_of(plane, ns)
        if (value := plane.get(key, ns)) is not None
    }


def keys_of(plane, ns):
    return sorted({*plane.keys(ns=ns), "a", "b", "c"})


def lines_of(folder, device):
    return (folder / f"{device}.jsonl").read_text().splitlines()


def written(folder, device="0123456789abcdef", *, entries=(), name="theirs", plane="01PLANE"):
    """The file of a device that no plane wrote: entries are events (a dict) or lines of bytes."""
    lines = DeviceLines(device, FilePlace())
    data = lines.header(device, plane, name)
    for at, entry in enumerate(entries):
        data += entry if isinstance(entry, bytes) else lines.event(f"e{at}", event(at, **entry))
    (folder / f"{device}.jsonl").write_bytes(data)
    return device


def event(seq, **fields):
    """The fields of an event as a device writes them."""
    said = {
        "ts": f"2026-01-0{seq % 9 + 1}T12:00:00.000000Z",
        "kind": "fact",
        "data": {"origin": {"plane": "01PLANE", "seq": seq + 1}},
    }
    return {**said, **fields}


class Carried:
    """A folder of each plane, as Syncthing keeps them: files reach the others when they meet."""

    def __init__(self, top, count):
        self.folders = [top / f"folder{at}" for at in range(count)]
        for folder in self.folders:
            folder.mkdir()
        self._versions = [{} for _ in range(count)]

    def wrote(self, at, device):
        """Note that plane `at` may have changed its own file."""
        path = self.folders[at] / f"{device}.jsonl"
        if path.exists():
            data = path.read_bytes()
            number, before = self._versions[at].get(device, (0, b""))
            if data != before:
                self._versions[at][device] = (number + 1, data)

    def meet(self, one, other):
        """Bring the newer version of each file to both."""
        for device in {*self._versions[one], *self._versions[other]}:
            versions = [self._versions[at].get(device, (0, b"")) for at in (one, other)]
            newest = max(versions, key=lambda version: version[0])
            for at in (one, other):
                if self._versions[at].get(device, (0, b""))[0] < newest[0]:
                    self._versions[at][device] = newest
                    (self.folders[at] / f"{device}.jsonl").write_bytes(newest[1])


def files_in(folder):
    """The bytes of the device files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if device_of(path.name)}


def copied_folder(folder, to):
    shutil.copytree(folder, to)
    return to


def parsed(folder, device):
    return [json.loads(line) for line in lines_of(folder, device)]
