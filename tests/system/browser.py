"""Headless Chromium, driven over its debugging pipe: pages are opened and used as by a person.

`messages` keeps what a page reports: its console, refusals of its content security policy, errors of scripts.
"""

import base64
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DEADLINE_S = 60  # Seconds for one answer of the browser, and for a condition.

# Refusals become messages, and so do errors in code that nothing catches.
WATCH = """
document.addEventListener('securitypolicyviolation', event =>
  console.error('refused by the policy: ' + event.violatedDirective + ' ' + event.blockedURI));
"""


class Browser:
    """One browser with one page. `scheme`: light or dark."""

    def __init__(self, scheme="light", width=1280, height=900, reduced_motion=False):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()

        def pipes():
            # The browser reads descriptor 3 and writes descriptor 4. The copies are above both.
            read, write = os.dup2(to_read, 20), os.dup2(from_write, 21)
            os.dup2(read, 3)
            os.dup2(write, 4)

        command = [
            PROGRAM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--remote-debugging-pipe",
            "--hide-scrollbars",
            f"--user-data-dir={self.profile.name}",
            f"--window-size={width},{height}",
            "about:blank",
        ]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=pipes,
            close_fds=False,
        )
        os.close(to_read)
        os.close(from_write)
        self.pipe, self.source = os.fdopen(to_write, "wb", 0), os.fdopen(from_read, "rb", 0)
        self.number, self.answers, self.messages, self.traffic = 0, {}, [], []
        self.arrived = queue.Queue()
        self.session = None
        self.receiver = threading.Thread(target=self._receive, daemon=True)
        self.receiver.start()
        page = self._call("Target.getTargets")["targetInfos"]
        page = [one for one in page if one["type"] == "page"][0]["targetId"]
        self.session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(domain + ".enable")
        self._call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        if reduced_motion:
            features.append({"name": "prefers-reduced-motion", "value": "reduce"})
        self._call("Emulation.setEmulatedMedia", features=features)
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self._call("Browser.close")
            self.process.wait(timeout=DEADLINE_S)
        except (OSError, RuntimeError, queue.Empty, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.pipe.close()
        self.receiver.join()
        self.source.close()
        self.profile.cleanup()

    def _receive(self):
        rest = b""
        try:
            while part := self.source.read(1 << 16):
                *whole, rest = (rest + part).split(b"\0")
                for text in whole:
                    self.arrived.put(json.loads(text))
        except (OSError, ValueError):
            pass
        self.arrived.put(None)

    def _note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.messages.append(
                " ".join(str(one.get("value", one.get("description"))) for one in params["args"])
            )
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.messages.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.messages.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.traffic.append(params["request"]["url"])

    def _call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.pipe.write(json.dumps(message).encode() + b"\0")
        while True:
            event = self.arrived.get(timeout=DEADLINE_S)
            if event is None:
                raise RuntimeError("the browser has ended")
            if event.get("id") == self.number:
                if "error" in event:
                    raise RuntimeError(f"{method}: {event['error']['message']}")
                return event["result"]
            self._note(event)

    def open(self, url):
        """Opens a page; returns once its document is there."""
        self._call("Page.navigate", url=url)
        self.wait("document.readyState !== 'loading'")

    def evaluate(self, script):
        """The value of an expression in the page, whose policy does not apply; a promise is waited for."""
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", script))
        return result["result"].get("value")

    def wait(self, condition):
        """Waits until an expression is true in the page, looked at with every change of its document."""
        script = """new Promise((done, failed) => {
          const test = () => { try { return CONDITION; } catch { return false; } };
          if (test()) return done(true);
          const end = value => {
            watch.disconnect(), clearInterval(clock), clearTimeout(limit), done(value);
          };
          const look = () => { if (test()) end(true); };
          const watch = new MutationObserver(look);
          watch.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
          const clock = setInterval(look, 50), limit = setTimeout(() => end(false), LIMIT);
        })""".replace("CONDITION", condition).replace("LIMIT", str((DEADLINE_S - 5) * 1000))
        if not self.evaluate(script):
            raise AssertionError(f"never true: {condition}\n{self.messages}\n{self.text()[:2000]}")

    def text(self, selector="body"):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def key(self, key, text=None, modifiers=0):
        """One key, as the keyboard sends it: to the element with the focus."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowLeft": 37, "ArrowRight": 39}
        more = {"windowsVirtualKeyCode": codes.get(key, ord(key[0].upper())), "modifiers": modifiers}
        text = text if text is not None else "\r" if key == "Enter" else key if len(key) == 1 else None
        self._call(
            "Input.dispatchKeyEvent", type="keyDown", key=key, **more, **({"text": text} if text else {})
        )
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def click(self, selector):
        box = self.evaluate(
            f"(() => {{ const node = document.querySelector({json.dumps(selector)});"
            "node.scrollIntoView({block: 'center'}); const b = node.getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def offline(self, cut):
        """Disconnects the page from the network, or connects it again."""
        self._call(
            "Network.emulateNetworkConditions",
            offline=cut,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )

    def screenshot(self, path, clip=None):
        params = {"format": "png", "captureBeyondViewport": True}
        if clip:
            params["clip"] = {**clip, "scale": clip.get("scale", 1)}
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._call("Page.captureScreenshot", **params)["data"]))
