"""A page in Debian's Chromium without a screen, driven by the keyboard."""

import contextlib
import re

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from server_case import WAIT, new_folder, wait_until

_BROWSER = "/usr/bin/chromium"
_DRIVER = "/usr/bin/chromedriver"


def reused(facts):
    """The tokens that an answer's facts say were reused."""
    return shares(facts)[0]


def shares(facts):
    """How many of the prompt's tokens were reused, and how many there were."""
    found = re.search(r"([\d,]+) of ([\d,]+) prompt tokens were reused", facts)
    return tuple(int(number.replace(",", "")) for number in found.groups())


class Page:
    """The server's page, in a browser of its own."""

    def __init__(self, driver, url):
        self.driver = driver
        self.url = url

    def open(self):
        self.driver.get(self.url)

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0])?.textContent.trim() ?? null",
                       selector)

    def wait_for(self, is_so, what):
        """What is_so() says, once that is true; what the page shows, if it never is.

        The page may draw a list anew while is_so() reads it: is_so() is asked again then."""
        def is_so_now():
            with contextlib.suppress(StaleElementReferenceException):
                return is_so()

        try:
            return wait_until(is_so_now, what)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.text('body')}\n{self.console()}") from e

    def wait_for_text(self, selector, part):
        return self.wait_for(lambda: (text := self.text(selector)) and part in text and text,
                             f"{selector} says {part!r}")

    # The keyboard.

    def press(self, *keys):
        """Keys for whatever has the focus; a list of keys is pressed together."""
        actions = ActionChains(self.driver)
        for key in keys:
            if isinstance(key, str):
                actions.send_keys(key)
                continue
            for held in key[:-1]:
                actions.key_down(held)
            actions.send_keys(key[-1])
            for held in reversed(key[:-1]):
                actions.key_up(held)
        actions.perform()

    def focused(self):
        return self.driver.switch_to.active_element

    def tab_to(self, selector, back=False):
        """Goes on by Tab until the element has the focus."""
        target = self.find(selector)
        for _ in range(400):
            if self.focused() == target:
                return target
            self.press([Keys.SHIFT, Keys.TAB] if back else Keys.TAB)
        raise AssertionError(f"Tab does not lead to {selector}")

    # What a test may want to see.

    def console(self):
        """What the console said that is an error."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] == "SEVERE"]

    def resize(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def prefer(self, scheme):
        """As a user does who likes it dark, or light."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    # The chat.

    def answers(self):
        return self.all("#log .turn.assistant")

    def ask(self, question):
        """Types a question and sends it."""
        self.tab_to("#question")
        self.press(question, Keys.ENTER)

    def wait_for_answer(self, number):
        """What the page says of the answer: its text, and its facts."""
        selector = f"#log .turn.assistant:nth-of-type({2 * number})"
        self.wait_for(lambda: self.text(f"{selector} .facts, {selector} .error"),
                      f"answer {number} is complete")
        return self.text(f"{selector} > .text"), self.text(f"{selector} .facts")

    def fake_replies(self, *deltas):
        """Later answers are made of these, an event each; the server is not asked."""
        self.js("""const [deltas, plain] = [arguments[0], window.fetch];
            window.fetch = async (path, options) => {
              if (path !== "/v1/chat/completions") return plain(path, options);
              const events = deltas.map((delta) => ({choices: [{delta}]}));
              events.push({choices: [], usage: {prompt_tokens: 40, completion_tokens: 9,
                                                prompt_tokens_details: {cached_tokens: 31}}});
              const lines = events.map((event) => `data: ${JSON.stringify(event)}\\n\\n`);
              const body = new ReadableStream({
                pull(stream) {
                  stream.enqueue(new TextEncoder().encode(lines.shift() ?? "data: [DONE]\\n\\n"));
                }});
              return new Response(body);
            };""", deltas)

    def conversations(self):
        """The titles that the list has, in order."""
        return self.js("return [...document.querySelectorAll('#conversations .title')]"
                       ".map((title) => title.textContent)")

    def set_field(self, selector, value):
        """Types a setting of the chat, which is below the message."""
        if not self.js("return document.querySelector('#ask details').open"):
            self.tab_to("#ask summary")
            self.press(Keys.ENTER)
        self.tab_to(selector)
        self.press([Keys.CONTROL, "a"], value)


@contextlib.contextmanager
def new_page(url):
    with new_folder() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = _BROWSER
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                         "--disable-gpu", f"--user-data-dir={profile}", "--window-size=1280,900",
                         "--no-first-run", "--disable-component-update", "--disable-sync",
                         "--disable-background-networking", "--force-device-scale-factor=1"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(_DRIVER))
        try:
            driver.set_page_load_timeout(WAIT)
            driver.set_script_timeout(WAIT)
            page = Page(driver, url)
            page.open()
            yield page
        finally:
            driver.quit()
