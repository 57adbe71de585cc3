"""What a command that refuses must do, for the tests of the command."""


class Refusals:
    """Mixed into a unittest.TestCase."""

    def assert_refused(self, done, status, *words):
        """That status, nothing on standard output, one line on standard error with these words."""
        self.assertEqual((done.returncode, done.stdout), (status, ""), done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("usher: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
