#!/usr/bin/env python3
"""Checks the machine code of the ticket family's unlocks: the number of locked operations, and references to the
process's waiting array. According to TWA (extended version), section 6, the unlock of TWA-ID has no atomic
read-modify-write, and the unlock of TWA-Staged does not access the array.

The test examines the whole unlock, with all functions that it calls or jumps to, and with unlikely paths.
"""

import collections
import re
import subprocess
import sys
import unittest

OBJECT = ""
CLOCK = "6clocks4read"  # native_detail::clocks::read(), which calls a function of the kernel (vDSO) by its address
STATE = "usher_process_state_v2"  # contains the waiting arrays, the only part of the process state that an unlock uses

# The number of locked operations in each lock's spinning unlock, on all paths. The second one of twa_sized is in the
# code that counts the CPUs, which runs once.
SPINNING = {
    "ticket": 0, "ticket_xadd": 1, "ticket_backoff": 0, "ticket32": 1,
    "twa": 1, "twa32": 2, "twa_sized": 2, "twa_quantized": 1, "twa_private": 0, "twa_staged": 0, "twa_id": 0,
    "twa_chain": 1, "tkt_dual": 0, "three_stage": 0, "three_stage_try": 0, "partitioned_ticket": 0, "anderson": 0,
    "awn": 1, "qspinlock": 1}
WITH_ARRAY = {"twa", "twa32", "twa_sized", "twa_quantized", "twa_id", "twa_chain"}
QUEUE_NODES = {"awn"}  # the queue nodes of these locks also lie in the process state


def is_locked(text):
    """Returns whether the instruction is locked. An exchange with memory is, even without a lock prefix."""
    return re.match(r"lock\b", text) is not None or re.match(r"xchg\w*\s.*\(", text) is not None


class Code:
    """The functions of an object file: {name: [(instruction, the symbol that it refers to)]}."""

    def __init__(self, path):
        self.functions = collections.defaultdict(list)
        self.starts = collections.defaultdict(list)  # section: [(offset, name)]
        listing = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", "-w", path], capture_output=True, text=True,
                                 timeout=300, check=True).stdout
        section = name = ""
        for line in listing.splitlines():
            if heading := re.match(r"Disassembly of section (.+):$", line):
                section = heading.group(1)
            elif heading := re.match(r"([0-9a-f]+) <(.+)>:$", line):
                name = heading.group(2)
                self.starts[section].append((int(heading.group(1), 16), name))
            elif instruction := re.match(r"\s*[0-9a-f]+:\t(.*)$", line):
                text, *relocations = re.split(r"\t[0-9a-f]+: (?=R_)", instruction.group(1))
                self.functions[name].append((text, [r.split("\t")[-1].strip() for r in relocations]))

    def target(self, reference):
        """Returns the function that contains a relocation's `symbol+addend` or an instruction's <symbol+offset>, if
        this file defines it."""
        symbol, _, addend = re.match(r"([^+-]+(?:-(?!0x)[^+-]*)*)(([+-]0x[0-9a-f]+)?)$", reference).groups()
        if symbol in self.functions:
            return symbol
        # the symbol is a section; an address relative to the next instruction lies 4 bytes further
        if symbol in self.starts:
            at = int(addend or "0", 16) + 4
            return max((start, name) for start, name in self.starts[symbol] if start <= at)[1]
        return None

    def closure(self, name):
        """Returns all instructions that a function can reach in this file, and the names to which they refer."""
        seen, todo, instructions, names = set(), [name], [], set()
        while todo:
            function = todo.pop()
            if function in seen:
                continue
            seen.add(function)
            if CLOCK in function:
                names.add(function)
                continue
            for text, relocations in self.functions[function]:
                instructions.append(text)
                references = list(relocations)
                if local := re.match(r"(?:call|j\w+)\s+[0-9a-f]+ <(.+)>", text):
                    if not relocations:
                        references.append(local.group(1))
                for reference in references:
                    here = self.target(reference)
                    if here is not None:
                        todo.append(here)
                    else:
                        names.add(re.split(r"[+-]0x", reference)[0])
        return instructions, names


class UnlockPaths(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.code = Code(OBJECT)

    def unlock(self, name, form):
        function = f"{name}_{form}"
        self.assertIn(function, self.code.functions)
        instructions, names = self.code.closure(function)
        self.assertTrue(any(text.startswith("ret") for text in instructions), instructions)
        self.assertFalse([text for text in instructions if re.match(r"(call|jmp)\s+\*", text)], "a call to anywhere")
        return [text for text in instructions if is_locked(text)], names

    def test_locked_operations_of_spinning_unlocks(self):
        for name, expected in SPINNING.items():
            with self.subTest(name):
                locked, _ = self.unlock(name, "spin")
                self.assertEqual(len(locked), expected, locked)

    def test_twa_id_has_no_read_modify_write_where_it_spins(self):
        locked, names = self.unlock("twa_id", "spin")
        self.assertEqual(locked, [])
        self.assertLessEqual(names, {STATE}, "calls nothing")
        # If waiters may park, the hand-over is an exchange. The old value shows whether a waiter sleeps on the word.
        self.assertGreaterEqual(len(self.unlock("twa_id", "park")[0]), 1)

    def test_twa_staged_leaves_the_array_alone(self):
        for form in ("spin", "park"):
            with self.subTest(form):
                self.assertNotIn(STATE, self.unlock("twa_staged", form)[1])
        self.assertEqual(self.unlock("twa_staged", "spin")[1], set(), "refers to nothing at all")

    def test_who_else_touches_the_array(self):
        for name in SPINNING:
            for form in ("spin", "park"):
                with self.subTest(name=name, form=form):
                    if name in WITH_ARRAY:
                        self.assertIn(STATE, self.unlock(name, form)[1])
                    elif name not in QUEUE_NODES:
                        self.assertNotIn(STATE, self.unlock(name, form)[1])

    def test_every_parking_hand_over_is_a_read_modify_write(self):
        for name in SPINNING:
            with self.subTest(name):
                self.assertGreaterEqual(len(self.unlock(name, "park")[0]), 1)


if __name__ == "__main__":
    OBJECT = sys.argv.pop()
    unittest.main()
