"""Goal: the page at / does what its users want of it, with the keyboard alone, and nothing that its
contents want of it.

Method: Debian's Chromium, headless, on the real server and model. What a test presses is what a
        user presses: Tab, Enter, Escape and letters.
"""

import hashlib
import json
import re

import pytest
from selenium.webdriver.common.keys import Keys

from browser import new_page, reused
from server_case import CAPITAL, STORY, HttpError, Server, new_folder, run_attndb, wait_until

HOSTILE = "<img src=x onerror=\"document.title='taken over'\">"
LONG = "Tell me a long story about a lighthouse and all of its keepers."


class TestPage:
    def test_loads_without_an_error(self, server):
        with new_page(server.url) as page:
            page.wait_for_text("#model", "smollm2")
            page.wait_for_text("#contexts-count", "context")
            assert page.console() == []
            assert page.js("return document.activeElement.id") == "question"
            assert not page.find("#key-form").is_displayed()

    def test_loads_nothing_from_elsewhere(self, page, server):
        loaded = page.js("return performance.getEntriesByType('resource').map(e => e.name)")
        assert len(loaded) > 5
        assert all(name.startswith(server.url) for name in loaded), loaded
        status, headers, _ = server.request("GET", "/")
        assert status == 200
        assert headers["Content-Security-Policy"].startswith("default-src 'none';")
        assert headers["X-Content-Type-Options"] == "nosniff"

    def test_every_control_has_a_name(self, page):
        page.ask(CAPITAL)
        page.wait_for_answer(1)
        page.wait_for(lambda: page.all("#contexts-body tr"), "a context is listed")
        for control in page.all("button, input, textarea, select, dialog, [tabindex]"):
            if control.is_displayed():
                assert control.accessible_name, control.get_attribute("outerHTML")

    def test_fits_a_narrow_screen_and_the_dark(self, page):
        page.ask(CAPITAL)
        page.wait_for_answer(1)
        page.resize(360, 700)
        assert page.js("return document.documentElement.scrollWidth") <= 360
        colours = []
        for scheme in ("light", "dark"):
            page.prefer(scheme)
            colours.append(page.js("return getComputedStyle(document.body).backgroundColor"))
        assert colours[0] != colours[1]


class TestChat:
    def test_an_answer_streams_and_the_next_turn_reuses_it(self, page):
        page.js("""window.seen = new Set();
            new MutationObserver(() => {
              seen.add(document.querySelector("#log .assistant > .text")?.textContent);
            }).observe(document.querySelector("#log"), {subtree: true, childList: true});""")
        page.press("Tell me the capital", [Keys.SHIFT, Keys.ENTER], "of France.", Keys.ENTER)
        text, facts = page.wait_for_answer(1)
        assert "Paris" in text
        assert "first token" in facts and "stored as turn-" in facts
        assert page.js("return seen.size") > 3, "it did not come piece by piece"
        assert page.js("return document.querySelector('#log .user .text').textContent") == (
            "Tell me the capital\nof France.")
        page.press("And of Italy?", Keys.ENTER)
        text, facts = page.wait_for_answer(2)
        assert "Rome" in text
        assert reused(facts) > 20
        assert page.console() == []

    def test_escape_stops_and_the_chat_goes_on(self, page, server):
        before = server.metric("attndb_cancelled_requests")
        page.set_field("#max_tokens", "2000")
        page.tab_to("#question", back=True)
        page.press(LONG, Keys.ENTER)
        page.wait_for(lambda: page.text("#log .assistant > .text"), "the answer begins")
        page.press(Keys.ESCAPE)
        page.wait_for_text("#log .assistant .facts", "Stopped.")
        wait_until(lambda: server.metric("attndb_cancelled_requests") > before, "it is cancelled")
        assert page.focused() == page.find("#question")
        page.set_field("#max_tokens", "8")
        page.tab_to("#question", back=True)
        page.press("Go on.", Keys.ENTER)
        assert page.wait_for_answer(2)[0]

    def test_an_error_is_shown_and_the_question_comes_back(self, page):
        page.set_field("#plan", "topk(k=<b>)")
        page.tab_to("#question", back=True)
        page.press("Hello", Keys.ENTER)
        error = page.wait_for_text("#log .error", "column")
        assert "<b>" in error
        assert page.find("#question").get_property("value") == "Hello"

    def test_a_new_chat_forgets(self, page):
        page.ask(CAPITAL)
        page.wait_for_answer(1)
        assert not page.find("#context").is_enabled()
        page.tab_to("#new-chat", back=True)
        page.press(Keys.ENTER)
        assert page.answers() == []
        assert page.focused() == page.find("#question")
        assert page.find("#context").is_enabled()

    def test_numbers_follow(self, page):
        page.ask(CAPITAL)
        page.wait_for_answer(1)
        page.wait_for_text("#hit-rate", "%")
        page.wait_for_text("#first-token", "s")
        page.wait_for_text("#turns", "0 / 0")
        page.wait_for(lambda: page.find("#speed-line").get_attribute("points"), "a line is drawn")


