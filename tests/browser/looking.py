"""What a person does with a page, by the names that he sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

WAIT_S = 15.0
TABS_MAX = 60

CONTRASTS = """
const channel = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const under = (node) => {
  for (let it = node; it; it = it.parentElement) {
    const found = parts(getComputedStyle(it).backgroundColor);
    if (found.length === 3 || found[3] === 1) return found;
  }
  return [255, 255, 255];
};
const found = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const node = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !node.checkVisibility() || node.closest(":disabled")) continue;
  const [a, b] = [light(parts(getComputedStyle(node).color)), light(under(node))].sort((x, y) => y - x);
  found.push([(a + 0.05) / (b + 0.05), walk.currentNode.data.trim().slice(0, 40)]);
}
return found;
"""


class Page:
    def __init__(self, driver: Chrome, url: str) -> None:
        self.driver = driver
        self.url = url
        driver.get_log("browser")
        driver.get_log("performance")

    # --- where ---------------------------------------------------------------------------------------------------

    def go(self, path: str = "/inbox") -> None:
        self.driver.get(self.url + path)

    def new_tab(self, path: str = "/inbox") -> str:
        """-> the tab before."""
        before = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")
        self.go(path)
        return before

    def close_others(self) -> None:
        first, *others = self.driver.window_handles
        for handle in others:
            self.driver.switch_to.window(handle)
            self.driver.close()
        self.driver.switch_to.window(first)
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def width(self, pixels: int, height: int = 800) -> None:
        size = {"width": pixels, "height": height, "deviceScaleFactor": 1, "mobile": True}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def scheme(self, name: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    # --- what is there -------------------------------------------------------------------------------------------

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def until(self, css: str, text: str = "", count: int | None = None) -> WebElement:
        """The first that is visible and has this text; with `count`: as soon as there are so many."""

        def there(_: object) -> WebElement | None:
            script = "return [...document.querySelectorAll(arguments[0])].filter((it) => it.checkVisibility())"
            found = self.driver.execute_script(
                script + ".filter((it) => it.innerText.includes(arguments[1]))", css, text
            )
            return found[0] if found and count in (None, len(found)) else None

        found = WebDriverWait(self.driver, WAIT_S, 0.05).until(there, f"{css} with {text!r}")
        assert isinstance(found, WebElement)
        return found

    def gone(self, css: str) -> None:
        WebDriverWait(self.driver, WAIT_S, 0.05).until(lambda _: not self.all(css), f"{css} is still there")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def focused(self) -> WebElement:
        return self.driver.switch_to.active_element

    # --- what a person does --------------------------------------------------------------------------------------

    def open_first(self) -> None:
        self.until("#entries a").click()
        self.until("#decision h2")

    def choose(self, arm: str) -> None:
        self.until(f"#answer input[value={arm}]").click()

    def fill(self, name: str, text: str) -> None:
        field = self.until(f"#answer [name={name}]")
        field.clear()
        field.send_keys(text)

    def send(self) -> None:
        self.until("#answer button.main").click()

    def outcome(self, title: str) -> str:
        return self.until("#outcome", title).text

    def press(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def tab_to(self, css: str) -> WebElement:
        """By the keyboard alone."""
        for _ in range(TABS_MAX):
            self.press(Keys.TAB)
            if self.run("return document.activeElement.matches(arguments[0])", css):
                return self.focused()
        raise AssertionError(f"{TABS_MAX} tabs, and {css} has not been reached")

    # --- what is to be seen from outside -------------------------------------------------------------------------

    def complaints(self) -> list[str]:
        """Of the scripts and the policy. A refusal that the API meant is none."""
        return [it["message"] for it in self.driver.get_log("browser") if it["source"] != "network"]

    def asked(self) -> list[str]:
        """Every address that the pages asked for."""
        found = [json.loads(it["message"])["message"] for it in self.driver.get_log("performance")]
        return [it["params"]["request"]["url"] for it in found if it["method"] == "Network.requestWillBeSent"]

    def contrasts(self) -> list[tuple[float, str]]:
        return [(ratio, text) for ratio, text in self.run(CONTRASTS)]

    def overflow(self) -> int:
        """Pixels that the page is wider than its window."""
        return int(self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@contextmanager
def one_window(driver: Chrome, url: str) -> Iterator[Page]:
    """At a worker's inbox; whatever the scripts complained of fails the test."""
    found = Page(driver, url)
    yield found
    complaints = found.complaints()
    found.close_others()
    driver.get("about:blank")
    assert complaints == []
