"""Recall and time of `attndb find` on generated facts, beside BM25 on the same passages of words.

    python bench/python/find_needles.py FOLDER make [DOCUMENTS]       # texts and facts
    python bench/python/find_needles.py FOLDER import ATTNDB          # some 2K tokens each
    python bench/python/find_needles.py FOLDER ask ATTNDB [QUESTIONS]

Each document is a piece of Python's own documentation, or of its library's sources, with six facts
at random lines. Facts come in eight forms with other names each time, so that each form is there
many times over. A fact is asked for in its own words and in others (the name stays). Found: the
passage has half of the fact's sentence, and is of its document. What is not imported yet is not
asked for. The forms are none of those that attndb finds its heads by.
"""

from __future__ import annotations

import json
import math
import random
import re
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

from make_text import topics_text, with_sources

DOCUMENT_BYTES = 8000
FACTS = 6
WORDS = 48  # Words in a passage of BM25: some 64 tokens.

FIRST = (
    "Alder Brenna Corin Dalia Edwin Farah Gregor Hanna Ivor Jasmin Kasper Lorena Magnus Nadia "
    "Osric Petra Quentin Rosalind Stefan Tamara Ulric Vera Wendell Xenia Yorick Zelda"
).split()
LAST = (
    "Ashdown Birkett Calloway Draper Ellery Fenwick Garrick Holloway Ingram Jessop Kendrick "
    "Lockwood Merriman Norwood Oakley Pemberton Quill Radcliffe Sedgwick Thackeray Underhill "
    "Venables Whitlock Yardley"
).split()
TOWN = (
    "North South Old New Upper Lower East West".split(),
    "Marl Thorn Brack Elm Cinder Fal Gren Hol Kest Lar Mox Pell Rav Sten Tarn Wex Yar".split(),
    "haven ford bridge minster field ton wick mouth stead burgh".split(),
)
OBJECTS = (
    "flower pot,door mat,stone frog,mail box,garden gnome,rain barrel,wooden bench,bird house,"
    "old lantern,clay jug"
).split(",")
JOBS = (
    "baker,surgeon,glass blower,pilot,watchmaker,gardener,librarian,carpenter,violinist,beekeeper,"
    "tailor,chemist"
).split(",")
FOODS = (
    "lentil soup,grilled trout,mushroom pie,apple strudel,fried noodles,pumpkin curry,garlic bread,"
    "onion tart,cherry cake,potato salad"
).split(",")
THINGS = (
    "porcelain dolls,steam engines,meteorites,old maps,musical clocks,butterflies,silver spoons,"
    "ship models,medieval armour,fossil fish"
).split(",")
PETS = "parrot,tortoise,ferret,pony,goat,greyhound,hedgehog,owl,lizard,donkey".split(",")
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


