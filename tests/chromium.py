"""Debian's Chromium for tests: where it is, how it is started, and when such tests are skipped."""

from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

try:
    from playwright.sync_api import TimeoutError, expect, sync_playwright
except ImportError:
    TimeoutError, expect, sync_playwright = OSError, None, None

BROWSER_MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(sync_playwright is None, reason="playwright is not installed (pip install ptqlab[test])"),
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no browser at {CHROMIUM} (apt install chromium)"),
]

__all__ = ["BROWSER_MARKS", "CHROMIUM", "FLAGS", "TimeoutError", "expect", "sync_playwright"]
