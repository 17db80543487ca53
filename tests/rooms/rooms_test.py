#!/usr/bin/env python3
"""The rooms that one Attend and one Store enter are those that ARCHITECTURE.md draws.

Builds the preset `rooms`, in which every function of the library tells that it is entered, and runs
its probe: one Attend of `auto` over a stored context, called by llama.cpp, and one Store of what
follows a stored context. The way of each goes down. Functions are mapped to rooms, the folders of
src/, by the source file in their debug information. A lambda that a room hands down is its own
code, and no call upwards. No product code takes part.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROBE = ROOT / "build/rooms/bin/rooms_probe"
# A call may go from a room to one further down.
ORDER = ["api", "session", "find", "prices", "attention", "planner", "store", "derived", "index",
         "storage", "kernels", "common"]
# Objects may come from another checkout, by ccache, and name its folder.
SOURCE = re.compile(r"/src/((%s)/[^:]+):" % "|".join(ORDER))


def drawn(call):
    """Pairs of rooms, as ARCHITECTURE.md draws them: `session -> planner attention`."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    block = re.search(rf"<!-- rooms of {call}.*?-->\n```\n(.*?)```", text, re.DOTALL)
    pairs = set()
    for line in block[1].splitlines():
        caller, called = line.split("->")
        pairs |= {(caller.strip(), room) for room in called.split()}
    return pairs


def room_of(location):
    # A batch includes its sources by a path from the build folder.
    match = SOURCE.search(os.path.normpath(location))
    return match[2] if match and (ROOT / "src" / match[1]).exists() else None


def entered():
    """By call: pairs of rooms that it enters, each with a pair of functions that is an example."""
    with tempfile.TemporaryDirectory() as folder:
        trace = subprocess.run([PROBE, f"{folder}/store"], check=True, capture_output=True,
                               text=True).stdout
    pairs = [line.split() for line in trace.splitlines()]
    addresses = sorted({address for pair in pairs for address in pair[1:]})
    lines = subprocess.run(["addr2line", "-f", "-C", "-e", PROBE], input="\n".join(addresses),
                           check=True, capture_output=True, text=True).stdout.splitlines()
    known = {address: (room_of(lines[2 * i + 1]), lines[2 * i])
             for i, address in enumerate(addresses)}
    rooms = {"attend": {}, "store": {}}
    for call, caller, called in pairs:
        (from_room, from_name), (to_room, to_name) = known[caller], known[called]
        is_handed_down = "{lambda" in to_name  # The caller was given it: a room's own code.
        if from_room and to_room and from_room != to_room and not is_handed_down:
            rooms[call].setdefault((from_room, to_room), f"{from_name} -> {to_name}")
    return rooms


class RoomsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run([ROOT / "scripts/build.sh", "rooms", "rooms_probe"], check=True)
        cls.rooms = entered()

    def check(self, call, rooms):
        self.assertEqual(sorted(rooms), sorted(drawn(call)),
                         "\n".join(f"{pair}: {example}" for pair, example in rooms.items()))
        up = {pair: example for pair, example in rooms.items()
              if ORDER.index(pair[0]) > ORDER.index(pair[1])}
        self.assertEqual(up, {})

    def test_the_way_of_an_attend(self):
        self.check("an Attend", self.rooms["attend"])

    def test_the_way_of_a_store(self):
        self.check("a Store", self.rooms["store"])


if __name__ == "__main__":
    unittest.main()
