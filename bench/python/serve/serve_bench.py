"""Measures `attndb serve` beside llama.cpp's own server, built from the same sources.

    python bench/python/serve/serve_bench.py --attndb FILE --llama-server FILE --model GGUF
        --text FILE --data FOLDER --json FILE --commit COMMIT [--quick] [SCENARIO...]

Method: both servers run at the same time, on 2 threads each, and take turns, in an order that
        alternates, each when neither has anything left to do: the one that is not asked costs
        nothing; medians of rounds. Prompts are pieces of one text; replies are greedy and of one
        length (`ignore_eos`). Where a prompt should be known, an answer that says otherwise ends
        the run. Both get the same flags in every scenario but for what is in the list below:
        llama-server's are those that were fastest here, which `flags` measures (5 minutes; it runs
        only where it is named).
Result: figures of the scenarios that ran; the others stay in FILE as they were.
        bench/serve_report.py makes the table of docs/serving.md of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import scenarios
from scenarios import Figures, Texts
from servers import CHOSEN, Attndb, Llama, Server, machine

AUTO = "auto(error=0.01)"
# llama-server: memory for prompts that have left their slots is on by default (--cache-ram).
LONG = ("--rope-scaling", "yarn:4")
# What else llama-server could be started with, the chosen ones first.
LLAMA_FLAGS = (CHOSEN, ("-fa", "off"), (*CHOSEN, "--kv-unified"))
LLAMA_LONG = ("--rope-scaling", "yarn", "--rope-scale", "4", "--yarn-orig-ctx", "8192")


class Bench:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.quick = args.quick
        self.data = Path(args.data)

    def attndb(self, plan: str = "full", flags: Sequence[str] = (), name: str = "attndb",
               store: Path | None = None) -> Attndb:
        server = Attndb(self.data / "attndb", self.args.attndb, self.args.model, plan, flags, store)
        server.name = name
        if store is None:
            server.forget()
        return server

    def llama(self, context: int, slots: int, flags: Sequence[str] = (),
              chosen: Sequence[str] = CHOSEN) -> Llama:
        folder = self.data / "llama-server"
        return Llama(folder, self.args.llama_server, self.args.model,
                     ["-c", str(context * slots), "-np", str(slots), "--slot-save-path",
                      str(folder), *flags], chosen)

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def texts(self, server: Server) -> Texts:
        return Texts(Path(self.args.text), server)

    def with_auto(self, attndb: Attndb) -> Attndb:
        """The same running server, asked with another plan."""
        auto = Attndb(attndb.folder, attndb.binary, attndb.model, AUTO, store=attndb.store)
        auto.name, auto.port, auto.process = "attndb_auto", attndb.port, attndb.process
        return auto

    def together(self) -> Figures:
        return self.decode(8, self.pick(4000, 500), 64, self.pick(5, 2))

    def alone(self) -> Figures:
        return self.decode(1, 60, 128, self.pick(25, 2))  # Short ones: they vary by a tenth.

    def decode(self, num: int, num_tokens: int, reply: int, rounds: int) -> Figures:
        attndb, llama = self.attndb(), self.llama(num_tokens + 512, num)
        with running(attndb, llama):
            conversations = self.texts(attndb).conversations(num, num_tokens)
            return scenarios.decode_together([attndb, self.with_auto(attndb), llama],
                                             conversations, reply, rounds)

    def long(self) -> Figures:
        """One conversation of 32K tokens. What each has read of it is kept for the next run."""
        num_tokens = self.pick(32000, 9000)
        attndb = self.attndb(AUTO, LONG, "attndb_auto", self.data / f"long_store_{num_tokens}")
        llama = self.llama(num_tokens + 512, 1, LLAMA_LONG)
        slot = f"long_{num_tokens}"
        with running(attndb, llama):
            if (llama.folder / slot).exists():
                scenarios.restore_slot(llama, slot)
            conversation = self.texts(attndb).conversation(num_tokens)
            llama.chat(conversation, 1)
            if not (llama.folder / slot).exists():
                scenarios.save_slot(llama, slot)
            return scenarios.decode_together([attndb, llama], [conversation], 48, self.pick(15, 2))

    def next_turn(self) -> Figures:
        attndb, llama = self.attndb(), self.llama(8192, 1)
        with running(attndb, llama):
            return scenarios.next_turn([attndb, llama], self.texts(attndb),
                                       self.pick(6000, 1000), self.pick(5, 2))

    def choices(self) -> Figures:
        num, num_tokens = 8, self.pick(7000, 200)
        attndb, llama = self.attndb(), self.llama(8192, num)
        with running(attndb, llama):
            return scenarios.choices([attndb, llama], self.texts(attndb), num, num_tokens,
                                     self.pick(128, 16), self.pick(3, 2))

    def bound(self) -> Figures:
        attndb, llama = self.attndb(), self.llama(8192, 1)
        with running(attndb, llama):
            return scenarios.bound([attndb, llama], self.pick(128, 16), self.pick(25, 2))

    def beside(self) -> Figures:
        num_tokens = self.pick(7900, 2000)
        attndb, llama = self.attndb(), self.llama(8192, 4)
        with running(attndb, llama):
            return scenarios.long_prompt_beside([attndb, llama], self.texts(attndb), num_tokens,
                                                self.pick(3, 1))

    def round_robin(self) -> Figures:
        attndb, llama = self.attndb(), self.llama(2048, 4)
        with running(attndb, llama):
            return scenarios.round_robin([attndb, llama], self.texts(attndb), self.pick(64, 6),
                                         self.pick(1500, 500))

    def connections(self) -> Figures:
        """llama-server with a thread for each connection, and what its own choice makes of it."""
        readers = 50
        attndb, llama = self.attndb(), self.llama(4096, 4, ("--threads-http", "64"))
        with running(attndb, llama):
            figures = scenarios.idle_connections([attndb], 1000)
            figures |= scenarios.slow_readers([attndb, llama], readers, self.pick(5, 2))
        llama = self.llama(4096, 4)
        with running(llama):
            return figures | {"default_stopped": float(scenarios.is_stopped(llama, readers))}

    def start(self) -> Figures:
        attndb, llama = self.attndb(), self.llama(8192, 1)
        with running(attndb, llama):
            return scenarios.start_seconds([attndb, llama], self.pick(7, 2))

    def flags(self) -> Figures:
        """llama-server alone, with each choice of its flags. Its cache of prompts that have left
        their slots is off: with --kv-unified, slots that wait would go there."""
        figures: Figures = {}
        num, num_tokens = 8, self.pick(4000, 500)
        for chosen in LLAMA_FLAGS:
            llama = self.llama(num_tokens + 512, num, ("--cache-ram", "0"), chosen)
            with running(llama):
                conversation = self.texts(llama).conversation(num_tokens)
                found = scenarios.flags(llama, conversation, num, 16, self.pick(3, 2))
            figures |= {f"{' '.join(chosen)}/{what}": value for what, value in found.items()}
        return figures


class running:  # noqa: N801
    """Servers that stop at the end of a `with`."""

    def __init__(self, *servers: Server) -> None:
        self.servers = servers

    def __enter__(self) -> None:
        for server in self.servers:
            server.start()

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            if server.process is not None and server.process.poll() is None:
                server.stop()


SCENARIOS = {"together": Bench.together, "alone": Bench.alone, "next_turn": Bench.next_turn,
             "choices": Bench.choices, "bound": Bench.bound, "beside": Bench.beside,
             "round_robin": Bench.round_robin, "connections": Bench.connections,
             "start": Bench.start, "long": Bench.long}
OPTIONAL = {"flags": Bench.flags}


def main() -> None:
    parser = argparse.ArgumentParser()
    for flag in ("attndb", "llama-server", "model", "text", "data", "json", "commit"):
        parser.add_argument(f"--{flag}", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("scenarios", nargs="*")
    args = parser.parse_args()
    path = Path(args.json)
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in args.scenarios or SCENARIOS:
        figures = (SCENARIOS | OPTIONAL)[name](Bench(args))
        kept[name] = {"commit": args.commit, "machine": machine(), "figures": figures}
        print(name, json.dumps({key: round(value, 4) for key, value in figures.items()}),
              flush=True)
        path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    shutil.rmtree(Path(args.data) / "attndb", ignore_errors=True)


if __name__ == "__main__":
    main()
