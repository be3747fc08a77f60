"""What all tests share: the same examples on every run, whatever the machine's speed and the user's language."""
from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# no deadline and no check for slow generation: both fail on a busy machine only
settings.register_profile("ptqlab", derandomize=True, deadline=None, database=None,
                          suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ptqlab")

os.environ.pop("PTQLAB_LANG", None)
