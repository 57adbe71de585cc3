"""The shared parts of the laboratory's scripts: options, the list of cases, the loop over them with its failures, the exit status."""

import argparse
import contextlib
import signal
import sys
import time
from pathlib import Path

import harness
from lab.run.runner import Failed, prepared


def parser(doc, page=None, cases=False):
    """Returns an option parser with the options that scripts about cases share, and --write-doc if the script has a page in the tree."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--build", default="build/release", metavar="DIR")
    if page or cases:
        made.add_argument("--list", action="store_true", help="list the cases, and missing programs")
        made.add_argument("--only", metavar="NAMES", help="comma-separated (all)")
    if page:
        made.add_argument("--write-doc", action="store_true", help="set the results into the page; measures nothing")
        made.add_argument("--doc", type=Path, default=harness.TREE / page, metavar="FILE", help=f"the page ({page})")
    return made


def list_cases(cases, place, hint=""):
    print(harness.table([[case.name, case.shows, place.lacks(case, hint) or ""] for case in cases], ["case", "what it shows", "missing"]))
    return 0


class Report:
    """Collects failures and skipped cases: prints them when they happen, and again at the end."""

    def __init__(self):
        self.failed, self.skipped, self.start = [], [], time.monotonic()

    def elapsed(self):
        return f"{time.monotonic() - self.start:.0f} s"

    def add(self, texts, text):
        texts.append(text)
        print(f"{'FAILED' if texts is self.failed else 'skipped'}: {text}", flush=True)

    @contextlib.contextmanager
    def failures(self, name):
        """A block that may raise Failed, which is then recorded."""
        try:
            yield
        except Failed as error:
            self.add(self.failed, f"{name}: {error}")

    def each_case(self, cases, place, work, prefix, hint=""):
        """Calls `work(case, folder)` for each case whose parts are installed, in a scratch folder with the case's data."""
        for case in cases:
            if why := place.lacks(case, hint):
                self.add(self.skipped, f"{case.name}: {why}")
                continue
            with self.failures(case.name), prepared(place, case, prefix) as folder:
                work(case, folder)

    def end(self):
        """Returns the exit status."""
        for text in self.failed:
            print(f"FAILED: {text}")
        for text in self.skipped:
            print(f"skipped: {text}")
        return 1 if self.failed else 0


def entry(main):
    """Runs the script. An interruption or SIGTERM also ends the programs that the script has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except Failed as error:
        harness.die(str(error), 1)
    except KeyboardInterrupt:
        sys.exit(130)
