"""The short form of `make soak`."""

from pathlib import Path

from tests.soak.soak import Soak


def test_runs_survive_workers_that_are_killed_at_random(tmp_path: Path) -> None:
    report = Soak(tmp_path, seconds=8, runs=40, workers=2, seed=7).play()
    assert report.wrong == []
    assert set(report.states) == {"done", "cancelled"}
    assert report.kills >= 5
    assert report.takeovers