class TestPicture:
    def heaviest(self, page):
        return [row.text for row in page.all("#heaviest tr")]

    def open(self, page):
        page.ask(CAPITAL)
        page.wait_for_answer(1)
        page.tab_to("#log .assistant button")
        page.press(Keys.ENTER)
        page.wait_for_text("#picture-says", "token 1 of the answer's")

    def test_is_drawn_and_said_in_words(self, page):
        self.open(page)
        size = page.js("const heat = document.querySelector('#heat');"
                       "return [heat.width, heat.height]")
        assert size == [37, 30], "a column a token, a line a layer"
        drawn = page.js("const heat = document.querySelector('#heat');"
                        "return [...heat.getContext('2d').getImageData(0, 0, 37, 30).data]")
        assert len(set(drawn[3::4])) > 50, "weights differ"
        assert len(self.heaviest(page)) == 12
        assert "layer 0, mean of its heads" in page.text("#heaviest-of")
        assert "token 0 “<|im_start|>”" in page.text("#heat-says")
        assert page.find("#heat").accessible_name

    def test_is_walked_by_keys(self, page):
        self.open(page)
        page.tab_to("#picture-layer")
        page.press("7")  # A letter chooses in a list.
        page.wait_for(lambda: page.js("return document.querySelector('#heat').height") == 9,
                      "a line a head")
        page.tab_to("#heat")
        page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
        assert page.text("#heat-says").startswith("layer 7, head 1, token 2 “⏎”:")
        words = self.heaviest(page)
        page.press(Keys.PAGE_DOWN)
        assert page.text("#heat-says").startswith("layer 8, head 1")
        assert self.heaviest(page) != words
        page.press(Keys.END)
        assert "token 36" in page.text("#heat-says")
        page.tab_to("#picture-token", back=True)
        page.press(Keys.ARROW_UP)
        page.wait_for_text("#picture-says", "token 2 of the answer's")
        assert "over the 38 tokens" in page.text("#picture-says")
        page.press(Keys.ESCAPE)
        assert not page.find("#picture").is_displayed()
        assert page.focused().text == "What it attended to"
        assert page.console() == []

    def test_a_token_that_there_is_not_is_told(self, page):
        self.open(page)
        page.tab_to("#picture-token")
        page.press([Keys.CONTROL, "a"], "99", Keys.TAB)
        page.wait_for_text("#picture-says", "'token' is 98, expected one of the reply's")
        assert not page.find("#picture-shown").is_displayed()