class Facts:
    """Facts of eight forms in turn: (fact, question in its words, question in others)."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.pick = self.chance.choice

    def person(self) -> str:
        return f"{self.pick(FIRST)} {self.pick(LAST)}"

    def town(self) -> str:
        return f"{self.pick(TOWN[0])} {self.pick(TOWN[1])}{self.pick(TOWN[2])}"

    def make(self, form: int) -> tuple[str, str, str]:
        return (self.key, self.ferry, self.job, self.code, self.dish, self.bridge, self.museum,
                self.pet)[form % 8]()

    def key(self) -> tuple[str, str, str]:
        p, a = self.person(), self.pick(OBJECTS)
        return (
            f"{p} keeps the spare key under the {a}.",
            f"Where does {p} keep the spare key?",
            f"Where is the second door opener of {p} hidden?",
        )

    def ferry(self) -> tuple[str, str, str]:
        t, day = self.town(), self.pick(DAYS)
        a = f"{self.chance.randint(5, 11)}:{self.pick(['10', '25', '40', '55'])}"
        return (
            f"The ferry to {t} leaves at {a} every {day}.",
            f"When does the ferry to {t} leave?",
            f"At what time can I take the boat that goes to {t}?",
        )

    def job(self) -> tuple[str, str, str]:
        p, a, t = self.person(), self.pick(JOBS), self.town()
        return (
            f"{p} moved to {t} and works there as a {a}.",
            f"As what does {p} work?",
            f"What is the profession of {p}?",
        )

    def code(self) -> tuple[str, str, str]:
        t, a = self.town(), self.chance.randint(10000, 99999)
        return (
            f"The access code of the warehouse in {t} is {a}.",
            f"What is the access code of the warehouse in {t}?",
            f"Which digits open the storage building at {t}?",
        )

    def dish(self) -> tuple[str, str, str]:
        p, a = self.person(), self.pick(FOODS)
        return (
            f"The favourite dish of {p} is {a}.",
            f"What is the favourite dish of {p}?",
            f"What does {p} like to eat most?",
        )

    def bridge(self) -> tuple[str, str, str]:
        t, a, p = self.town(), self.chance.randint(1720, 1980), self.person()
        return (
            f"The bridge of {t} was built in {a} by the engineer {p}.",
            f"When was the bridge of {t} built?",
            f"In which year did people finish the river crossing at {t}?",
        )

    def museum(self) -> tuple[str, str, str]:
        t, a = self.town(), self.pick(THINGS)
        return (
            f"The museum of {t} is famous for its collection of {a}.",
            f"For what collection is the museum of {t} famous?",
            f"What do visitors come to see on display at {t}?",
        )

    def pet(self) -> tuple[str, str, str]:
        p, a = self.person(), self.pick(PETS)
        return (
            f"{p} has a {a} as a pet, which sleeps in the kitchen.",
            f"What pet does {p} have?",
            f"Which animal lives in the home of {p}?",
        )


def make(folder: Path, num_documents: int) -> None:
    maker = Facts(seed=1)
    topics = topics_text()
    num_bytes = max(len(topics), 100 * 9000 + 20000, (num_documents + 1) * DOCUMENT_BYTES)
    text = with_sources(topics, num_bytes).decode(errors="ignore")
    (folder / "documents").mkdir(parents=True, exist_ok=True)
    facts: list[dict[str, str]] = []
    asked: set[str] = set()
    for document in range(num_documents):
        name = f"{document:03d}"
        lines = text[document * DOCUMENT_BYTES : (document + 1) * DOCUMENT_BYTES].split("\n")
        for _ in range(FACTS):
            form = len(facts)
            fact, same, other = maker.make(form)
            while same in asked:
                fact, same, other = maker.make(form)
            asked.add(same)
            lines.insert(maker.chance.randrange(1, len(lines)), fact)
            facts.append({"document": name, "fact": fact, "same": same, "other": other})
        (folder / "documents" / f"{name}.txt").write_text("\n".join(lines))
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))
    print(f"{num_documents} documents, {len(facts)} facts, {2 * len(facts)} questions")


def attndb(program: str, folder: Path, *arguments: str) -> dict:
    command = [program, *arguments, "--db", str(folder / "store"), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def import_documents(program: str, folder: Path) -> None:
    for path in sorted((folder / "documents").glob("*.txt")):
        report = attndb(program, folder, "import", str(path), "--no-planes")
        print(path.name, report["num_tokens"], flush=True)


def is_found(fact: dict, document: str, text: str) -> bool:
    sentence = fact["fact"]
    half = len(sentence) // 2
    text = " ".join(text.split())
    return document == fact["document"] and (sentence[:half] in text or sentence[half:] in text)


class Bm25:
    """Okapi BM25 (k1 = 1.2, b = 0.75) over passages of WORDS words, half overlapping."""

    def __init__(self, documents: dict[str, str]) -> None:
        self.passages: list[tuple[str, str]] = []
        for name, text in documents.items():
            words = text.split()
            for begin in range(0, len(words), WORDS // 2):
                self.passages.append((name, " ".join(words[begin : begin + WORDS])))
        self.counts = [Counter(self.terms(text)) for _, text in self.passages]
        self.lengths = [sum(counts.values()) for counts in self.counts]
        self.mean = statistics.mean(self.lengths)
        self.having = Counter(term for counts in self.counts for term in counts)

    @staticmethod
    def terms(text: str) -> list[str]:
        return re.findall(r"[a-z0-9]+", text.lower())

    def ask(self, question: str, limit: int) -> list[tuple[str, str]]:
        scores = [0.0] * len(self.passages)
        for term in self.terms(question):
            having = self.having.get(term, 0)
            idf = math.log(1 + (len(self.passages) - having + 0.5) / (having + 0.5))
            for i, counts in enumerate(self.counts):
                if (n := counts.get(term, 0)) > 0:
                    norm = 1.2 * (0.25 + 0.75 * self.lengths[i] / self.mean)
                    scores[i] += idf * n * 2.2 / (n + norm)
        best, taken = [], set()
        for i in sorted(range(len(scores)), key=lambda i: -scores[i]):
            if i - 1 in taken or i + 1 in taken:  # The other half of one that is told.
                continue
            taken.add(i)
            best.append(self.passages[i])
            if len(best) == limit:
                break
        return best


def ask(program: str, folder: Path, num_questions: int) -> None:
    names = {context["name"] for context in attndb(program, folder, "ls")["contexts"]}
    facts = [f for f in json.loads((folder / "facts.json").read_text()) if f["document"] in names]
    facts = facts[:: max(1, 2 * len(facts) // num_questions)][: num_questions // 2]
    documents = {name: (folder / "documents" / f"{name}.txt").read_text() for name in sorted(names)}
    bm25 = Bm25(documents)
    places: dict[tuple[str, str], list[int]] = {}
    find_ms, question_ms = [], []
    found: dict = {}
    for fact in facts:
        for words in ("same", "other"):
            found = attndb(program, folder, "find", fact[words], "--quiet")
            find_ms.append(found["find_ms"])
            question_ms.append(found["question_ms"])
            ours = [(p["context"], p["text"]) for p in found["passages"]]
            for method, passages in (("attndb", ours), ("BM25", bm25.ask(fact[words], 10))):
                right = [i for i, (name, text) in enumerate(passages) if is_found(fact, name, text)]
                places.setdefault((method, words), []).append(right[0] if right else 10)
    print(
        f"{len(names)} documents, {found['num_tokens']} tokens, {found['num_passages']} passages, "
        f"{found['key_bytes'] / 2**20:.0f} MiB of keys, {len(facts)} facts"
    )
    for (method, words), at in sorted(places.items()):
        recall = [sum(p < k for p in at) / len(at) for k in (1, 3, 5, 10)]
        print(f"{method:7} {words:6} recall@1 {recall[0]:.3f} @3 {recall[1]:.3f} "
              f"@5 {recall[2]:.3f} @10 {recall[3]:.3f}")
    print(f"find {statistics.median(find_ms):.1f} ms (least {min(find_ms):.1f}), "
          f"the question's forward {statistics.median(question_ms):.1f} ms")


def main() -> None:
    folder, what, *rest = Path(sys.argv[1]), *sys.argv[2:]
    if what == "make":
        make(folder, int(rest[0]) if rest else 100)
    elif what == "import":
        import_documents(rest[0], folder)
    elif what == "ask":
        ask(rest[0], folder, int(rest[1]) if len(rest) > 1 else 200)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
