"""The store: contexts, tenants, imports, and what Python expects of handles and options."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
import time
import types
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attndb
from core_steps import NUM_LAYERS, Steps


def stored(db: attndb.DB, spec: attndb.ModelSpec, steps: Steps, name: str, length: int) -> int:
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, len(session), length)
    return db.store(session, steps.ids[:length], name=name, text_layout=f"document user:3-{length}")


def test_lists_describes_pins_expires_and_drops(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    first = stored(db, spec, steps, "a", 50)
    stored(db, spec, steps, "b", 70)
    assert [info.name for info in db.list()] == ["a", "b"]
    info = db.describe(first)
    assert info == db.describe("a") == db.describe(f"#{first}")
    assert info.num_tokens == 50 and info.fingerprint == b"tiny" and info.kv_dtype == "float32"
    assert info.rope_scaling == ""
    assert abs(info.created - datetime.now(timezone.utc)) < timedelta(minutes=5)
    assert len(info.segments) == 1 and info.segments[0].num_contexts == 2
    np.testing.assert_array_equal(db.tokens("b"), steps.ids[:70])
    db.pin("a")
    db.set_ttl("b", timedelta(hours=2))
    assert db.describe("a").text_layout == "document user:3-50"
    assert db.describe("a").pinned and db.describe("b").ttl == timedelta(hours=2)
    db.set_ttl("b", None)
    assert db.describe("b").ttl is None
    db.rename("b", "яблоко")
    assert "яблоко" in db and "b" not in db
    with pytest.raises(attndb.AlreadyExistsError, match='"a" exists'):
        db.rename("яблоко", "a")
    with pytest.raises(attndb.InvalidArgumentError, match="expected 1 to 128 bytes"):
        db.rename("a", "no name")
    db.drop("яблоко")
    assert [info.name for info in db.list()] == ["a"]


def test_a_context_has_a_title_and_a_note_and_knows_what_it_continues(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    first = stored(db, spec, steps, "a", 50)
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, len(session), 70)
    note = b"any\0bytes\xff"
    with pytest.raises(attndb.InvalidArgumentError, match="title has U\\+000A at byte 1"):
        db.store(session, steps.ids[:70], title="a\nb")
    db.store(session, steps.ids[:70], name="b", title="What is it? Яблоко", note=note)
    assert [info.title for info in db.list()] == ["", "What is it? Яблоко"]
    info = db.describe("b")
    assert info.title == "What is it? Яблоко" and info.continues == first
    assert db.describe("a").continues is None
    assert db.note("b") == note and db.note(first) == b""
    with pytest.raises(attndb.NotFoundError):
        db.note("none")
    steps.run(session, len(session), 80)
    db.store_async(session, steps.ids[:80], name="c", title="Then", note=b"n").result()
    assert db.describe("c").title == "Then" and db.note("c") == b"n"


def test_a_context_knows_what_its_model_is_called(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    named = dataclasses.replace(spec, name="Tiny", path="/models/tiny")
    assert named == spec, "no part of the identity"
    stored(db, named, steps, "a", 50)
    info = db.describe("a")
    assert (info.model_name, info.model_path) == ("Tiny", "/models/tiny")
    other = dataclasses.replace(spec, fingerprint=b"other", name="Another")
    with pytest.raises(attndb.OtherModelError, match="made by 'Tiny' .* asked by 'Another'"):
        db.create_session(other, steps.ids, context="a")
    for change in ({"name": "x" * 257}, {"path": "a\nb"}):
        with pytest.raises(attndb.InvalidArgumentError, match="source"):
            db.create_session(dataclasses.replace(spec, **change), steps.ids)


def test_room_is_asked_for_before_a_model_runs(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    stored(db, spec, steps, "a", 50)
    before = db.stats()
    report = db.check_room(spec, steps.ids[:70])
    assert report.num_reused == 50 and report.evicted == ()
    assert db.check_room(spec, steps.ids[:70], checkpoint_tokens=5).new_bytes > report.new_bytes
    db.set_quota(before.file_bytes + report.new_bytes - 1)
    db.pin("a")
    with pytest.raises(attndb.ResourceExhaustedError, match="quota"):
        db.check_room(spec, steps.ids[:70])
    assert db.stats().bytes_written == before.bytes_written


def test_durations_and_sizes_are_what_the_command_line_takes(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps, tmp_path: Path
) -> None:
    stored(db, spec, steps, "a", 50)
    for ttl, seconds in (("90s", 90), ("15m", 900), ("1 h", 3600), ("7d", 7 * 86400), ("60", 60),
                         ("1.5h", 5400), ("1h30m", 5400), ("1 d 12 h", 129_600), ("0.5d", 43_200),
                         ("2w", 14 * 86400), (1.5, 1), (timedelta(hours=1), 3600)):
        db.set_ttl("a", ttl)
        assert db.describe("a").ttl == timedelta(seconds=seconds), ttl
    db.set_ttl("a", "never")
    assert db.describe("a").ttl is None
    for bad in ("soon", "-1s", "7 dd", "", "30m1h", "1h30", "1h1h", "1.5", "9" * 400 + "w", -1,
                float("nan"), True):
        with pytest.raises(attndb.InvalidArgumentError, match="ttl: expected seconds"):
            db.set_ttl("a", bad)
    for size, num_bytes in (("2GiB", 2 << 30), ("1.5 gb", 3 << 29), ("512M", 512 << 20),
                            ("1000000000", 10**9), (10**9, 10**9)):
        db.set_quota(size)
        assert db.stats().quota_bytes == num_bytes, size
    for bad in ("much", "-1", "", -1, 2.5, True):
        with pytest.raises(attndb.InvalidArgumentError, match="num_bytes: expected bytes, '512M'"):
            db.set_quota(bad)  # type: ignore[arg-type]
    with attndb.open(tmp_path / "other", host_memory_bytes="64MiB") as other:
        assert other.stats().memory_limit_bytes == 64 << 20


def test_an_expired_context_says_so(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    stored(db, spec, steps, "a", 50)
    assert not db.describe("a").expired
    db.set_ttl("a", 0)
    assert db.describe("a").expired and [info.expired for info in db.list()] == [True]


def test_a_store_is_a_container_that_is_not_copied(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    assert len(db) == 0 and db
    number = stored(db, spec, steps, "a", 50)
    assert len(db) == 1
    assert "a" in db and f"#{number}" in db and number in db
    assert "b" not in db and 77 not in db and None not in db
    html = db._repr_html_()
    assert "<td>a</td><td>50</td>" in html and "&lt;attndb.DB" in html
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(attndb.InvalidArgumentError, match="a DB can't be"):
            copied(db)


def test_contexts_become_a_data_frame(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_pandas needs pandas: pip install pandas"):
        db.to_pandas()

    def frame(rows: list[dict[str, Any]], columns: list[str]) -> tuple[Any, list[str]]:
        return rows, columns

    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=frame))
    _, columns = db.to_pandas()
    assert {"id", "name", "num_tokens", "own_bytes", "expired", "ttl"} <= set(columns)
    assert not {"segments", "cuts", "derived_bytes"} & set(columns), "fields of several values"
    stored(db, spec, steps, "a", 50)
    rows, _ = db.to_pandas()
    assert [(row["name"], row["num_tokens"]) for row in rows] == [("a", 50)]
    assert all(list(row) == columns for row in rows)


def test_contexts_become_a_data_frame_of_pandas(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    pytest.importorskip("pandas")
    assert len(db.to_pandas()) == 0
    stored(db, spec, steps, "a", 50)
    stored(db, spec, steps, "b", 70)
    frame = db.to_pandas().set_index("name")
    assert frame.num_tokens.to_dict() == {"a": 50, "b": 70}
    assert frame.file_bytes.sum() == sum(info.file_bytes for info in db.list())


def test_specs_are_checked_when_they_are_made_and_are_short() -> None:
    good = attndb.ModelSpec.uniform(30, 9, 3, 64, fingerprint=b"\x01\x02\x03\x04\x05")
    assert repr(good) == "ModelSpec(30 layers of 9/3 heads of 64, float16, fingerprint 01020304...)"
    for change, match in (
        ({"num_kv_heads": 2}, "num_q_heads: expected a multiple of num_kv_heads, 2, found 9"),
        ({"head_dim": 0}, "head_dim: expected 1 or more, found 0"),
        ({"num_layers": 0}, "layers: expected one LayerSpec or more"),
        ({"kv_dtype": "q8"}, "kv_dtype: expected 'float32', 'float16' or 'bfloat16', found 'q8'"),
        ({"fingerprint": "x"}, "fingerprint: expected bytes"),
    ):
        fields: dict[str, Any] = {"num_layers": 30, "num_q_heads": 9, "num_kv_heads": 3,
                                  "head_dim": 64, "fingerprint": b"x", **change}
        with pytest.raises(attndb.InvalidArgumentError, match=match):
            attndb.ModelSpec.uniform(**fields)


def test_finds_the_passage_whose_keys_are_asked_for(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    stored(db, spec, steps, "a", 80)
    session, _ = db.create_session(spec, np.append(steps.ids[:80], 0), context="a")
    keys, _ = session.read_kv(0, 0, 80)
    # Tokens 36 to 38, asked for from right behind their block of 8.
    q = [np.ascontiguousarray(3 * keys[36:39, 0])]
    found = db.find(spec, [(0, 0)], q, first_position=40, passage_tokens=16, head_scores=True)
    best = found.passages[0]
    assert best.context == "a" and best.context_id == db.describe("a").id
    assert best.begin <= 36 and best.end >= 39
    assert best.head_scores == pytest.approx((best.score,))
    assert found.num_contexts == 1 and found.num_tokens == 80 and found.num_passages == 10
    assert found.skipped == ()
    assert db.find(spec, [(0, 0)], q, limit=0).passages == ()
    other = attndb.ModelSpec(spec.layers, kv_dtype=spec.kv_dtype, fingerprint=b"other")
    skipped = db.find(other, [(0, 0)], q).skipped
    assert skipped == (attndb.SkippedContext("a", "of another model"),)
    with pytest.raises(attndb.NotFoundError):
        db.find(spec, [(0, 0)], q, contexts=["b"])
    with pytest.raises(attndb.InvalidArgumentError, match="1 or more heads"):
        db.find(spec, [], [])


def test_a_session_over_contexts_attends_to_all_of_them(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    stored(db, spec, steps, "a", 50)
    other = Steps(90, seed=8)
    other.ids += 1000
    stored(db, spec, other, "b", 30)
    session = db.create_session_over(spec, ["a", "b"])
    assert (session.num_tokens, session.next_position, session.context_id) == (80, 50, None)
    first, second = session.contexts
    assert (first.name, first.begin, first.end, first.first_token) == ("a", 0, 50, 0)
    assert (second.id, second.begin, second.end) == (db.describe("b").id, 50, 80)
    assert session.explain().contexts == session.contexts
    joined = Steps(90)
    for rows in ("k", "v"):
        ours, theirs = getattr(steps, rows), getattr(other, rows)
        setattr(joined, rows, np.concatenate([ours[:, :50], theirs[:, :30], ours[:, 80:]], axis=1))
    out = joined.run(session, 80, 83)
    for layer in range(NUM_LAYERS):
        np.testing.assert_allclose(out[layer], joined.expected(layer, 80, 83)[0], atol=1e-4)
    assert session.next_position == 53
    with pytest.raises(attndb.FailedPreconditionError, match="over 2 contexts"):
        db.store(session, np.concatenate([steps.ids[:50], other.ids[:30], steps.ids[:3]]))
    with pytest.raises(attndb.FailedPreconditionError, match="2 whole contexts"):
        session.crop(79)
    with pytest.raises(attndb.InvalidArgumentError, match="named twice"):
        db.create_session_over(spec, ["a", first.id])
    with pytest.raises(attndb.InvalidArgumentError, match="0 contexts"):
        db.create_session_over(spec, [])
    assert db.create_session_over(spec, ["a"]).contexts == ()


def test_explains_prefixes_and_counts(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    stored(db, spec, steps, "a", 50)
    explain = db.explain_prefix(spec, steps.ids)
    assert (explain.num_reused, explain.num_prompt_tokens, explain.context) == (50, 90, "a")
    assert explain.reasons and str(explain)
    stats = db.stats()
    assert (stats.num_evictions, stats.evicted) == (0, ())
    assert stats.num_contexts == 1 and stats.num_tokens == 50 and stats.num_stores == 1


def test_says_which_contexts_a_quota_evicted(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    stored(db, spec, steps, "a", 50)
    db.set_quota(db.stats().file_bytes)
    other = Steps(50)
    other.ids = other.ids + 1000
    stored(db, spec, other, "b", 50)
    assert (db.stats().num_evictions, db.stats().evicted) == (1, ("a",))


def test_leaves_one_token_of_a_prompt_that_is_all_stored(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    stored(db, spec, steps, "a", 50)
    session, rest = db.create_session(spec, list(map(int, steps.ids[:50])))
    assert session.num_reused == 49 and list(rest) == [steps.ids[49]]
    session, _ = db.create_session(spec, steps.ids, reuse=False)
    assert session.num_reused == 0
    session, _ = db.create_session(spec, torch.from_numpy(steps.ids), context="a")
    assert session.num_reused == 50


def test_stores_in_the_background(db: attndb.DB, spec: attndb.ModelSpec, steps: Steps) -> None:
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 50)
    context = db.store_async(session, steps.ids[:50], name="later").result()
    assert db.describe("later").id == context
    with pytest.raises(attndb.InvalidArgumentError):
        db.store_async(session, steps.ids[:3])
    taken = db.store_async(session, steps.ids[:50], name="later")
    with pytest.raises(attndb.AlreadyExistsError):
        taken.result()


def test_a_session_goes_on_while_it_is_stored(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 50)
    future = db.store_async(session, steps.ids[:50], name="first")
    steps.run(session, 50, 60)
    first = future.result()
    steps.run(session, 60, 61)
    assert session.context_id == first
    second = db.store(session, steps.ids[:61], name="second")
    assert db.describe("second").id == second
    # What the first holds was not written again.
    assert [s.num_tokens_used for s in db.describe("second").segments] == [50, 11]
    assert list(db.tokens("first")) == list(steps.ids[:50])


@pytest.mark.parametrize("form", ["pairs", "heads first", "DynamicCache"])
def test_imports_a_cache_computed_elsewhere(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps, form: str
) -> None:
    layers: object = [(steps.k[i, :60], steps.v[i, :60]) for i in range(NUM_LAYERS)]
    if form != "pairs":
        from transformers import DynamicCache

        cache = DynamicCache()
        for i in range(NUM_LAYERS):
            k, v = (torch.from_numpy(x[i, :60]).transpose(0, 1)[None] for x in (steps.k, steps.v))
            cache.update(k.contiguous(), v.contiguous(), i)
        layers = cache
    if form == "heads first":
        layers = [(c.keys[0].transpose(0, 1), c.values[0].transpose(0, 1)) for c in cache.layers]
    db.import_context(spec, steps.ids[:60], layers, name="elsewhere")
    session, rest = db.create_session(spec, steps.ids)
    assert session.num_reused == 60 and len(rest) == 30
    out = steps.run(session, 60, 90)
    np.testing.assert_allclose(out[1], steps.expected(1, 60, 90)[0], rtol=0, atol=1e-5)


def test_imports_queries_as_the_sample(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    layers = [(steps.k[i], steps.v[i]) for i in range(NUM_LAYERS)]
    db.import_context(spec, steps.ids, layers, queries=list(steps.q), name="with")
    assert db.describe("with").query_sample_bytes > 0


def test_imports_a_list_of_prompts(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    def layers(begin: int, end: int) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(steps.k[i, begin:end], steps.v[i, begin:end]) for i in range(NUM_LAYERS)]

    prompts = [steps.ids[:60], steps.ids[30:50], [1, 2, 3]]
    caches = [layers(0, 60), layers(30, 50), layers(0, 3)]
    queries = [None, [steps.q[i, 40:50] for i in range(NUM_LAYERS)], None]
    ids = db.import_context(spec, prompts, caches, queries=queries, name=["a", None, "c"])
    assert [db.describe(context).num_tokens for context in ids] == [60, 20, 3]
    assert [db.describe(context).name for context in ids] == ["a", "", "c"]
    assert db.describe(ids[1]).query_sample_bytes > db.describe(ids[0]).query_sample_bytes
    session, rest = db.create_session(spec, steps.ids)
    assert session.num_reused == 60 and len(rest) == 30
    out = steps.run(session, 60, 90)
    np.testing.assert_allclose(out[1], steps.expected(1, 60, 90)[0], rtol=0, atol=1e-5)
    assert db.import_context(spec, [[7, 8]], [layers(0, 2)]) == [ids[-1] + 1]


def test_a_prompt_of_a_list_that_fails_is_named_and_those_before_it_stay(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    def layers(end: int) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(steps.k[i, :end], steps.v[i, :end]) for i in range(NUM_LAYERS)]

    with pytest.raises(attndb.AlreadyExistsError) as taken:
        db.import_context(
            spec,
            [[1, 2, 3], list(range(100, 120)), [4, 5]],
            [layers(3), layers(20), layers(2)],
            name=["a", "a", "b"],
        )
    first = db.describe("a")
    assert first.num_tokens == 3 and [context.id for context in db.list()] == [first.id]
    message = str(taken.value)
    assert message.startswith("prompt 1 [100, 101, 102, 103, 104, 105, 106, 107, ...]: ")
    assert message.endswith(f"; imported before it: #{first.id}")
    with pytest.raises(attndb.InvalidArgumentError, match=r"^prompt 0 \[1, 2\]: .*before it: none"):
        db.import_context(spec, [[1, 2], [3]], [layers(3), layers(1)])
    for arguments, found in (
        ({"layers": [layers(2)]}, "layers: expected one item for each of 2 prompts, found 1"),
        ({"layers": {}}, "layers: expected a list of one item a prompt, found dict"),
        ({"name": "x"}, "name: expected a list of one item a prompt, found str"),
        ({"queries": [None]}, "queries: expected one item for each of 2 prompts, found 1"),
    ):
        options = {"layers": [layers(2), layers(1)], **arguments}
        with pytest.raises(attndb.InvalidArgumentError, match=found):
            db.import_context(spec, [[1, 2], [3]], **options)
    assert len(db.list()) == 1


def test_tenants_do_not_see_each_other(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    stored(db, spec, steps, "a", 50)
    other = db.for_tenant("other")
    assert other.tenant == "other" and other.list() == []
    assert other.create_session(spec, steps.ids).session.num_reused == 0
    stored(other, spec, steps, "a", 30)
    assert db.describe("a").num_tokens == 50


def test_closing_the_store_frees_it_for_another_writer(
    tmp_path: Path, spec: attndb.ModelSpec
) -> None:
    path = tmp_path / "store"
    db = attndb.open(path)
    session = db.create_session(spec, [1, 2]).session
    tenant = db.for_tenant("t")
    with pytest.raises(attndb.BusyError):
        attndb.open(path)
    db.close()
    assert db.closed and session.closed and tenant.closed and "closed" in repr(db)
    with attndb.open(path) as again:
        assert again.list() == []
    with pytest.raises(attndb.FailedPreconditionError, match="closed"):
        db.list()


def test_equal_fingerprints_share_contexts(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    stored(db, spec, steps, "a", 50)
    twin = attndb.ModelSpec(spec.layers, spec.kv_dtype, b"twin")
    assert db.create_session(twin, steps.ids).session.num_reused == 0
    db.declare_equal(b"tiny", b"twin")
    assert db.create_session(twin, steps.ids).session.num_reused == 50
    db.revoke_equal(b"twin", b"tiny")
    assert db.create_session(twin, steps.ids).session.num_reused == 0
    with pytest.raises(attndb.NotFoundError, match="were not declared equal"):
        db.revoke_equal(b"twin", b"tiny")


def test_builds_an_index_with_settings_and_shows_its_bytes(
    db: attndb.DB, spec: attndb.ModelSpec
) -> None:
    steps = Steps(2100)
    stored(db, spec, steps, "short", 50)
    stored(db, spec, steps, "long", 2100)  # Two segments: the first is that of "short".
    report = db.build("long", index="pq", m=4, b=6)
    assert (report.kind, report.num_built, report.num_too_short) == ("pq_4x6", 1, 1)
    assert db.build("long", "pq,m=4,b=6").num_present == 1
    assert db.describe("long").derived_bytes["pq_4x6"] == report.file_bytes > 0
    db.wait_for_background()  # Key planes are made beside, and would come between the two calls.
    assert db.list()[1].derived_bytes == db.describe("long").derived_bytes
    assert db.build("short", "graph").num_too_short == 1
    with pytest.raises(attndb.CancelledError):
        db.build("long", "graph", progress=lambda done, total: False)
    with pytest.raises(attndb.InvalidArgumentError, match="planes, clustered, graph, pq"):
        db.build("long", "tree")
    with pytest.raises(attndb.InvalidArgumentError, match="no setting of clustered"):
        db.build("long", "clustered", m=4)


def test_verifies_with_progress_and_reports_damage(
    tmp_path: Path, spec: attndb.ModelSpec, steps: Steps
) -> None:
    path = tmp_path / "store"
    with attndb.open(path) as db:
        stored(db, spec, steps, "a", 50)
        seen: list[tuple[int, int]] = []
        assert db.verify(progress=lambda done, total: seen.append((done, total))).ok
        assert seen and seen[-1][0] == seen[-1][1]
        with pytest.raises(attndb.CancelledError):
            db.verify(progress=lambda done, total: False)

        def fail(done: int, total: int) -> None:
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            db.verify(progress=fail)
    (segment,) = (path / "segments").glob("*.seg")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    with attndb.open(path) as db:
        report = db.verify()
        assert not report.ok and report.damages[0].contexts == ("a",)
        assert db.describe("a").damaged
        with pytest.raises(attndb.CorruptionError):
            db.create_session(spec, steps.ids, context="a")


def test_compacts_to_a_length_with_progress(
    db: attndb.DB, spec: attndb.ModelSpec, steps: Steps
) -> None:
    stored(db, spec, steps, "short", 50)
    stored(db, spec, steps, "a", 80)
    db.drop("short")

    def lengths() -> list[int]:
        return [segment.num_tokens for segment in db.describe("a").segments]

    assert lengths() == [50, 30]
    db.compact(segment_tokens=79)
    assert lengths() == [50, 30]
    with pytest.raises(attndb.CancelledError):
        db.compact(segment_tokens=80, progress=lambda done, total: False)
    assert lengths() == [50, 30]
    seen: list[tuple[int, int]] = []
    db.compact(segment_tokens=80, progress=lambda done, total: seen.append((done, total)))
    assert lengths() == [80]
    assert seen[-1][0] == seen[-1][1] > 0
    assert db.tokens("a").tolist() == list(steps.ids[:80])
    db.compact()
    with pytest.raises(attndb.InvalidArgumentError, match="segment_tokens"):
        db.compact(segment_tokens=2**31 + 1)


def test_build_makes_what_is_asked_for_and_waits(db: attndb.DB, spec: attndb.ModelSpec) -> None:
    steps = Steps(2100)
    session, _ = db.create_session(spec, steps.ids)
    steps.run(session, 0, 2100)
    db.store(session, steps.ids, name="a")
    start = time.monotonic()
    report = db.build("a", "pq,m=4,b=6")
    assert 0 < report.seconds <= time.monotonic() - start
    assert (report.kind, report.num_built, report.num_missing) == ("pq_4x6", 1, 0)
    assert report.file_bytes > 0
    again = db.build("a", "pq,m=4,b=6", progress=lambda done, total: True)
    assert (again.num_built, again.num_present) == (0, 1)
    with pytest.raises(attndb.InvalidArgumentError, match="scores all keys"):
        db.build("a", "flat")
    with pytest.raises(attndb.NotFoundError):
        db.build("nobody", "pq")


def test_a_store_builds_the_index_that_it_is_opened_for(
    tmp_path: Path, spec: attndb.ModelSpec
) -> None:
    steps = Steps(2100)
    with attndb.open(tmp_path / "store", index="pq,m=4,b=6", kmeans_iterations=3) as db:
        session, _ = db.create_session(spec, steps.ids)
        steps.run(session, 0, 2100)
        db.store(session, steps.ids, name="a")
        session.set_plan("topk(k=5,index=pq,m=4,b=6)")
        session.await_derived(0)
        assert "pq_4x6" in db.describe("a").derived_bytes
        with pytest.raises(attndb.InvalidArgumentError, match="layer 99"):
            session.await_derived(99)
        session.set_plan("topk(k=5,index=pq,m=4,b=6,await=1)")
        assert session.awaits_derived(0)
        session.await_derived(0)
        assert not session.awaits_derived(0)
        assert not session.awaits_derived(99)
    with pytest.raises(attndb.InvalidArgumentError, match="'tree'"):
        attndb.open(tmp_path / "store", index="tree")


def test_a_merged_graph_goes_on_from_the_first(tmp_path: Path, spec: attndb.ModelSpec) -> None:
    steps = Steps(4300)
    options = {"query_sample": 0.4, "max_training_queries": 500, "grow_graphs": True}
    with attndb.open(tmp_path / "store", index="graph", **options) as db:
        for end in (2200, 4300):
            session, rest = db.create_session(spec, steps.ids[:end])
            steps.run(session, end - len(rest), end)
            db.store(session, steps.ids[:end], name="a", replace=True)
        db.wait_for_background()
        assert len(db.describe("a").segments) == 2
        db.compact(segment_tokens=8000)
        db.wait_for_background()
        assert len(db.describe("a").segments) == 1
        assert db.describe("a").derived_bytes["graph_1"] > 0


def test_planes_come_to_disk_in_the_background(
    tmp_path: Path, spec: attndb.ModelSpec
) -> None:
    layers = [
        (
            np.ones((300, layer.num_kv_heads, layer.head_dim), np.float32),
            np.ones((300, layer.num_kv_heads, layer.v_head_dim or layer.head_dim), np.float32),
        )
        for layer in spec.layers
    ]
    ids = list(range(300))
    with attndb.open(tmp_path / "store", background_builds=False) as db:
        db.import_context(spec, ids, layers, name="a")
        db.wait_for_background()
        assert db.stats().num_pending_companions == 1
        assert db.describe("a").companion_bytes == 0
    with attndb.open(tmp_path / "store", background_threads=2) as db:
        db.wait_for_background(progress=lambda done, total: done <= total)
        stats = db.stats()
        assert (stats.num_companions, stats.num_pending_companions) == (1, 0)
        (companion,) = db.describe("a").segments[0].companions
        assert companion.kind == "key_planes_3"
        assert companion.file_bytes == stats.companion_bytes
        assert db.describe("a").derived_bytes == {companion.kind: companion.file_bytes}
