"""A run is short unless ATTNDB_TEST_SIZE says otherwise, and says so in one of two words."""

from __future__ import annotations

import pytest

from sizes import counts_in, print_count, seeds_in, sized


@pytest.mark.parametrize(("value", "size"), [(None, 3), ("", 3), ("short", 3), ("long", 10)])
def test_the_size_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, value: str | None, size: int
) -> None:
    if value is None:
        monkeypatch.delenv("ATTNDB_TEST_SIZE", raising=False)
    else:
        monkeypatch.setenv("ATTNDB_TEST_SIZE", value)
    assert sized(3, 10) == size


def test_another_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNDB_TEST_SIZE", "lnog")
    with pytest.raises(ValueError, match="lnog"):
        sized(3, 10)


def test_counts_are_found_as_they_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print("....", end="")
    print_count(3, "prompts of 3 tokens")
    log = capsys.readouterr().out + "7: ATTNDB_COUNT 200 kills \n7: ATTNDB_SEED=17\n"
    assert counts_in(log) == [(3, "prompts of 3 tokens"), (200, "kills")]
    assert seeds_in(log) == [17]
