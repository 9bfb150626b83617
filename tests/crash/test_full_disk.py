"""A full disk refuses, loses nothing, and is written to again when there is room."""

import random
import shutil

import pytest
from builders_plane_operations import planned
from checks_layers import both, quick_folder, split
from fakes_full_disk import NoMountError, limited, mount_small, on_small_disk
from process_children import forked


@pytest.fixture(scope="module")
def base():
    with quick_folder() as folder:
        planned(folder / "home", random.Random(1))
        yield folder / "home"


def fill_often(use, base, place, count, share):
    """Fill disks, each in a process of its own."""
    seed = 0
    while count.goes_on(share):
        seed += 1
        top = place / "top"
        shutil.rmtree(top, ignore_errors=True)
        top.mkdir()
        answers, code = forked(lambda _, seed=seed, top=top: use(base, top, seed))
        ((kind, said),) = answers or [("died", [f"exit code {code}"])]
        broken = said if kind == "done" else [str(said)]
        count.add([f"{use.__name__} {seed}: {one}" for one in broken])


def may_mount(place):
    """Whether a process here can have a disk of its own; "" or why not."""

    def attempt(_):
        try:
            mount_small(place, 100)
        except NoMountError as error:
            return str(error)
        return ""

    ((_, said),), _ = forked(attempt)
    return said


@pytest.mark.parametrize("use", [limited, on_small_disk])
@both
def test_a_plane_on_a_full_disk_loses_nothing_and_goes_on_with_room(
    base, place, counted, use, shares
):
    if use is on_small_disk and (why := may_mount(place)):
        pytest.skip(f"no tmpfs of one's own here: {why}")
    count = counted("full disk", use.__name__)
    fill_often(use, base, place, count, split(shares["full disk"], 2))
    assert count.violations == []
