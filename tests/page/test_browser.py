#!/usr/bin/env python3
"""The page of `usher report` in Debian's chromium: it is sorted, filtered and opened by keys, makes no request, and shows
hostile names as text. USHER_SCREENSHOTS=FOLDER keeps pictures at 1280 and 400 pixels, light and dark.

The page is served from this machine, so that the server sees each request.
"""

import collections
import contextlib
import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

from trees import HOSTILE, LIMIT, Tree, durations, frame, hostile_report, stack, stat_report, stat_row, top_report

SKIPPED = 77
SYSTEM_PYTHON = "/usr/bin/python3"  # for which Debian's selenium is
try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import Select, WebDriverWait
except ImportError:
    if sys.executable != SYSTEM_PYTHON and os.access(SYSTEM_PYTHON, os.X_OK):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
    print("skipped: no selenium (tools/deps.sh browser)")
    sys.exit(SKIPPED)

PAGE = pathlib.Path(os.environ["USHER_PAGE"])
PICTURES = os.environ.get("USHER_SCREENSHOTS")


def trial():
    """As `usher try --json` writes."""
    runs = [{"round": i + 1, "metric": None, "seconds": 1.0, "user_s": 1, "system_s": 0, "voluntary_switches": 5, "involuntary_switches": 2, "peak_kib": 100} for i in range(6)]
    def one(name, verdict, better, interval, seconds):
        return {"name": name, "lock": name, "verdict": verdict, "speed_up": better, "difference": None, "interval": interval, "rounds": 6, "dropped": None, "calls": None,
                "troubles": [], "failed_runs": 0, "output_differs_at_line": 0, "cut_bytes": 0, "runs": [r | {"seconds": seconds + i / 100} for i, r in enumerate(runs)]}
    return {"format": 2, "usher": "0.3.0", "commit": "0", "date": "2026-01-01T00:00:00Z", "machine": {"cpu": "a CPU", "cpus": 2, "kernel": "6", "libc": "glibc"}, "command": ["bench"],
            "metric": None, "better": "lower", "before": None, "until": None, "ready": None, "budget_s": 60, "warmup": 1, "rounds": 6, "confirming_rounds": 3, "run_seconds": 1, "seconds": 20,
            "others_cpu_share": 0.1, "interrupted": False, "comparison": "ratio", "left_out": [], "order": [], "winner": "steady",
            "conclusion": {"kind": "worth-it", "text": "steady is faster", "command": "usher run --lock steady -- bench"},
            "candidates": [one("pthread", "reference", 1, None, 1.2), one("steady", "better", 1.2, [1.1, 1.3], 1.0), one("mcs", "worse", 0.9, [0.8, None], 1.3)]}


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder on this machine, and keeps what was asked for."""
    daemon_threads = True

    def __init__(self, folder):
        self.asked = []
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                super().do_GET()

            def end_headers(self):
                self.send_header("Cache-Control", "no-store")
                super().end_headers()

            def log_message(self, *_):
                pass
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"


class Browser(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory(prefix="usher-page-")
        cls.tree = Tree(cls.kept.name, PAGE.read_text(encoding="utf-8"))
        cls.server = Server(cls.kept.name)
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1280,1000", "--lang=en",
                     f"--user-data-dir={cls.kept.name}/profile"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        cls.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        cls.driver.set_page_load_timeout(LIMIT)

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()
        cls.server.shutdown()
        cls.server.server_close()
        cls.kept.cleanup()

    def open(self, *reports, width=1280, dark=False):
        """Opens a page of the reports, which are objects or files."""
        files = [r if isinstance(r, pathlib.Path) else self.tree.write(f"{i}.json", r) for i, r in enumerate(reports)]
        done = self.tree.report(*files, "-o", "page.html")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLessEqual((self.tree.folder / "page.html").stat().st_size, 1_500_000)
        self.size(width)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.server.asked.clear()
        self.driver.get(self.server.url + "page.html")
        self.until(lambda: self.all("h1, .alarm"))

    def size(self, width, height=1000):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def until(self, holds):
        WebDriverWait(self.driver, LIMIT, poll_frequency=0.05).until(lambda _: holds())

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        """As the document has them, also those that are cut for the eye."""
        return self.driver.execute_script("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def press(self, *keys):
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def focus(self, element):
        self.driver.execute_script("arguments[0].focus()", element)

    def picture(self, name, width):
        if PICTURES:
            self.size(width, min(3000, self.driver.execute_script("return document.documentElement.scrollHeight")))
            self.driver.save_screenshot(str(pathlib.Path(PICTURES) / f"{name}.png"))
            self.size(width)

    def assert_quiet(self):
        """The page has asked for itself and nothing else, and the browser has nothing to say."""
        asked = collections.Counter(self.server.asked)
        self.assertEqual(asked, {"/page.html": 1})
        sent = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        self.assertEqual({m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"}, {self.server.url + "page.html"})
        self.assertEqual(self.driver.get_log("browser"), [])

    def three_locks(self):
        each = [stat_row(f"lock_{i}[{j}]", 0.1, address="0x10", pid=7) for j in range(3) for i in range(1)]
        return stat_report([stat_row("alpha", 1.0, rule="long-hold", windows=[0, 1.0]), stat_row("beta", 3.0, kind="rwlock", held_share=None, windows=[2.0, 1.0]),
                            stat_row("gamma", 2.0, acquisitions=7, each=each)], windows={"ends": [5.0, 10.0], "thread_seconds": [1, 1]})

    def test_sorting(self):
        self.open(self.three_locks())
        names = lambda: self.texts("tr[data-row] td.label bdi")
        self.assertEqual(names(), ["beta", "gamma", "alpha"])
        headings = {e.text.strip(" ↑↓\n"): e for e in self.all("th button")}
        self.focus(headings["waited"])
        self.press(Keys.ENTER)
        self.assertEqual(names(), ["alpha", "gamma", "beta"])
        self.assertEqual(self.all("th[aria-sort=ascending]")[0].text.strip(" ↑↓\n"), "waited")
        self.assertEqual(self.texts(".timeline .name title"), ["beta", "alpha"])
        self.assertEqual(len(self.all(".timeline .heat")), 3)
        headings["lock"].click()
        self.assertEqual(names(), ["alpha", "beta", "gamma"])
        headings["held"].click()
        self.assertEqual(names()[2], "beta")  # not known: last, in both directions
        headings["held"].click()
        self.assertEqual(names()[2], "beta")
        self.assert_quiet()

    def test_filtering(self):
        self.open(self.three_locks())
        names = lambda: self.texts("tr[data-row] td.label bdi")
        self.driver.find_element(By.TAG_NAME, "body").send_keys("/")
        self.press("gam")
        self.until(lambda: names() == ["gamma"])
        self.assertEqual(self.texts(".found"), ["1 of 3"])
        self.press(Keys.ESCAPE)
        self.until(lambda: len(names()) == 3)
        self.press("held too")  # a rule's words
        self.until(lambda: names() == ["alpha"])
        self.press(Keys.ESCAPE, "nothing like it")
        self.until(lambda: not names())
        self.press(Keys.ESCAPE)
        Select(self.all("select[aria-label=Kind]")[0]).select_by_visible_text("rwlock")
        self.until(lambda: names() == ["beta"])
        self.assert_quiet()

    def test_a_flame_graph_by_keys(self):
        row = stat_row("lock", 4.0, holders=[stack("leaf_a", "middle", "main", waited=3.0), stack("leaf_b", "middle", "main", waited=1.0)])
        self.open(stat_report([row]))
        self.focus(self.all("button.open")[0])
        self.press(Keys.ENTER)
        self.until(lambda: self.all(".flame.holds button"))
        at = lambda: self.driver.switch_to.active_element.get_attribute("aria-label")
        self.focus(self.all(".flame.holds .boxes button[tabindex='0']")[0])
        seen = [at()]
        for key in (Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_UP):
            self.press(key)
            seen.append(at())
        self.assertEqual([s.split(":")[0] for s in seen], ["all", "main", "middle", "leaf_a", "leaf_b", "middle"])
        self.assertIn("75", seen[3])
        self.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ENTER)  # leaf_b is enlarged
        self.until(lambda: len(self.all(".flame.holds .boxes button")) == 4)
        self.press(Keys.ESCAPE)
        self.until(lambda: len(self.all(".flame.holds .boxes button")) == 5)
        self.assertTrue(self.all("tr.detail"))  # the first Escape was the flame graph's
        self.press(Keys.ESCAPE)
        self.until(lambda: not self.all("tr.detail"))
        self.assert_quiet()

    def test_hostile_names_stay_text(self):
        self.open(hostile_report(), self.tree.write("<img src=x>.json", top_report(HOSTILE[3])), trial())
        for button in self.all("tr[data-row] button.open"):
            self.driver.execute_script("arguments[0].click()", button)
            self.until(lambda: self.all("tr.detail .flame"))
            self.driver.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
        shown = self.driver.execute_script("return document.getElementById('page').textContent")
        self.assertIn("<img src=x onerror=", shown)
        self.assertIn("</script><script>", shown)
        self.assertNotRegex(shown, "[\u202a-\u202e\u2066-\u2069\u200b-\u200f\u061c\u2028\u2029\ufeff\x00-\x08\x0b-\x1f\x7f-\x9f]")
        self.assertIn("\\u202e", shown)
        self.assertNotIn("taken", self.driver.title)
        self.assertEqual(self.all("#page img, #page script, #page iframe, #page a, #page link, #page svg[onload], #page object"), [])
        self.assertEqual(len(self.all("script")), 2)
        wide = self.driver.execute_script("return [...document.querySelectorAll('#page *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.boxes,svg')).map(e => e.outerHTML.slice(0, 150))")
        self.assertEqual(wide, [])
        self.assertLessEqual(self.driver.execute_script("return document.documentElement.scrollWidth"), 1280)
        for tab in self.all("[role=tab]"):
            tab.click()
            self.until(lambda: self.all("h1"))
        self.picture("hostile", 1280)
        self.assert_quiet()

    def test_the_policy_stops_what_a_mistake_would_let_through(self):
        self.open(stat_report([]))
        stopped = self.driver.execute_async_script("""
            const done = arguments[0], seen = [];
            document.addEventListener("securitypolicyviolation", e => seen.push(e.effectiveDirective));
            document.body.append(Object.assign(document.createElement("img"), {src: "/leak-image"}));
            const style = document.createElement("style");
            style.textContent = "body { background: url(/leak-style) }";
            document.head.append(style);
            try { document.body.innerHTML = "<b>x</b>"; } catch (e) { seen.push("innerHTML"); }
            fetch("/leak-fetch").catch(() => { seen.push("fetch"); setTimeout(() => done(seen), 200); });""")
        for what in ("img-src", "style-src-elem", "innerHTML", "fetch"):
            self.assertIn(what, stopped)
        self.assertEqual(self.server.asked, ["/page.html"])

    def test_wrong_types_do_not_break_the_page(self):
        values = (None, True, -1, 1e308, "text", [], {}, [None, [[]], {"a": {}}], {"frames": 7, "constructor": 1})
        for value in values:
            broken = {key: value for key in stat_report([])} | {"version": 1, "rows": [value, stat_row("kept", 1), {key: value for key in stat_row("x", 1)}], "deadlocks": [value, {"threads": [value]}]}
            with self.subTest(value=value):
                self.open(broken, trial() | {"candidates": [value, {key: value for key in trial()["candidates"][0]}]}, top_report() | {"waits": [value], "threads": [value], "chains": [value, {"links": [value]}]})
                for i, tab in enumerate(self.all("[role=tab]")):
                    tab.click()
                    for button in self.all("button.open"):
                        self.driver.execute_script("arguments[0].click()", button)
                    self.assertEqual(self.texts(".alarm:not([aria-label])"), [], i)
                self.assert_quiet()

    def test_widths_and_colours(self):
        reports = (self.three_locks() | {"deadlocks": [{"seconds": 3.0, "threads": [{"tid": 7 + i, "waits_for": f"lock {i}", "address": "0x10", "stack": {"frames": [frame("lock_both")], "cut": False}} for i in range(3)]}]},
                   trial(), top_report())
        for width in (1280, 400):
            for dark in (False, True):
                self.open(*reports, width=width, dark=dark)
                for i, tab in enumerate(self.all("[role=tab]")):
                    tab.click()
                    self.until(lambda: self.all("[aria-selected=true]")[0].get_attribute("id") == f"tab-{i}")
                    self.driver.execute_script("document.querySelector('button.open')?.click()")
                    self.until(lambda: self.all("tr.detail"))
                    self.assertLessEqual(self.driver.execute_script("return document.documentElement.scrollWidth"), width)
                    ground = self.driver.execute_script("return getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)")
                    self.assertEqual(max(ground) < 128, dark)
                    self.picture(f"view{i}-{width}-{'dark' if dark else 'light'}", width)
        theme = self.all(".theme")[0]
        theme.click()  # light, whatever the system has
        self.until(lambda: "light" in theme.text)
        self.assertGreater(self.driver.execute_script("return Number(getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/)[0])"), 200)
        self.assert_quiet()

    def test_recordings_of_this_build(self):
        """What usher stat writes today, of contention and of a deadlock."""
        files, bin_ = [], self.tree.folder / "bin"
        env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_")} | {"USHER_LIBRARY": os.environ["USHER_LIB"]}
        for scenario, options in (("kinds", ()), ("opposite-order", ("--duration", "2"))):
            files.append(self.tree.folder / f"{scenario}.json")
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run([bin_ / "usher", "stat", *options, "--json", files[-1], "--", os.environ["USHER_PROGRAM"], scenario], env=env, check=False,
                               timeout=LIMIT, capture_output=True, stdin=subprocess.DEVNULL)
        self.open(*files)
        self.assertIn("recursive_mutex", " ".join(self.texts("td.label")))
        mutex = next(b for b in self.all("button.open") if "recursive_mutex" in b.text)
        self.driver.execute_script("arguments[0].click()", mutex)
        self.until(lambda: self.all(".flame.waits .boxes button"))
        self.assertTrue(self.all(".histogram.waits rect.bar"))
        self.assertTrue(self.all(".histogram.holds rect.bar"))
        self.assertTrue(any("meet" in t for t in self.texts(".flame.waits .boxes button")), self.texts(".flame.waits .boxes button"))
        self.all("[role=tab]")[1].click()
        self.until(lambda: self.all(".picture"))
        self.assertEqual(sorted(self.texts(".picture .lock text")), ["planted::left", "planted::right"])
        self.assertEqual(len(self.all(".picture g.waits > path")), 2)
        self.assertEqual(self.driver.execute_script("return document.querySelectorAll('.verdict.alarm').length"), 1)
        self.assert_quiet()


if __name__ == "__main__":
    for what, missing in (("chromium (tools/deps.sh browser)", not shutil.which("chromium")), ("chromedriver (tools/deps.sh browser)", not shutil.which("chromedriver")),
                          ("page in build/page (make page)", not PAGE.exists())):
        if missing:
            print(f"skipped: no {what}")
            sys.exit(SKIPPED)
    unittest.main(verbosity=2)
