"""Goal: a person finds conversations in the page's list, opens them, goes on with them after a
reload and after a restart of the server, and deletes them.

Method: Debian's Chromium, headless, on the real server and model, by the keyboard.
"""

import json

import pytest
from openai import OpenAI
from selenium.webdriver.common.keys import Keys

from browser import new_page, shares
from server_case import CAPITAL, CONTEXT_HEADER, WAIT, HttpError, Server, user
from tools_test import CALLS, TEMPLATE, TOOLS, named


def converse(page, server, *questions, waits=True):
    """Asks on; the names of the turns. `waits`: each time until the turn before is stored."""
    names = []
    for question in questions:
        page.ask(question)
        facts = page.wait_for_answer(len(page.answers()))[1]
        names.append(facts.rpartition("stored as ")[2])
        if waits:
            server.wait_until_durable(names[-1])
    for name in names:
        server.wait_until_durable(name)
    return names


class TestConversations:
    def item(self, page, name):
        selector = f"#conversations li[data-name='{name}']"
        page.wait_for(lambda: page.all(selector), f"{name} is listed")
        return selector

    def reload(self, page):
        page.driver.refresh()
        page.wait_for_text("#model", "smollm2")
        page.set_field("#temperature", "0")
        page.set_field("#max_tokens", "24")
        page.tab_to("#question", back=True)

    def test_is_opened_and_continued_after_a_reload_and_a_restart(self, folder):
        with Server(folder / "store") as server, new_page(server.url) as page:
            page.wait_for_text("#model", "smollm2")
            self.reload(page)
            [name] = converse(page, server, CAPITAL)
            assert page.js("return location.hash") == "#" + name
            self.reload(page)
            page.wait_for_text("#log .assistant > .text", "Paris")
            assert page.text("#log .user .text") == CAPITAL
            assert page.text("#chat-title") == CAPITAL
            page.ask("And of Italy?")
            text, facts = page.wait_for_answer(2)
            assert "Rome" in text
            cached, asked = shares(facts)
            assert cached > 20 and asked - cached < 20, "only what is new is run"
            name = facts.rpartition("stored as ")[2]
            port = server.port
            server.wait_until_durable(name)
            server.stop()
            with Server(folder / "store", port=port):
                self.reload(page)
                page.wait_for(lambda: len(page.answers()) == 2, "both answers are there")
                page.ask("And of Spain?")
                text, facts = page.wait_for_answer(3)
                assert "Madrid" in text
                assert shares(facts)[1] - shares(facts)[0] < 20

    def test_each_is_listed_once_the_newest_first_and_opens(self, page, server):
        first = converse(page, server, "Name a fish.", "And a bird?")
        page.tab_to("#new-chat", back=True)
        page.press(Keys.ENTER)
        [second] = converse(page, server, "Name a tree.")
        older, newer = self.item(page, first[1]), self.item(page, second)
        page.wait_for(lambda: not page.all(f"#conversations li[data-name='{first[0]}']"),
                      "its first turn is not listed")
        titles = page.conversations()
        assert titles.index("Name a tree.") < titles.index("Name a fish.")
        assert page.find(f"{newer} .open").get_attribute("aria-current") == "true"
        assert "token" in page.text(f"{older} .facts")
        page.tab_to(f"{older} .open", back=True)
        page.press(Keys.ENTER)
        page.wait_for(lambda: len(page.answers()) == 2, "it is opened")
        page.wait_for_text("#chat-says", "Opened: 4 messages")
        page.wait_for(lambda: page.focused() == page.find("#question"), "it can be continued")
        assert page.text("#log .user .text") == "Name a fish."
        assert page.find(f"{older} .open").get_attribute("aria-current") == "true"
        assert page.find(f"{newer} .open").get_attribute("aria-current") is None

    def test_is_listed_once_if_turns_begin_before_the_last_is_stored(self, page, server):
        def listed():
            titled = [item for item in page.all("#conversations li")
                      if "Name a metal." in item.text]
            return [item.get_attribute("data-name") for item in titled]

        names = converse(page, server, "Name a metal.", "And a gem?", "And a herb?", waits=False)
        self.item(page, names[2])
        page.wait_for(lambda: listed() == names[2:], "its newest turn alone is listed")
        branch = server.ask("And a fruit?", context=names[0]).context
        told = server.wait_until_durable(branch)
        ids = [server.describe(name)["id"] for name in names]
        assert [server.describe(name)["continues"] for name in names] == [None, *ids[:2]]
        assert told["continues"] == ids[0]
        page.driver.refresh()
        # The turn from which two go on is listed, too.
        page.wait_for(lambda: listed() == [branch, names[2], names[0]], "the branch is listed")

    def test_is_deleted_with_all_its_turns_but_asks_first(self, page, server):
        names = converse(page, server, "Name a flower.", "And a stone?")
        item = self.item(page, names[1])
        page.tab_to(f"{item} .remove", back=True)
        page.press(Keys.ENTER)
        page.wait_for_text("#confirm-question", "Name a flower.")
        page.press(Keys.ESCAPE)
        assert server.describe(names[1])["durable"], "Escape keeps it"
        page.press(Keys.ENTER)
        page.tab_to("#confirm-yes")
        page.press(Keys.ENTER)
        page.wait_for(lambda: not page.all(item), "it is gone from the list")
        for name in names:
            with pytest.raises(HttpError, match="404"):
                server.describe(name)
        page.wait_for(lambda: page.answers() == [], "what was open is gone, too")
        assert page.js("return location.hash") == ""

    def test_one_that_is_gone_is_told(self, server):
        with new_page(server.url + "/#turn-0123") as page:
            page.wait_for_text("#log .error", "turn-0123")
            assert page.js("return location.hash") == ""

    def test_shows_the_calls_of_tools(self, page, server):
        asked = server.json("POST", "/v1/responses", {"max_output_tokens": 8, "input": [
            {"role": "user", "content": "What is the weather in Oslo?"},
            {"type": "function_call", "call_id": "c1", "name": "get_weather",
             "arguments": '{"place": "Oslo"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "<b>Rain</b>"}]})
        page.driver.get(f"{server.url}/#{asked['id'].removeprefix('resp_')}")
        page.driver.refresh()
        page.wait_for_text("#log .call p", "Calls get_weather")
        assert page.text("#log .call pre") == '{\n  "place": "Oslo"\n}'
        assert page.text("#log .tool .text") == "<b>Rain</b>"
        assert not page.find("#log .tool .text").is_displayed(), "results are folded"

    def test_shows_the_calls_of_a_chat_of_another_client(self, folder):
        with (Server(folder / "store", "--chat-template", TEMPLATE) as server,
              OpenAI(base_url=server.url + "/v1", api_key="none", timeout=WAIT,
                     max_retries=0) as client):
            messages = [user("When does the ferry leave?")]
            fields = {"model": "smollm2", "temperature": 0, "max_tokens": 80, **CALLS}
            for name, result in (("ferry", "<b>at nine</b>"), ("weather", "rain")):
                said = client.chat.completions.create(messages=messages, tool_choice=named(name),
                                                      **fields).choices[0].message
                messages += [said, {"role": "tool", "content": result,
                                    "tool_call_id": said.tool_calls[0].id}]
            raw = client.chat.completions.with_raw_response.create(
                model="smollm2", messages=messages, tools=TOOLS, temperature=0, max_tokens=8)
            given = [call.function.arguments for said in messages[1::2] for call in said.tool_calls]
            context = raw.headers[CONTEXT_HEADER]
            server.wait_until_durable(context)
            with new_page(f"{server.url}/#{context}") as page:
                page.wait_for(lambda: len(page.all("#log .call")) == 2, "both calls are there")
                names = [code.text for code in page.all("#log .call p code")]
                assert names == ["ferry", "weather"]
                shown = [pre.text for pre in page.all("#log .call pre")]
                assert [json.loads(text) for text in shown] == [json.loads(text) for text in given]
                texts = page.js("return [...document.querySelectorAll('#log .assistant > .text')]"
                                ".map((one) => one.textContent)")
                assert texts[:2] == ["", ""], "the calls alone are shown"
                results = page.js("return [...document.querySelectorAll('#log .tool .text')]"
                                  ".map((one) => one.textContent)")
                assert results == ["<b>at nine</b>", "rain"]

    def test_a_narrow_window_has_one_column(self, page):
        def places():
            return page.js("return ['nav', '#chat'].map((selector) =>"
                           " document.querySelector(selector).getBoundingClientRect().left)")

        left, right = places()
        assert left < right
        page.resize(690, 800)
        left, right = places()
        assert left == right
        page.wait_for(lambda: not page.find("#conversations-filter").is_displayed(),
                      "the list is folded")
        page.tab_to("#conversations-count", back=True)
        page.press(Keys.ENTER)
        assert page.find("#conversations-filter").is_displayed()
