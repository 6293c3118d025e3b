"""Goal: the page of a run in progress opens at once, stays correct and usable: with 84,000 ops and 10,000
nodes, with hostile names, by keyboard, in light and dark, while the connection comes and goes, and while
newer reports arrive. Its content security policy refuses nothing of it. Method: headless Chromium, driven by
browser.py, and a server in this process that sends what each test wants it to, as often as it wants. Skipped
where there is no Chromium.

usage: live_page_test.py EMPLACE SOURCE_DIR      EMPLACE_REPORT_SHOTS=DIR keeps pictures of the page
"""

import contextlib
import glob
import gzip
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

from browser import PROGRAM as BROWSER
from browser import Browser
from report_page_test import PROGRAM as EMPLACE
from report_page_test import SOURCE, emplace, unrolled_graph

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
DYGRAPHS = "/usr/share/javascript/dygraphs/dygraph.min.js"
DEADLINE_S = 60
FIRST_PAINT_MS = 1_000
HOSTILE = (
    "<script>document.title='got'</script><img src=x onerror=\"document.title='got'\">\"'&amp;\u2028\u202etxt"
)


def node(number, name=None, error=""):
    head = number == 0
    names = (
        ["dispatcher", "learner", "recorder", "sampler/0", "tracker/0", "node"]
        if head
        else ["executor/0", "node"]
    )
    actors = [
        {"name": one, "queue": (number + i) % 3, "restarts": 0, "last_error": ""}
        for i, one in enumerate(names)
    ]
    actors[0]["last_error"] = error
    roles = ["dispatcher", "learner", "recorder", "sampler", "tracker"] if head else ["executor"]
    return {
        "node": name or ("head" if head else f"exec-{number:05d}"),
        "host": f"host-{number % 40:02d}",
        "pid": 4_000 + number,
        "uptime_s": 90,
        "heartbeat_age_s": 0.4,
        "roles": roles,
        "queue": sum(one["queue"] for one in actors),
        "restarts": 0,
        "last_error": error and "executor/0: " + error,
        "executors": 0 if head else 1,
        "in_flight": 0 if head else 1,
        "credits": 0 if head else 2,
        "measurements": 7 * number,
        "evaluations_per_s": 0 if head else 1 + number % 7,
        "utilisation": 0 if head else 0.5,
        "actors": actors,
        "actors_total": len(actors),
    }


def status(nodes, **changes):
    executors = sum(one["executors"] for one in nodes)
    return {
        "run_dir": "/somewhere/runs/night",
        "start": "scratch",
        "graph": "transformer",
        "method": "ppo",
        "elapsed_s": 75.0,
        "episodes": 300,
        "measurements": 1_200,
        "updates": 150,
        "evaluations_per_s": 16.0,
        "staleness": 1.4,
        "in_flight": executors,
        "executors": executors,
        "executors_wanted": executors + 2,
        "best_step_time_s": 0.3,
        "lost": 1,
        "duplicated": 0,
        "refused_results": 2,
        "ending": "",
        "quarantined": 0,
        "disk_waits_s": 0,
        "phase": "running",
        "why_idle": None,
        "leases": {"issued": 400, "counted": 380, "open": 12, "expired": 1, "refused": 7},
        "budget_s": 300,
        "bound_s": 0.25,
        "heuristic": {"method": "hlf", "step_time_s": 0.4},
        "starts": ["scratch", "best-heuristic"],
        "restarts": {"executors": 2},
        "events": [{"at_s": 12.0, "text": "executors was ended by signal 9; it is started again"}],
        "nodes": nodes[:40],
        "nodes_total": len(nodes),
        "nodes_age_s": 0.2,
        "report_failure": None,
        **changes,
    }


