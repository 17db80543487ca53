"""Takes the pictures of the page that docs/serving.md shows: page_shots.py --attndb PATH.

A new store with the demo's text and some conversations, SmolLM2, Chromium: docs/images/page_*.png.
"""

import argparse

from selenium.webdriver.common.keys import Keys

import server_case
from browser import new_page
from server_case import ROOT, Server, new_folder, run_attndb

IMAGES = ROOT / "docs/images"
DOCUMENT = ROOT / "examples/data/lighthouse.md"


def take(page, selector, name):
    page.find(selector).screenshot(str(IMAGES / f"page_{name}.png"))


def prepare(store):
    run_attndb(store, "import", "-m", "smollm2", "--name", "handbook", DOCUMENT)
    run_attndb(store, "pin", "handbook")


def converse(server):
    """Conversations of others, so that there is something to see; their newest turns."""
    turns = []
    for question in ("Tell me the capital of France.", "Which is the largest ocean?",
                     "How many legs has a spider?"):
        reply = server.ask(question, max_tokens=40)
        server.wait_until_durable(reply.context)
        turns.append(server.ask("Are you sure?", max_tokens=40, context=reply.context).context)
    return turns


def shoot(page, server):
    page.prefer("light")
    page.resize(1280, 900)
    page.wait_for_text("#model", "smollm2")
    page.set_field("#temperature", "0")
    page.set_field("#max_tokens", "40")
    page.set_field("#context", "handbook")
    page.tab_to("#ask summary", back=True)
    page.press(Keys.ENTER)  # The settings are out of the way.
    page.ask("Who is the captain of the Petrel?")
    name = page.wait_for_answer(1)[1].rpartition("stored as ")[2]
    server.wait_until_durable(name)
    page.ask("How tall is the tower?")
    page.wait_for_answer(2)
    for turn in converse(server):
        page.wait_for(lambda: page.all(f"#conversations li[data-name='{turn}']"), "it is listed")
    page.wait_for(lambda: page.text("#turns") == "0 / 0", "it rests")
    page.js("document.querySelector('#log').scrollTop = 1e6; scrollTo(0, 0)")
    page.driver.save_screenshot(str(IMAGES / "page_chat.png"))
    page.resize(1000, 1400)  # One column, so that the table is not cut.
    take(page, "section[aria-labelledby='contexts-title']", "contexts")
    page.resize(1280, 900)
    page.tab_to("#log .assistant:last-child button")
    page.press(Keys.ENTER)
    page.wait_for_text("#picture-says", "was chosen")
    # The 3 of "38 metres": a head of layer 18 looks at the line that says so.
    page.tab_to("#picture-token")
    page.press([Keys.CONTROL, "a"], "5", Keys.TAB)
    page.wait_for_text("#picture-says", "token 5 of")
    page.tab_to("#picture-layer")
    page.press("18")
    page.tab_to("#heat")
    page.press(*[Keys.ARROW_DOWN] * 7, *[Keys.ARROW_RIGHT] * 38)
    take(page, "#picture", "picture")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attndb", required=True)
    server_case.use_binary(parser.parse_args().attndb)
    with new_folder() as folder:
        prepare(folder / "store")
        with Server(folder / "store") as server, new_page(server.url) as page:
            shoot(page, server)


if __name__ == "__main__":
    main()
