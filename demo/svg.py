"""Drawing in SVG with a few lines of Python, readable on light and dark pages.

Elements carry the name of a role. A style sheet inside the file gives the roles their colours, by the
viewer's own preference. It names every colour twice, because many viewers do not support CSS variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

STYLE = """
  text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #24292f; }
  .paper { fill: #ffffff; }
  .title { font-size: 15px; font-weight: 600; }
  .letter { font: 11px ui-monospace, monospace; text-anchor: middle; }
  .right { text-anchor: end; }
  .middle { text-anchor: middle; }
  .faint { fill: #6e7781; }
  .second { fill: #bc4c00; stroke: #ffffff; stroke-width: 4; paint-order: stroke; }
  .rule { stroke: #8c959f; stroke-opacity: 0.35; }
  .dashed { stroke: #bc4c00; stroke-dasharray: 5 4; }
  .curve { fill: none; stroke: #0969da; stroke-width: 2; }
  .raw { fill: none; stroke: #0969da; stroke-opacity: 0.3; }
  .heat { fill: #0969da; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .paper { fill: #0d1117; }
    .faint { fill: #8b949e; }
    .second { fill: #f0883e; stroke: #0d1117; }
    .dashed { stroke: #f0883e; }
    .curve, .raw { stroke: #58a6ff; }
    .heat { fill: #58a6ff; }
  }
"""


class Drawing:
    """A canvas of a given size; coordinates are pixels from the top left corner."""

    def __init__(self, width: float, height: float, description: str) -> None:
        self._size = (width, height)
        self._elements = [
            f"<title>{escape(description)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{width:g}" height="{height:g}" rx="6"/>',
        ]

    def text(self, x: float, y: float, content: str, style: str = "") -> None:
        """Draw a text whose baseline starts (or, by style, ends or is centred) at a point."""
        self._elements.append(
            f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" xml:space="preserve">{escape(content)}</text>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        """Draw a straight line."""
        self._elements.append(f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def curve(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Draw straight lines from point to point."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._elements.append(f'<polyline class="{style}" points="{path}"/>')

    def cell(self, x: float, y: float, side: float, strength: float, tip: str = "") -> None:
        """Draw a square whose colour has a strength from 0 to 1, with a tip shown under the pointer."""
        self._elements.append(
            f'<rect class="heat" x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}"'
            f' fill-opacity="{strength:.3f}"><title>{escape(tip)}</title></rect>'
        )

    def write(self, path: Path) -> None:
        """Save the drawing."""
        width, height = self._size
        size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([head, *self._elements, "</svg>"]) + "\n", encoding="utf-8")
