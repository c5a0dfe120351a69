"""A pytest plugin: whoever imports a schedule from checkpoint_schedules gets ours of the same name.

Their `TwoLevelCheckpointSchedule` and the two that keep everything have no counterpart here and stay theirs.
"""

import checkpoint_schedules

from reprop import adjoint

SWAPPED = [name for name in adjoint.__all__ if hasattr(checkpoint_schedules, name)]
for name in SWAPPED:
    setattr(checkpoint_schedules, name, getattr(adjoint, name))


def pytest_report_header() -> str:
    return f"reprop's in place of theirs: {', '.join(SWAPPED)}"
