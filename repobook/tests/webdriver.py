"""A headless Chromium, driven over the WebDriver protocol with nothing but the standard library."""

import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
DRIVER = shutil.which("chromedriver") or ""
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_SWITCHES = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --force-device-scale-factor=1 --hide-scrollbars"
).split()
KEYS = {"down": "\ue015", "up": "\ue013", "enter": "\ue007", "escape": "\ue00c", "tab": "\ue004"}


class Browser:
    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.profile = tempfile.mkdtemp(prefix="repobook-chromium-")
        self.driver = subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base = f"http://127.0.0.1:{port}"
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            self._wait()
            options = {"binary": CHROMIUM, "args": [*_SWITCHES, f"--user-data-dir={self.profile}"]}
            wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
            self.base += "/session/" + self._send("POST", "/session", {"capabilities": wanted})["sessionId"]
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        for _ in range(300):
            try:
                self._send("GET", "/status")
                return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        raise TimeoutError("chromedriver does not answer")

    def _send(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with self.opener.open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            error.close()
            raise AssertionError(f"{path}: {text[:500]}") from None

    def go(self, address: str) -> None:
        """Open a page and wait until it is complete; on a busy machine the driver answers before that."""
        self._send("POST", "/url", {"url": address})
        self.wait("document.readyState === 'complete'")

    def run(self, script: str, *arguments: object) -> Any:
        """The value of an asynchronous function's body."""
        text = f"const done = arguments[arguments.length - 1]; (async (...a) => {{{script}}})(...arguments).then(done, e => done(String(e)));"
        return self._send("POST", "/execute/async", {"script": text, "args": list(arguments)})

    def type(self, text: str) -> None:
        """Keys to whatever has the focus."""
        keys = [{"type": kind, "value": char} for char in text for kind in ("keyDown", "keyUp")]
        self._send("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": keys}]})

    def click(self, selector: str) -> None:
        element = self._send("POST", "/element", {"using": "css selector", "value": selector})[_ELEMENT]
        self._send("POST", f"/element/{element}/click", {})

    def media(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._cdp("Emulation.setEmulatedMedia", {"features": features})

    def screen(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._cdp("Emulation.setDeviceMetricsOverride", metrics)

    def _cdp(self, command: str, parameters: object) -> None:
        self._send("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self) -> list[str]:
        return [row["message"] for row in self._send("POST", "/se/log", {"type": "browser"})]

    def picture(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_bytes(base64.b64decode(self._send("GET", "/screenshot")))

    def wait(self, condition: str, seconds: float = 20) -> Any:
        """The value of a JavaScript expression once it is true."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(f"return {condition};")
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {condition}")
            time.sleep(0.02)

    def close(self) -> None:
        try:
            if "/session/" in self.base:
                self._send("DELETE", "")
        except (OSError, AssertionError):
            pass
        finally:
            self.driver.terminate()
            self.driver.wait(20)
            shutil.rmtree(self.profile, ignore_errors=True)