class TestContexts:
    def row(self, page, name):
        """The text of a context's row, once it is listed. The page draws the list anew at times."""
        find = ("return [...document.querySelectorAll('#contexts-body tr')]"
                ".find(row => row.dataset.name === arguments[0])?.textContent.trim()")
        return page.wait_for(lambda: page.js(find, name), f"{name} is listed")

    def button(self, name, number):
        return f"tr[data-name='{name}'] .actions button:nth-child({number})"

    def test_a_turn_is_listed_pinned_and_deleted(self, page, server):
        page.ask("Which is the largest ocean?")
        name = page.wait_for_answer(1)[1].rpartition("stored as ")[2]
        server.wait_until_durable(name)
        row = self.row(page, name)
        assert "for ever" in row
        assert re.match(r"#\d+ Which is the largest ocean\?", row)
        page.tab_to(self.button(name, 2))
        page.press(Keys.ENTER)
        page.wait_for(lambda: "pinned" in self.row(page, name), "the row says so")
        assert server.describe(name)["pinned"]
        page.press(Keys.ENTER)
        page.wait_for(lambda: "for ever" in self.row(page, name), "the row says so")
        page.tab_to(self.button(name, 3))
        page.press(Keys.ENTER, Keys.ESCAPE)
        assert server.describe(name)["durable"], "Escape keeps it"
        page.press(Keys.ENTER)
        page.tab_to("#confirm-yes")
        page.press(Keys.ENTER)
        page.wait_for(lambda: not page.all(f"tr[data-name='{name}']"), "the row is gone")
        with pytest.raises(HttpError, match="404"):
            server.describe(name)

    def test_hostile_names_and_words_are_text(self, folder):
        (folder / "hostile.txt").write_text(HOSTILE + STORY)
        run_attndb(folder / "store", "import", "-m", "smollm2", "--name", "hostile",
                   folder / "hostile.txt")
        with Server(folder / "store") as server, new_page(server.url) as page:
            # Names of the store's have no such letters: the page does not count on it.
            page.js("""const [name, plain] = [arguments[0], window.fetch];
                window.fetch = async (path, options) => {
                  const response = await plain(path, options);
                  if (path !== "/attndb/v1/contexts") return response;
                  const text = await response.text();
                  return new Response(text.replaceAll('"hostile"', JSON.stringify(name)));
                };""", HOSTILE)
            self.row(page, HOSTILE)
            page.set_field("#context", "hostile")
            page.set_field("#max_tokens", "8")
            page.ask(HOSTILE)
            assert reused(page.wait_for_answer(1)[1]) > 150
            assert page.text("#log .user .text") == HOSTILE
            page.set_field("#plan", HOSTILE)
            page.ask("Hello")
            page.wait_for_text("#log .error", "<img")
            assert page.all("img") == []
            assert page.driver.title == "attndb"
            assert all("400 (Bad Request)" in said for said in page.console())

    def test_a_stored_context_is_asked(self, page, server):
        page.ask(CAPITAL)
        name = page.wait_for_answer(1)[1].rpartition("stored as ")[2]
        self.row(page, name)
        page.tab_to(self.button(name, 1))
        page.press(Keys.ENTER)
        assert page.find("#context").get_property("value") == name
        page.press("And of Italy?", Keys.ENTER)
        text, facts = page.wait_for_answer(1)
        assert "Rome" in text
        assert reused(facts) > 20


class TestKey:
    def test_a_missing_and_a_wrong_key_are_told(self, folder):
        keys = folder / "keys.json"
        keys.write_text(json.dumps({"keys": [
            {"sha256": hashlib.sha256(b"right").hexdigest(), "tenant": "alice"}]}))
        with Server(folder / "store", "--keys", keys) as server, new_page(server.url) as page:
            page.wait_for_text("#key-says", "This server asks for a key")
            page.tab_to("#key")
            page.press("wrong", Keys.ENTER)
            page.wait_for_text("#key-says", "does not know this key")
            page.tab_to("#key")
            page.press("right", Keys.ENTER)
            page.wait_for_text("#key-says", "The key is accepted.")
            page.wait_for_text("#model", "smollm2")
            page.wait_for_text("#contexts-count", "0 contexts")
            page.driver.refresh()
            page.wait_for_text("#model", "smollm2")
            assert page.js("return localStorage.length + document.cookie.length") == 0


def test_a_server_that_is_gone_is_told():
    with new_folder() as folder, Server(folder / "store") as server, new_page(server.url) as page:
        page.wait_for_text("#model", "smollm2")
        server.kill()
        page.wait_for_text("#status", "the server does not answer")
