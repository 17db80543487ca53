"""How fast are other libraries' vector indexes on heads of attention, at which recall?

    python bench/python/index_peers.py FOLDER [--peers lorann,...] [--heads L3H0,...] [--k 100]
                                       [--roargraph DIR] [--rounds 5]

Runs in the environment that ``scripts/setup.sh peers`` makes. A peer whose library is missing is
reported as left out, with the reason.

Input:   FOLDER as ``attndb-bench index --peers`` makes it: for each head of ``heads.json`` ("name",
         "label", "group_size", ...) float32 ``<head>.keys.npy`` [n, d], ``<head>.train.npy``
         [m, d], queries that an index may learn from, ``<head>.test.npy`` [t * g, d], rows of one
         group of g q heads together, and ``<head>.truth.npy`` [t * g, >= k] int32, exact answers,
         best first.
Output:  one JSON object a line.
         A row: head, label, peer, build and search (parameters), recall (of the k), us_per_query,
         us_fastest, cpu_us, rows_per_call, rounds, build_s, index_bytes (as the library saves it,
         null if it cannot tell) and visited (share of the keys that were scored, null if the
         library does not count).
         A peer that did not run: {"head": null, "peer": ..., "left_out": why}.
         After each head's rows a summary: {"summary": head, "best": {peer: {"0.95": row or null,
         "0.99": ...}}}, the row with the largest QPS that has this recall. The same as a table
         goes to stderr.
Method:  searches use one thread, builds all cores. A search is what a user would call, from rows to
         ids, in Python; RoarGraph is timed by its own program in C++, to whole milliseconds of a
         round. A call takes the rows of one group, or one row where that is faster (tried for all
         searches below 100 us a query); the faster one is reported. us_per_query is the median over
         rounds of all test queries, cpu_us that of CPU time, which a busy machine moves less. All
         settings are first run once; those that another one of the same peer beats in recall and by
         1.25 x in time, and those with recall below 0.9, are reported with that round's time
         (rounds: 1). The others of the peer then alternate for the rounds. A sweep ends at recall
         0.998, or where it rises by less than 0.001.
         Keys minus their mean ("keys": "centred") have the same answers, and suit most peers; those
         that cluster get both in the middle of their sweep.
Peers:   lorann      LoRANN, learning from the training queries; sqrt(n) clusters and around.
         ivf         faiss, inverted lists of float32, inner product.
         pqfs        faiss, PQ of 4 bits for each 2 channels by fast scan, lists and flat; refined.
         pq          faiss, product codes of 2 x 6, 4 x 8 and 8 x 8 bits, all of them scanned and
                     nothing refined: the recall of codes alone.
         numpy_pq    The same by a program of its own, in NumPy: k-means from random keys.
         rabitq_fs   faiss, lists of RaBitQ codes by fast scan; refined.
         rabitq      RaBitQ's own library: lists with raw vectors to rerank, and with 8-bit codes.
         roargraph   RoarGraph, its authors' programs test_build_roargraph and test_search_roargraph
                     (github.com/matchyc/RoarGraph, 7c9ef95) from DIR, each compiled with
                       g++ -std=c++17 -Ofast -march=native -fopenmp -Iinclude src/index.cpp
                         src/index_bipartite.cpp tests/<program>.cpp -lboost_program_options
                     with the paper's parameters, and with degree 96, which VIBE found best; exact
                     kNN of the training queries is in build_s.
         hnsw        faiss, HNSW of degree 32 on inner products: what query-unaware graphs do.
         flat        faiss, exact.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Search = Callable[[Array], NDArray[Any]]  # Rows [b, d] to ids [b, k].
Parameters = dict[str, Any]
Row = dict[str, Any]

THREADS = os.cpu_count() or 1
LEVELS = (0.95, 0.99)
SHARES = (1 / 256, 1 / 128, 3 / 256, 1 / 64, 3 / 128, 1 / 32, 3 / 64, 1 / 16, 3 / 32, 1 / 8,
          3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4)  # Shares of the clusters that are visited.
TIMED_RECALL, SLACK = 0.9, 1.25
SLOW_S = 100e-6  # A query. Above, what a call costs cannot decide whether one row a call is faster.
FULL_RECALL, LEAST_RISE = 0.998, 0.001
ROARGRAPH = ("test_build_roargraph", "test_search_roargraph")
NEIGHBOURS, DEGREES, BUILD_BEAM = 100, (35, 96), 500
BEAMS = (100, 125, 150, 200, 300, 400, 600, 800, 1200, 1600)


@dataclass
class Head:
    name: str
    label: str
    group: int
    k: int
    keys: Array
    train: Array
    test: Array
    truth: NDArray[np.int32]

    @staticmethod
    def load(folder: Path, entry: Row, k: int) -> Head:
        name = entry["name"]
        kinds = ("keys", "train", "test", "truth")
        keys, train, test, truth = (np.load(folder / f"{name}.{kind}.npy") for kind in kinds)
        group = int(entry["group_size"])
        if truth.shape[1] < k or len(truth) != len(test) or len(test) % group:
            sys.exit(f"{name}: expected truth of {k} or more for each row of whole groups of "
                     f"{group}, found {truth.shape} for {test.shape}")  # fmt: skip
        return Head(name, entry["label"], group, k, keys, train, test, truth[:, :k])

    def centred(self) -> Array:
        return np.ascontiguousarray(self.keys - self.keys.mean(axis=0))

    def recall(self, ids: NDArray[Any]) -> float:
        row = np.arange(len(ids), dtype=np.int64)[:, None] * len(self.keys)
        found = (ids + row)[ids >= 0]  # Faiss fills up with -1.
        return len(np.intersect1d(found, self.truth + row)) / self.truth.size

    def rounded_root(self, factor: float) -> int:
        """The power of two next to factor * sqrt(n): numbers of clusters."""
        return int(2 ** round(np.log2(factor * len(self.keys) ** 0.5)))


@dataclass
class Setting:
    """One index with one way to search it."""

    build: Parameters
    search: Parameters
    call: Search
    build_s: float
    index_bytes: int | None
    visited: Callable[[], int] | None = None  # Keys scored since the last call of it.
    recall: float = 0.0
    visited_share: float | None = None
    first_s: float = 0.0
    times: dict[int, list[tuple[float, float]]] = field(default_factory=dict)  # By rows a call.


Sweep = list[tuple[Parameters, Search]]


@dataclass
class Index:
    """A built index; each sweep in order of growing effort."""

    build: Parameters
    build_s: float
    index_bytes: int | None
    sweeps: list[Sweep]
    visited: Callable[[], int] | None = None


def run_round(call: Search, test: Array, step: int) -> tuple[float, float, list[NDArray[Any]]]:
    """Seconds of the clock and of this process, and the answers."""
    start, start_cpu = time.perf_counter(), time.process_time()
    ids = [call(test[row : row + step]) for row in range(0, len(test), step)]
    return time.perf_counter() - start, time.process_time() - start_cpu, ids


def screened(head: Head, index: Index) -> Iterator[Setting]:
    """Runs each setting once: its recall, and whether it may be worth rounds."""
    for sweep in index.sweeps:
        last = -1.0
        for search, call in sweep:
            setting = Setting(index.build, search, call, index.build_s, index.index_bytes)
            if index.visited:
                index.visited()
            wall, cpu, ids = run_round(call, head.test, head.group)
            if index.visited and (visited := index.visited()):
                setting.visited_share = visited / (len(head.test) * len(head.keys))
            setting.recall, setting.first_s = head.recall(np.concatenate(ids)), wall
            setting.times[head.group] = [(wall, cpu)]
            yield setting
            if setting.recall >= FULL_RECALL or setting.recall < last + LEAST_RISE:
                break
            last = setting.recall


def worth_rounds(setting: Setting, all_of_peer: list[Setting]) -> bool:
    return setting.recall >= TIMED_RECALL and not any(
        other.recall >= setting.recall and other.first_s * SLACK < setting.first_s
        for other in all_of_peer
    )


def measure(head: Head, indexes: Iterator[Index], rounds: int) -> Iterator[Row]:
    settings = []
    for index in indexes:
        one_thread()
        settings += list(screened(head, index))
    chosen = [setting for setting in settings if worth_rounds(setting, settings)]
    for setting in chosen:
        is_slow = setting.first_s > SLOW_S * len(head.test)
        setting.times = {step: [] for step in {head.group, head.group if is_slow else 1}}
    for _ in range(rounds):
        for setting in chosen:
            for step, times in setting.times.items():
                wall, cpu, _ = run_round(setting.call, head.test, step)
                times.append((wall, cpu))
    return (row_of(head, setting) for setting in settings)


def row_of(head: Head, setting: Setting) -> Row:
    def median_wall(step: int) -> float:
        return statistics.median(wall for wall, _ in setting.times[step])

    step = min(setting.times, key=median_wall)
    times = setting.times[step]
    us = 1e6 / len(head.test)
    return {
        "build": setting.build, "search": setting.search,
        "recall": round(setting.recall, 5),
        "us_per_query": round(us * median_wall(step), 2),
        "us_fastest": round(us * min(wall for wall, _ in times), 2),
        "cpu_us": round(us * statistics.median(cpu for _, cpu in times), 2),
        "rows_per_call": step, "rounds": len(times),
        "build_s": round(setting.build_s, 3), "index_bytes": setting.index_bytes,
        "visited": setting.visited_share and round(setting.visited_share, 5),
    }


# --- Peers of this process: each yields its indexes, built.


def one_thread() -> None:
    with contextlib.suppress(ImportError):
        importlib.import_module("faiss").omp_set_num_threads(1)


def counts(num_clusters: int) -> list[int]:
    """Of clusters to visit."""
    return sorted({max(1, round(share * num_clusters)) for share in SHARES})


def saved_bytes(save: Callable[[str], object]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        save(str(path))
        return path.stat().st_size


def lorann_search(index: Any, keys: Array, k: int, visit: int, rerank: int) -> Search:
    def search(rows: Array) -> Any:
        assert keys.size  # Keeps them: the library reads them where they are.
        return index.search(rows, k, visit, rerank, n_threads=1)

    return search


def lorann_indexes(head: Head) -> Iterator[Index]:
    lorann = importlib.import_module("lorann")
    variants = [(1, 32, "raw"), (1, 32, "centred"), (0.5, 32, "centred"), (2, 32, "centred"),
                (1, 16, "centred")]  # fmt: skip
    for factor, rank, kind in variants:
        keys = head.keys if kind == "raw" else head.centred()
        clusters = head.rounded_root(factor)
        start = time.perf_counter()
        index = lorann.LorannIndex(keys, clusters, None, rank=rank, distance=lorann.IP)
        index.build(n_threads=THREADS, training_queries=head.train)
        build_s = time.perf_counter() - start
        sweeps = [
            [({"clusters": visit, "rerank": rerank},
              lorann_search(index, keys, head.k, visit, rerank)) for visit in counts(clusters)]
            for rerank in (head.k * percent // 100
                           for percent in (125, 150, 200, 300, 400, 600, 800))
        ]  # fmt: skip
        build = {"clusters": clusters, "rank": rank, "bits": 8, "keys": kind}
        yield Index(build, build_s, saved_bytes(index.save), sweeps)


# The parameters, and their SearchParameters made from the module faiss.
Makers = list[tuple[Parameters, Callable[[Any], Any]]]


def faiss_index(
    head: Head, factory: str, kind: str, sweeps: list[Makers], counter: str = "",
) -> Index:
    """`counter`: faiss' statistics that tell how many keys were scored."""
    faiss = importlib.import_module("faiss")
    keys = head.keys if kind == "raw" else head.centred()
    faiss.omp_set_num_threads(THREADS)
    start = time.perf_counter()
    index = faiss.index_factory(keys.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
    index.train(keys)
    index.add(keys)
    build_s = time.perf_counter() - start

    def searching(make: Callable[[Any], Any]) -> Search:
        parameters = make(faiss)
        return lambda rows: index.search(rows, head.k, params=parameters)[1]

    def visited() -> int:
        count = int(getattr(faiss.cvar, counter).ndis)
        getattr(faiss.cvar, counter).reset()
        return count

    return Index(
        {"index": factory, "keys": kind}, build_s, int(faiss.serialize_index(index).nbytes),
        [[(names, searching(make)) for names, make in sweep] for sweep in sweeps],
        visited if counter else None,
    )


def probing(count: int) -> Callable[[Any], Any]:
    return lambda faiss: faiss.SearchParametersIVF(nprobe=count)


def probing_rabitq(count: int) -> Callable[[Any], Any]:
    def make(faiss: Any) -> Any:
        parameters = faiss.IVFRaBitQSearchParameters()
        parameters.nprobe, parameters.qb = count, 8
        return parameters

    return make


def refined(factor: int, of_base: Callable[[Any], Any] | None = None) -> Callable[[Any], Any]:
    def make(faiss: Any) -> Any:
        more = {} if of_base is None else {"base_index_params": of_base(faiss)}
        return faiss.IndexRefineSearchParameters(k_factor=factor, **more)

    return make


def wide(beam: int) -> Callable[[Any], Any]:
    return lambda faiss: faiss.SearchParametersHNSW(efSearch=beam)


def ivf_indexes(head: Head) -> Iterator[Index]:
    for factor, kind in ((2, "centred"), (4, "raw"), (4, "centred"), (8, "centred")):
        lists = head.rounded_root(factor)
        sweep: Makers = [({"nprobe": count}, probing(count)) for count in counts(lists)]
        yield faiss_index(head, f"IVF{lists},Flat", kind, [sweep], "indexIVF_stats")


def pqfs_indexes(head: Head) -> Iterator[Index]:
    codes = f"PQ{head.keys.shape[1] // 2}x4fs,RFlat"
    flat: Makers = [({"k_factor": factor}, refined(factor)) for factor in (2, 4, 8, 16, 32, 64)]
    yield faiss_index(head, codes, "centred", [flat])
    lists = head.rounded_root(2)
    sweeps: list[Makers] = [
        [({"nprobe": count, "k_factor": factor}, refined(factor, probing(count)))
         for count in counts(lists)]
        for factor in (6, 12, 24, 48)
    ]  # fmt: skip
    yield faiss_index(head, f"IVF{lists},{codes}", "centred", sweeps)


PQ_SHAPES = ((2, 6), (4, 8), (8, 8))  # Parts of a key, and bits of each.
PQ_ROUNDS, PQ_SAMPLE = 25, 16384


def pq_indexes(head: Head) -> Iterator[Index]:
    for parts, bits in PQ_SHAPES:
        yield faiss_index(head, f"PQ{parts}x{bits}", "raw", [[({}, lambda _: None)]])


def nearest(rows: Array, centroids: Array) -> NDArray[Any]:
    return np.argmax(rows @ centroids.T - 0.5 * (centroids**2).sum(axis=1), axis=1)


def numpy_means(rows: Array, count: int, random: np.random.Generator) -> Array:
    centroids = rows[random.permutation(len(rows))[:count]].copy()
    for _ in range(PQ_ROUNDS):
        of_row = nearest(rows, centroids)
        sizes = np.bincount(of_row, minlength=count)
        for channel in range(rows.shape[1]):
            sums = np.bincount(of_row, weights=rows[:, channel], minlength=count)
            centroids[sizes > 0, channel] = (sums / np.maximum(sizes, 1))[sizes > 0]
        centroids[sizes == 0] = rows[random.integers(len(rows), size=int((sizes == 0).sum()))]
    return centroids


def numpy_pq_search(head: Head, centroids: list[Array], codes: NDArray[Any]) -> Search:
    def search(rows: Array) -> NDArray[Any]:
        scores = np.zeros((len(rows), len(head.keys)), np.float32)
        width = head.keys.shape[1] // len(centroids)
        for part, of_part in enumerate(centroids):
            table = rows[:, part * width : (part + 1) * width] @ of_part.T
            scores += table[:, codes[part]]
        return np.argpartition(-scores, head.k, axis=1)[:, : head.k]

    return search


def numpy_pq_indexes(head: Head) -> Iterator[Index]:
    for parts, bits in PQ_SHAPES:
        random = np.random.default_rng(1)
        start = time.perf_counter()
        pieces = np.split(head.keys, parts, axis=1)
        sample = random.permutation(len(head.keys))[:PQ_SAMPLE]
        centroids = [numpy_means(piece[sample], 2**bits, random) for piece in pieces]
        codes = np.stack([nearest(piece, of) for piece, of in zip(pieces, centroids, strict=True)])
        build_s = time.perf_counter() - start
        search = numpy_pq_search(head, centroids, codes)
        yield Index({"index": f"PQ{parts}x{bits}", "keys": "raw"}, build_s, None, [[({}, search)]])


def rabitq_fs_indexes(head: Head) -> Iterator[Index]:
    lists = head.rounded_root(4)
    sweeps: list[Makers] = [
        [({"nprobe": count, "k_factor": factor, "qb": 8}, refined(factor, probing_rabitq(count)))
         for count in counts(lists)]
        for factor in (8, 32)
    ]  # fmt: skip
    yield faiss_index(head, f"IVF{lists},RaBitQfs,RFlat", "centred", sweeps)


def rabitq_search(index: Any, k: int, count: int) -> Search:
    return lambda rows: index.search(rows, k, count, num_threads=1)[0]


def rabitq_indexes(head: Head) -> Iterator[Index]:
    library = importlib.import_module("rabitqlib")
    keys = head.centred()
    for factor, bits in ((1, 32), (4, 32), (4, 8)):
        clusters = head.rounded_root(factor)
        start = time.perf_counter()
        means = library.RaBitQKMeans(
            keys.shape[1], clusters, num_threads=THREADS,
            final_assignment=library.FinalAssignmentMode.Exact,
        )
        means.train(keys)
        index = library.IvfIndex(keys.shape[1], len(keys), clusters, bits, "ip")
        index.build(keys, means.centroids, means.assignments, num_threads=THREADS)
        build_s = time.perf_counter() - start
        sweep: Sweep = [
            ({"nprobe": count}, rabitq_search(index, head.k, count)) for count in counts(clusters)
        ]
        build = {"clusters": clusters, "bits": bits, "keys": "centred"}
        yield Index(build, build_s, saved_bytes(index.save), [sweep])


def hnsw_indexes(head: Head) -> Iterator[Index]:
    beams = (100, 150, 200, 300, 400, 600, 800, 1200, 1600)
    sweep: Makers = [({"efSearch": beam}, wide(beam)) for beam in beams]
    yield faiss_index(head, "HNSW32", "raw", [sweep], "hnsw_stats")


def flat_indexes(head: Head) -> Iterator[Index]:
    yield faiss_index(head, "Flat", "raw", [[({}, lambda _: None)]])


IN_PROCESS: dict[str, Callable[[Head], Iterator[Index]]] = {
    "lorann": lorann_indexes, "ivf": ivf_indexes, "pqfs": pqfs_indexes,
    "pq": pq_indexes, "numpy_pq": numpy_pq_indexes, "rabitq_fs": rabitq_fs_indexes,
    "rabitq": rabitq_indexes, "hnsw": hnsw_indexes, "flat": flat_indexes,
}  # fmt: skip
PEERS = (*IN_PROCESS, "roargraph")


# --- RoarGraph: programs that read and write files.


def write_bin(path: Path, *arrays: NDArray[Any]) -> None:
    """u32 rows, u32 columns, then the arrays one after the other."""
    with path.open("wb") as out:
        np.array(arrays[0].shape, np.uint32).tofile(out)
        for array in arrays:
            np.ascontiguousarray(array).tofile(out)


def training_neighbours(head: Head, count: int) -> NDArray[np.uint32]:
    """Exact, on all cores."""
    faiss = importlib.import_module("faiss")
    faiss.omp_set_num_threads(THREADS)
    _, ids = faiss.knn(head.train, head.keys, count, metric=faiss.METRIC_INNER_PRODUCT)
    return np.asarray(ids, np.uint32)


def run_program(*command: object, threads: int) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([str(word) for word in command], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    if done.returncode:
        last = done.stdout.strip().splitlines()[-1:]
        raise RuntimeError(f"{command[0]}: exit status {done.returncode}: {last}")
    return done.stdout


def roargraph_rows(head: Head, programs: Path, rounds: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scores = np.take_along_axis(head.test @ head.keys.T, head.truth.astype(np.int64), 1)
        write_bin(folder / "keys", head.keys)
        write_bin(folder / "train", head.train)
        write_bin(folder / "test", head.test)
        write_bin(folder / "truth", head.truth, -scores)
        start = time.perf_counter()
        write_bin(folder / "neighbours", training_neighbours(head, NEIGHBOURS))
        neighbours_s = time.perf_counter() - start
        both = ("--data_type", "float", "--dist", "ip", "--base_data_path", folder / "keys",
                "--projection_index_save_path", folder / "index")  # fmt: skip
        for degree in DEGREES:
            text = run_program(
                programs / ROARGRAPH[0], *both, "--sampled_query_data_path", folder / "train",
                "--learn_base_nn_path", folder / "neighbours", "--M_sq", NEIGHBOURS,
                "--M_pjbp", degree, "--L_pjpq", BUILD_BEAM, "-T", THREADS, threads=THREADS,
            )  # fmt: skip
            indexing = re.search(r"indexing time: ([\d.]+)", text)
            if not indexing:
                raise RuntimeError(f"{ROARGRAPH[0]}: no indexing time in its output")
            text = run_program(
                programs / ROARGRAPH[1], *both, "--query_path", folder / "test", "--gt_path",
                folder / "truth", "--L_pq", *(BEAMS * rounds), "--k", head.k, "-T", 1, threads=1,
            )  # fmt: skip
            build = {"M_sq": NEIGHBOURS, "M_pjbp": degree, "L_pjpq": BUILD_BEAM, "keys": "raw"}
            yield from parsed_rows(head, text, {
                "build": build, "build_s": round(neighbours_s + float(indexing[1]), 3),
                "neighbours_s": round(neighbours_s, 3),
                "index_bytes": (folder / "index").stat().st_size,
            })  # fmt: skip


def parsed_rows(head: Head, text: str, built: Row) -> Iterator[Row]:
    """Lines of: beam, QPS, visited keys, ms a query, recall, hops."""
    lines = re.findall(r"^(\d+)" + 5 * r"\s+([\d.e+-]+)" + r"\s*$", text, re.MULTILINE)
    for beam in BEAMS:
        of_beam = [line for line in lines if int(line[0]) == beam]
        if not of_beam:
            raise RuntimeError(f"{ROARGRAPH[1]}: no result for L_pq {beam}")
        times = [1e3 * float(line[3]) for line in of_beam]
        yield {
            **built, "search": {"L_pq": beam}, "recall": round(float(of_beam[0][4]), 5),
            "us_per_query": round(statistics.median(times), 2),
            "us_fastest": round(min(times), 2), "cpu_us": None, "rows_per_call": 1,
            "rounds": len(times), "visited": round(float(of_beam[0][2]) / len(head.keys), 5),
        }


# --- The run.


def why_left_out(peer: str, programs: Path | None) -> str | None:
    library = peer if peer == "lorann" else "rabitqlib" if peer == "rabitq" else "faiss"
    try:
        importlib.import_module(library)
    except ImportError as error:
        return f"{error} (scripts/setup.sh peers installs it)"
    if peer != "roargraph":
        return None
    if programs is None:
        return "no folder with its authors' programs: --roargraph"
    missing = [name for name in ROARGRAPH if not os.access(programs / name, os.X_OK)]
    return f"--roargraph: no {' and no '.join(missing)} there" if missing else None


def best_rows(rows: list[Row]) -> dict[str, Row | None]:
    def best(level: float) -> Row | None:
        enough = [row for row in rows if row["recall"] >= level]
        row = min(enough, key=lambda row: float(row["us_per_query"]), default=None)
        return row and {"qps": round(1e6 / row["us_per_query"]), **row}

    return {f"{level:.2f}": best(level) for level in LEVELS}


def print_table(head: Head, best: dict[str, dict[str, Row | None]]) -> None:
    def cell(row: Row | None) -> str:
        return f"{row['qps']:7,} QPS ({row['recall']:.3f})" if row else "not reached"

    print(f"{head.name} ({head.label}, {len(head.keys):,} keys)", file=sys.stderr)
    for peer, levels in best.items():
        cells = "".join(f"  >= {level}: {cell(row):22}" for level, row in levels.items())
        print(f"  {peer:10}{cells}", file=sys.stderr)


def run_head(head: Head, peers: list[str], arguments: argparse.Namespace) -> None:
    best = {}
    for peer in peers:
        named = {"head": head.name, "label": head.label, "peer": peer}
        try:
            rows = list(
                roargraph_rows(head, arguments.roargraph, arguments.rounds)
                if peer == "roargraph"
                else measure(head, IN_PROCESS[peer](head), arguments.rounds)
            )
        except Exception as error:  # One peer's failure must not lose the others' results.
            print(json.dumps({**named, "left_out": f"{type(error).__name__}: {error}"}), flush=True)
            continue
        for row in rows:
            print(json.dumps({**named, **row}), flush=True)
        best[peer] = best_rows(rows)
    print(json.dumps({"summary": head.name, "label": head.label, "best": best}), flush=True)
    print_table(head, best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--heads", help="all of heads.json if not given")
    parser.add_argument("--roargraph", type=Path, metavar="DIR")
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    entries = {head["name"]: head for head in
               json.loads((arguments.folder / "heads.json").read_text())["heads"]}  # fmt: skip
    heads = arguments.heads.split(",") if arguments.heads else list(entries)
    peers = arguments.peers.split(",")
    for kind, names, known in (("peer", peers, PEERS), ("head", heads, entries)):
        for name in names:
            if name not in known:
                sys.exit(f"no {kind} '{name}'; there are {', '.join(known)}")
    for peer in list(peers):
        if reason := why_left_out(peer, arguments.roargraph):
            print(json.dumps({"head": None, "peer": peer, "left_out": reason}), flush=True)
            peers.remove(peer)
    for name in heads:
        run_head(Head.load(arguments.folder, entries[name], arguments.k), peers, arguments)


if __name__ == "__main__":
    main()
