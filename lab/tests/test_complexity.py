#!/usr/bin/env python3
"""lab/costs/complexity.py on code whose figures are known: the rules one by one, the listings of the TWA paper with the
figures of its Table 1, and our locks as clang instantiates them. pmccabe must agree, if it is installed."""

import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from lab.costs import complexity  # noqa: E402

# Statements with their N-Path and cyclomatic complexity, by the definitions of these measures.
STATEMENTS = [
    ("", 1, 1),
    ("g();", 1, 1),
    ("if (a) g();", 2, 2),
    ("if (a) g(); else h();", 2, 2),
    ("if (a && b) g();", 3, 3),
    ("if (a || (b && a)) g(); else h();", 4, 4),
    ("if (a) { if (b) g(); }", 3, 3),
    ("if (a) { if (b) g(); else h(); } else { if (b) g(); else h(); }", 4, 4),
    ("if (a) g(); if (b) h();", 4, 3),
    ("while (a) g();", 2, 2),
    ("while (a && b) g();", 3, 3),
    ("do g(); while (a);", 2, 2),
    ("for (int i = 0; i < a; i++) g();", 3, 2),
    ("for (;;) g();", 3, 1),
    ("for (;;) { if (a) break; }", 4, 2),
    ("if (a ? b : a) g();", 4, 3),
    ("switch (a) { case 1: g(); break; case 2: if (b) h(); break; default: break; }", 4, 4),
    ("g(); return; if (a) h();", 1, 1),  # unreachable
    ("a = b && a;", 1, 2),
    ("a = b && a && b;", 2, 3),
    ("if constexpr (sizeof(int) == 4) { if (a) g(); } else { while (a) while (b) g(); }", 2, 2),
    # helpers
    ("helper();", 2, 2),
    ("helper(); helper();", 4, 3),
    ("if (helper()) g();", 4, 3),
    ("while (helper()) g();", 3, 3),
    ("while (expression()) g();", 3, 3),
    ("const auto f = [] { if (a) g(); };", 1, 1),
    ("const auto f = [] { if (a) g(); }; f();", 2, 2),
]

HELPERS = """
namespace example {
extern int a, b;
void g(); void h();
inline bool helper() { if (a) g(); return b; }
inline bool expression() { return a && b; }
"""

# TWA (extended version), Listing 1.
LISTING = """
namespace example {
int FetchAdd(int&, int); void Pause(); unsigned Hash(void*, int);
unsigned long WaitArray[4096]; constexpr int LongTermThreshold = 1;
struct lock_words { int Ticket, Grant; };
void TicketAcquire(lock_words* L) {
  auto tx = FetchAdd(L->Ticket, 1);
  while (tx != L->Grant) Pause();
}
void TicketRelease(lock_words* L) { L->Grant += 1; }
void TWAAcquire(lock_words* L) {
  auto tx = FetchAdd(L->Ticket, 1);
  auto dx = tx - L->Grant;
  if (dx == 0) return;
  if (dx > LongTermThreshold) {
    auto at = Hash(L, tx);
    for (;;) {
      auto u = WaitArray[at];
      dx = tx - L->Grant;
      if (dx <= LongTermThreshold) break;
      while (WaitArray[at] == u) Pause();
    }
  }
  while (L->Grant != tx) Pause();
}
void TWARelease(lock_words* L) {
  auto k = ++L->Grant;
  __atomic_fetch_add(&WaitArray[Hash(L, k + LongTermThreshold)], 1, 0);
}
}
"""
TABLE_1 = {"TicketAcquire": (2, 2), "TicketRelease": (1, 1), "TWAAcquire": (28, 6), "TWARelease": (1, 1)}


class Complexity(unittest.TestCase):
    def measured(self, source, names):
        """Returns {name: (N-Path, cyclomatic)}, with which pmccabe has agreed."""
        tree = complexity.Tree(source, "example::")
        found, texts = {}, {}
        for name in names:
            paths, cyclomatic, texts[name] = complexity.count(tree, tree.by_name[name])
            found[name] = paths, cyclomatic
        by_tool = complexity.pmccabe(texts)
        if by_tool is not None:
            self.assertEqual(by_tool, {name: figures[1] for name, figures in found.items()})
        return found

    def test_rules(self):
        functions = {f"f{i}": statement for i, (statement, _, _) in enumerate(STATEMENTS)}
        source = HELPERS + "".join(f"template <class> void {name}_of() {{ {statement} }}\n"
                                   f"void {name}() {{ {name}_of<int>(); }}\n" for name, statement in functions.items())
        found = self.measured(source + "}", functions)
        for i, (statement, paths, cyclomatic) in enumerate(STATEMENTS):
            with self.subTest(statement):
                self.assertEqual(found[f"f{i}"], (paths, cyclomatic))

    def test_listings_have_the_papers_figures(self):
        self.assertEqual(self.measured(LISTING, TABLE_1), TABLE_1)

    def test_locks(self):
        spin, parking = complexity.measure(["ticket", "twa"], "spin"), complexity.measure(["ticket", "twa"], "stp")
        # Usher's ticket lock tests the word once more than the paper's listing, before it calls the slow path.
        self.assertEqual((spin["ticket", "lock"]["folded npath"], spin["ticket", "lock"]["folded cyclomatic"]), (3, 3))
        self.assertEqual((spin["ticket", "unlock"]["npath"], spin["ticket", "unlock"]["cyclomatic"]), (1, 1))
        for key, figures in spin.items():
            self.assertLessEqual(figures["folded npath"], figures["npath"])
            self.assertLess(figures["npath"], parking[key]["npath"])
            self.assertEqual(figures.get("pmccabe", figures["cyclomatic"]), figures["cyclomatic"])


if __name__ == "__main__":
    if not shutil.which(complexity.CLANG):
        print(f"{complexity.CLANG} is not installed: skipped")
        sys.exit(77)
    unittest.main()
