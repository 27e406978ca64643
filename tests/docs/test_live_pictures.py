"""The pictures of the page on pictures: the files that its code writes, in frames of the page."""

from __future__ import annotations

import re
from pathlib import Path

from docs.site_pages import live_pictures

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_frames_of_the_page_show_the_files_that_its_code_writes(tmp_path):
    live_pictures.write(DOCS, tmp_path)
    shown = re.findall(r'<(?:iframe|img) class="live" src="([^"]+)"', (DOCS / "pictures.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(path.name for path in tmp_path.iterdir()) == sorted(live_pictures.FILES.values())
    for path in tmp_path.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "<svg" in text or "<script" in text, path
        assert "/tmp" not in text, path  # nothing about the machine of the build
        assert str(DOCS.parent) not in text, path
        assert "http" not in text.replace("http://www.w3.org/", ""), path
