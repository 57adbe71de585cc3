"""For tests of the command: how it refuses wrong usage, and the parts of a build that some tests need."""

import os
import unittest

_usher = os.path.realpath(os.environ["USHER_BIN"])
needs_charts = unittest.skipUnless(
    os.path.exists(os.path.join(os.path.dirname(os.path.dirname(_usher)), "lib", "libusher-draw.so")),
    "there is no libusher-draw.so: USHER_BUILD_CHARTS=OFF")
needs_simulator = unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(_usher), "usher_bench")),
                                      "there is no usher_bench: USHER_BUILD_SIMULATOR=OFF")
has_stat = os.path.exists(os.path.join(os.path.dirname(_usher), "usher_stat"))


class Refusals:
    """Mixed into a unittest.TestCase."""

    def assert_refused(self, done, status, *words):
        """That status, nothing on standard output, one line on standard error with these words."""
        self.assertEqual((done.returncode, done.stdout), (status, ""), done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("usher: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