def fragment_of(page):
    """What /report.json has, from a saved report."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    data = text.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    chooser = text.split("</h1>")[1].split("</header>")[0]
    return {
        "run": "night",
        "written": "2026-01-31T12:34:56Z",
        "in_progress": True,
        "main": chooser + text.split("<main>")[1].split("</main>")[0],
        "data": json.loads(data),
    }


class Port:
    """The status port of a run that exists only here."""

    def __init__(self, nodes, interval_s=0.05, **changes):
        self.nodes, self.changes, self.interval_s = nodes, changes, interval_s
        self.report, self.version, self.failing = None, 0, False
        self.seen, self.sent = [], 0
        self.changed = threading.Condition()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.set(failing=True)
        self.server.shutdown()
        self.server.server_close()

    def set(self, **fields):
        with self.changed:
            self.__dict__.update(fields)
            self.changed.notify_all()

    def publish(self, report):
        self.set(report=json.dumps(report).encode(), version=self.version + 1)

    def await_true(self, test):
        with self.changed:
            if not self.changed.wait_for(test, DEADLINE_S):
                raise AssertionError("the page did not ask")

    def asked(self, path):
        return [at for at, one in list(self.seen) if one.startswith(path)]

    def _page(self, query):
        found = [one for one in self.nodes if query.get("find", "") in one["node"] + one["host"]]
        keys = {"name": "node", "busy": "utilisation", "rate": "evaluations_per_s", "seen": "heartbeat_age_s"}
        order = query.get("sort", "name")
        key = order.lstrip("-")
        found.sort(key=lambda one: one[keys.get(key, key)], reverse=order.startswith("-"))
        offset = int(query["offset"])
        return {
            "nodes": found[offset : offset + int(query["limit"])],
            "offset": offset,
            "found": len(found),
            "nodes_total": len(self.nodes),
            "nodes_age_s": 0.1,
        }

    def _handler(self):
        port, folder = self, os.path.join(SOURCE, "record", "report")

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, code, kind, body):
                body = gzip.compress(body, 1)
                self.send_response(code)
                for name, value in (
                    ("Content-Type", kind),
                    ("Content-Encoding", "gzip"),
                    ("Content-Length", str(len(body))),
                    ("Content-Security-Policy", POLICY),
                    ("X-Content-Type-Options", "nosniff"),
                    ("Cache-Control", "no-store"),
                ):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def asset(self, name, kind):
                paths = [DYGRAPHS if name == "dygraphs.js" else os.path.join(folder, name)]
                if name == "page.js":  # As record/CMakeLists.txt joins it.
                    charts = sorted(glob.glob(os.path.join(folder, "charts", "*.js")))
                    paths = [os.path.join(folder, "step.js"), *charts, *paths]
                body = b""
                for path in paths:
                    with open(path, "rb") as file:
                        body += file.read().split(b"//# sourceMappingURL=")[0]
                self.answer(200, kind + "; charset=utf-8", body)

            def stream(self):
                self.close_connection = True
                self.send_response(200)
                for name, value in (
                    ("Content-Type", "text/event-stream"),
                    ("Content-Security-Policy", POLICY),
                ):
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(b"retry: 100\n\n")
                    while not port.failing:
                        text = json.dumps(status(port.nodes, **port.changes))
                        self.wfile.write(f"event: status\ndata: {text}\n\n".encode())
                        if port.report:
                            self.wfile.write(
                                b'event: report\ndata: {"version": %d, "bytes": 9}\n\n' % port.version
                            )
                        self.wfile.flush()
                        with port.changed:
                            port.sent += 1
                            port.changed.notify_all()
                            port.changed.wait(port.interval_s)

            def do_GET(self):  # The name is that of http.server.
                parts = urllib.parse.urlsplit(self.path)
                with port.changed:
                    port.seen.append((time.monotonic(), self.path))
                    port.changed.notify_all()
                if port.failing and parts.path != "/":
                    self.answer(503, "text/plain", b"the launcher ends\n")
                elif parts.path == "/":
                    self.asset("live.html", "text/html")
                elif parts.path.startswith("/assets/"):
                    name = parts.path.removeprefix("/assets/")
                    self.asset(name, "text/css" if name.endswith("css") else "text/javascript")
                elif parts.path == "/events":
                    self.stream()
                elif parts.path == "/nodes.json":
                    body = port._page(dict(urllib.parse.parse_qsl(parts.query)))
                    self.answer(200, "application/json", json.dumps(body).encode())
                elif parts.path == "/report.json" and port.report:
                    self.answer(200, "application/json", port.report)
                elif parts.path == "/report.json":
                    self.answer(503, "text/plain", b"the run has no report yet\n")
                else:
                    self.answer(404, "text/plain", b"there is no such page\n")

        return Handler


class LivePage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        directory = os.path.join(cls.folder.name, "small")
        graph = os.path.join(SOURCE, "tests", "fixtures", "graphs", "cifar10_cnn-bs128.json")
        emplace(
            "run",
            os.path.join(SOURCE, "configs", "quickstart.toml"),
            "--run-dir",
            directory,
            "--set",
            "input.graph=" + graph,
            "--episodes",
            "30",
            "--set",
            "policy.groups=8",
            "--set",
            "policy.hierarchical.hidden=8",
        )
        cls.small = fragment_of(os.path.join(directory, "report.html"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @contextlib.contextmanager
    def page(self, nodes, report=None, clean=True, interval_s=0.05, changes=None, **browser):
        port = Port(nodes, interval_s, **(changes or {}))
        if report:
            port.publish(report)
        try:
            with Browser(**browser) as page:
                page.open(port.url)
                page.wait("document.documentElement.dataset.ready === 'true'")
                yield page, port
                if clean:
                    self.assertEqual(page.messages, [], "nothing on the console, nothing refused")
                    self.assertIsNone(page.evaluate("document.documentElement.dataset.error ?? null"))
                foreign = [url for url in page.traffic if not url.startswith((port.url, "data:"))]
                self.assertEqual(foreign, [], "nothing from elsewhere")
        finally:
            port.close()

    def drawn(self, page, charts=4):
        page.wait(f"document.querySelectorAll('#report [data-drawn=\"true\"]').length >= {charts}")

    def test_84000_ops_and_10000_nodes(self):
        graph, directory = os.path.join(self.folder.name, "graph.json.gz"), os.path.join(
            self.folder.name, "large"
        )
        unrolled_graph(graph, 84_000)
        emplace(
            "run",
            os.path.join(SOURCE, "configs", "quickstart.toml"),
            "--run-dir",
            directory,
            "--set",
            "input.graph=" + graph,
            "--episodes",
            "2",
            "--set",
            'run.starts=["scratch"]',
            "--set",
            'compare.methods=["single-gpu", "round-robin"]',
            "--set",
            "input.devices=" + os.path.join(SOURCE, "configs", "devices", "h200-2gpu.toml"),
        )
        report = fragment_of(os.path.join(directory, "report.html"))
        with self.page([node(i) for i in range(10_000)], report) as (page, port):
            self.drawn(page)
            paints = page.evaluate(
                "Object.fromEntries(performance.getEntriesByType('paint').map(p => [p.name, p.startTime]))"
            )
            print(f"first paint after {paints['first-paint']:.0f} ms", file=sys.stderr)
            self.assertLess(paints["first-contentful-paint"], FIRST_PAINT_MS)
            page.wait("document.querySelector('#nodes .tools').innerText.includes('40 of 10,000')")
            page.click("#nodes .tools button:last-child")
            page.wait("document.querySelector('#nodes .tools').innerText.includes('1 to 40 of 10,000')")
            page.click("#nodes .tools button:last-child")
            page.wait("document.querySelector('#nodes .tools').innerText.includes('41 to 80 of 10,000')")
            self.assertIn("exec-00079", page.text("#nodes"))
            # While a large report is drawn again, the page still answers.
            page.evaluate(
                "window.pause = 0, window.lastFrame = performance.now(), (function frame(t) {"
                "pause = Math.max(pause, t - lastFrame), lastFrame = t, requestAnimationFrame(frame);"
                "})(performance.now())"
            )
            report["main"] = report["main"].replace("<h3>Methods</h3>", "<h3>Methods, newer</h3>")
            port.publish(report)
            page.wait("document.querySelector('#report').innerText.includes('Methods, newer')")
            page.wait("document.getElementById('report').dataset.version === '2'")
            print(f"longest pause {page.evaluate('pause'):.0f} ms", file=sys.stderr)
            self.assertLess(page.evaluate("pause"), 1_500)
            page.wait("document.getElementById('connection').dataset.state === 'live'")

    def test_the_first_page_of_nodes_needs_no_request(self):
        with self.page([node(i) for i in range(200)]) as (page, port):
            sent = port.sent
            port.await_true(lambda: port.sent > sent + 30)
            self.assertEqual(port.asked("/nodes.json"), [])
            self.assertEqual(port.asked("/report.json"), [], "the report is fetched when the run has one")
            page.evaluate("document.querySelector('#nodes input').focus()")
            for letter in "exec-0019":
                page.key(letter)
            page.wait("document.querySelector('#nodes .tools').innerText.includes('1 to 10 of 10')")
            port.await_true(lambda: len(port.asked("/nodes.json")) >= 4)
            times = port.asked("/nodes.json")
            for earlier, later in zip(times[1:], times[2:]):
                self.assertGreater(later - earlier, 0.9, "once a second at most")
            page.evaluate("document.querySelector('#nodes input').value = ''")
            page.evaluate("document.querySelector('#nodes input').dispatchEvent(new Event('input'))")
            page.wait("document.querySelector('#nodes .tools').innerText.includes('40 of 200')")
            asked, sent = len(port.asked("/nodes.json")), port.sent
            port.await_true(lambda: port.sent > sent + 30)
            self.assertEqual(len(port.asked("/nodes.json")), asked, "back on the first page it asks no more")

    def test_order_and_details_of_nodes_by_keyboard(self):
        nodes = [node(i) for i in range(90)]
        nodes[70]["last_error"] = nodes[70]["actors"][0]["last_error"] = "out of memory"
        nodes.sort(key=lambda one: one["last_error"] == "")
        with self.page(nodes, self.small) as (page, port):
            self.drawn(page)
            page.key("Tab")
            self.assertEqual(page.evaluate("document.activeElement.textContent"), "Skip to the report")
            page.key("Enter")
            page.wait("location.hash === '#report'")
            page.evaluate("document.querySelector('#nodes input').focus()")
            reached = []
            for _ in range(16):
                page.key("Tab")
                reached.append(page.evaluate("document.activeElement.textContent"))
            for control in ("← Previous", "All by name →", "Node", "Busy", "exec-00070"):
                self.assertIn(control, reached)
            page.evaluate("[...document.querySelectorAll('#nodes tbody button')][0].focus()")
            self.assertEqual(page.evaluate("document.activeElement.getAttribute('aria-expanded')"), "false")
            page.key("Enter")
            page.wait("document.activeElement.getAttribute('aria-expanded') === 'true'")
            self.assertIn("out of memory", page.text("#nodes .more"))
            sent = port.sent
            port.await_true(lambda: port.sent > sent + 5)
            self.assertEqual(
                page.evaluate("document.activeElement.textContent"), "exec-00070", "an update takes no focus"
            )
            page.evaluate(
                "[...document.querySelectorAll('#nodes thead button')].find("
                "b => b.textContent === 'Placements/s').focus()"
            )
            page.key("Enter")
            page.wait(
                "document.querySelector('#nodes th[aria-sort=descending]')?.textContent === 'Placements/s'"
            )
            page.wait("document.querySelector('#nodes tbody').innerText.includes('7.0')")
            page.key("Enter")
            page.wait(
                "document.querySelector('#nodes th[aria-sort=ascending]')?.textContent === 'Placements/s'"
            )
            page.key("Enter")
            page.wait(
                "!document.querySelector('#nodes th[aria-sort=ascending], #nodes th[aria-sort=descending]')"
            )

    def test_hostile_names_are_shown_as_text(self):
        nodes = [node(i, HOSTILE + str(i), HOSTILE) for i in range(5)]
        for one in nodes:
            one["host"] = HOSTILE
            for actor in one["actors"]:
                actor["name"] += HOSTILE
        changes = {
            "run_dir": "/runs/" + HOSTILE,
            "graph": HOSTILE,
            "method": HOSTILE,
            "start": HOSTILE,
            "why_idle": HOSTILE,
            "heuristic": {"method": HOSTILE, "step_time_s": 0.4},
            "events": [{"at_s": 1, "text": HOSTILE}],
            "ending": HOSTILE,
            "restarts": {HOSTILE: 3},
            "report_failure": HOSTILE,
        }

        def elements(page):
            return page.evaluate(
                "['script', 'img', 'iframe', 'style', 'svg'].map("
                "tag => document.querySelectorAll(tag).length)"
            )

        with self.page([node(i, error="plain") for i in range(5)]) as (page, _):
            plain = elements(page)
        with self.page(nodes, changes=changes) as (page, _):
            page.evaluate("document.querySelector('#nodes tbody button').click()")
            page.wait("document.querySelector('#nodes .more')")
            self.assertEqual(elements(page), plain)
            self.assertNotIn("got", page.evaluate("document.title").split("·")[0])
            text = page.text()
            self.assertIn("<script>document.title='got'</script><img src=x", text)
            for sign in ("\u2028", "\u202e"):
                self.assertNotIn(sign, text, "shown as an escape")
            self.assertIn("\\u202e", text)

    def test_a_newer_report_keeps_the_selection(self):
        with self.page([node(0), node(1)], self.small) as (page, port):
            self.drawn(page)
            page.evaluate("""(() => {
              const gantt = document.querySelector('[data-chart=gantt]');
              gantt.querySelectorAll('.tools button')[1].click();
              gantt.querySelector('[aria-label="Zoom in"]').click();
              gantt.querySelector('input').click();
              for (const details of document.querySelectorAll('#report details')) details.open = true;
              document.querySelector('[data-chart=curve] input').click();
              document.querySelector('[data-chart=graph] button').click();
              gantt.scrollIntoView();
              gantt.querySelector('canvas').focus();
              window.canvas = document.activeElement;
            })()""")
            look = """(() => { const gantt = document.querySelector('[data-chart=gantt]'); return {
              step: [...gantt.querySelectorAll('.choices button')].map(b => b.getAttribute('aria-pressed')),
              path: gantt.querySelector('input').checked,
              time: document.querySelector('[data-chart=curve] input').checked,
              open: [...document.querySelectorAll('#report details')].map(d => d.open),
              focus: document.activeElement === window.canvas,
              chips: document.querySelectorAll('[data-chart=graph] [title=Close]').length,
              top: Math.round(gantt.getBoundingClientRect().top),
              drawing: gantt.querySelector('canvas').toDataURL().length }; })()"""
            before = page.evaluate(look)
            self.assertEqual(before["step"], ["false", "true"])
            newer = json.loads(json.dumps(self.small))
            newer["main"] = newer["main"].replace(
                "<h3>Methods</h3>", "<h3>Methods, newer</h3><p>" + "longer " * 400 + "</p>"
            )
            steps = newer["data"]["graphs"][0]["task"]["steps"]
            steps[0]["label"] = "a newer placement"
            port.publish(newer)
            page.wait("document.querySelector('#report').innerText.includes('Methods, newer')")
            page.wait("document.getElementById('report').dataset.version === '2'")
            self.assertIn("a newer placement", page.text("[data-chart=gantt] .choices"))
            after = page.evaluate(look)
            self.assertAlmostEqual(
                after.pop("top"), before.pop("top"), delta=2, msg="it is scrolled to the same place"
            )
            self.assertEqual(after, before)

    def test_a_newer_report_keeps_the_chosen_graph(self):
        family, directory = os.path.join(self.folder.name, "family"), os.path.join(
            self.folder.name, "several"
        )
        emplace("generate", "cifar10", "--count", "3", "-o", family)
        config = os.path.join(SOURCE, "configs", "papers", "placeto", "family-cifar10.toml")
        emplace(
            "run", config, "--run-dir", directory, "--episodes", "4", "--set", f'input.graphs=["{family}/*"]'
        )
        report = fragment_of(os.path.join(directory, "report.html"))
        look = """(() => { const articles = [...document.querySelectorAll('#report article')]; return [
            document.getElementById('choose-graph').value, articles.map(article => article.hidden)]; })()"""
        with self.page([node(0)], report) as (page, port):
            self.drawn(page, charts=3)
            page.evaluate(
                "(() => { const choice = document.getElementById('choose-graph'); choice.value = '1';"
                "choice.dispatchEvent(new Event('change', {bubbles: true})); })()"
            )
            self.assertEqual(page.evaluate(look), ["1", [True, False, True]])
            port.publish({**report, "main": report["main"].replace("<h3>Methods</h3>", "<h3>Newer</h3>")})
            page.wait("document.getElementById('report').dataset.version === '2'")
            self.assertEqual(page.evaluate(look), ["1", [True, False, True]])
            self.assertIn("Newer", page.text("#report"))
            # Without a graph that it had, the page shows the last one.
            report["data"]["graphs"] = report["data"]["graphs"][:1]
            report["main"] = report["main"].split('<article data-graph="1"')[0]
            port.publish(report)
            page.wait("document.querySelectorAll('#report article').length === 1")
            page.wait("!document.querySelector('#report article').hidden")

    def test_shows_the_state_of_the_connection(self):
        with self.page([node(0), node(1)], clean=False) as (page, port):
            page.wait("document.getElementById('connection').innerText === 'Connected'")
            port.set(failing=True)
            page.wait(
                "document.getElementById('connection').innerText.startsWith('Connection lost, last seen ')"
            )
            self.assertIn("300.0 ms per step", page.text(), "the last state stays")
            port.set(failing=False, changes={"best_step_time_s": 0.2})
            page.wait("document.getElementById('connection').innerText === 'Connected'")
            page.wait("document.getElementById('best').innerText === '200.0 ms per step'")
            port.set(changes={"phase": "ended", "best_step_time_s": 0.2})
            page.wait("document.getElementById('connection').innerText.startsWith('The run is over')")
            page.wait("document.getElementById('actors').innerText.includes('nothing waits')")
            self.assertIn("placements measured a second, on average", page.text("#cards"))
            self.assertNotIn("executors joined", page.text("#cards"))

    def test_a_hidden_page_draws_nothing(self):
        hide = (
            "Object.defineProperty(document, 'hidden', {value: HIDDEN, configurable: true}),"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        with self.page([node(0), node(1)], self.small) as (page, port):
            self.drawn(page)
            page.evaluate(hide.replace("HIDDEN", "true"))
            port.set(changes={"best_step_time_s": 0.2})
            port.publish(self.small)
            sent, reports = port.sent, len(port.asked("/report.json"))
            port.await_true(lambda: port.sent > sent + 10)
            self.assertEqual(page.text("#best"), "300.0 ms per step")
            self.assertEqual(len(port.asked("/report.json")), reports)
            page.evaluate(hide.replace("HIDDEN", "false"))
            self.assertEqual(page.text("#best"), "200.0 ms per step", "at once when it is seen")
            page.wait("document.getElementById('report').dataset.version === '2'")

    def test_shows_why_nothing_runs(self):
        why = "nothing runs because no executor has joined yet; emplace join ADDRESS adds executors"
        with self.page([node(0)], changes={"why_idle": why, "executors": 0, "evaluations_per_s": 0.0}) as (
            page,
            port,
        ):
            self.assertIn("Nothing runs because no executor has joined yet", page.text("#idle"))
            self.assertIn("No executor has joined; 2 would be busy.", page.text("#actors"))
            port.set(changes={})
            page.wait("document.getElementById('idle').hidden")

    def test_shows_a_run_that_starts(self):
        empty = {
            "phase": "heuristics",
            "start": "",
            "starts": [],
            "best_step_time_s": None,
            "bound_s": None,
            "heuristic": None,
            "budget_s": 0,
            "measurements": 0,
            "episodes": 0,
            "elapsed_s": 0,
            "events": [],
            "restarts": {},
        }
        with self.page([], changes=empty) as (page, _):
            self.assertIn("No placement that fits yet", page.text("#best"))
            self.assertIn("No node yet.", page.text("#nodes"))
            self.assertNotIn("NaN", page.text())
            self.assertNotIn("undefined", page.text())

    def test_light_and_dark_without_motion(self):
        for scheme, dark in (("light", False), ("dark", True)):
            with self.page([node(i) for i in range(8)], self.small, scheme=scheme, reduced_motion=True) as (
                page,
                _,
            ):
                self.drawn(page)
                ground = page.evaluate(
                    "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
                )
                self.assertEqual(sum(ground) < 3 * 128, dark)
                self.assertEqual(page.evaluate("document.getAnimations().length"), 0)
                if os.environ.get("EMPLACE_REPORT_SHOTS"):
                    page.screenshot(os.path.join(os.environ["EMPLACE_REPORT_SHOTS"], f"live-{scheme}.png"))


class LivePageOfProgram(unittest.TestCase):
    """The program itself serves the page."""

    def test_follows_a_run_to_its_end_and_saves_the_page(self):
        graph = os.path.join(SOURCE, "tests", "fixtures", "graphs", "cifar10_cnn-bs128.json")
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as cleanup:
            directory = os.path.join(folder, "run")
            run = subprocess.Popen(
                [EMPLACE, "run", os.path.join(SOURCE, "configs", "quickstart.toml"), "--run-dir", directory]
                + [
                    "--set",
                    "input.graph=" + graph,
                    "--set",
                    "policy.groups=8",
                    "--set",
                    'run.starts=["scratch"]',
                ]
                + [
                    "--set",
                    'compare.methods=["heft", "scotch"]',
                    "--set",
                    "policy.hierarchical.hidden=8",
                    "--budget",
                    "300s",
                    "--status",
                    "127.0.0.1:0",
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            cleanup.callback(run.stderr.close)
            cleanup.callback(run.wait)
            cleanup.callback(run.kill)
            url = None
            for line in run.stderr:
                if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
                    url = found.group(0)
                    break
            threading.Thread(target=run.stderr.read, daemon=True).start()
            page = cleanup.enter_context(Browser())
            page.open(url)
            page.wait("document.getElementById('connection').innerText === 'Connected'")
            page.wait("document.getElementById('best').innerText.endsWith(' per step')")
            page.wait("document.querySelectorAll('#report [data-drawn=\"true\"]').length === 4")
            page.wait("document.querySelector('#nodes').innerText.includes('head')")
            version = int(page.evaluate("document.getElementById('report').dataset.version"))
            page.wait(f"Number(document.getElementById('report').dataset.version) > {version}")
            self.assertEqual(page.messages, [])
            self.assertIn("left of 5 min 00 s", page.text("#cards"))
            saved = os.path.join(folder, "saved.html")
            with urllib.request.urlopen(url + "report.html") as answer, open(saved, "wb") as file:
                file.write(answer.read())
            run.send_signal(signal.SIGINT)
            page.wait("document.getElementById('connection').innerText.startsWith('The run is over')")
            run.wait(DEADLINE_S)
            with Browser() as reader:
                reader.open("file://" + saved)
                reader.wait("document.documentElement.dataset.ready === 'true'")
                state = reader.text("#state")
                for part in (
                    "The run when this page was written",
                    "Actors and queues",
                    "head",
                    "leases issued",
                ):
                    self.assertIn(part, state)
                self.assertEqual(reader.messages, [])
                self.assertEqual(reader.evaluate("document.querySelectorAll('[data-drawn=true]').length"), 4)


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: there is no chromium here (scripts/packages.txt has it)", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
