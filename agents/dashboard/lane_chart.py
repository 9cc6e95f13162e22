"""Lanes as the paths of one small SVG drawing.

Steps are strokes along a lane, one path for each activity of a Mysis, so that fifty
Myses and a day of them stay under 60 kB. Across, a unit is a step of the axis; down, a
pixel. What an activity looks like stands in ``static/css/lanes.css``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from agents.dashboard.lane_marks import MARK_KINDS, Mark
from agents.dashboard.lane_seconds import ACTIVITIES, AT_REST
from agents.dashboard.lanes import Lane, Lanes
from agents.dashboard.time_axis import Axis

# Pixels of a lane, by how many there are: fifty fit on a screen.
HEIGHTS = ((12, 28), (30, 20))
LOWEST = 14
# Characters of a mark that are told as the pointer is at it.
TOLD = 60
# The part of a lane's height at which a mark stands; the last two go through all of it.
MARK_PLACES = {"order": 0.2, "compaction": 0.85}


@dataclass(frozen=True, slots=True)
class LaneChart:
    """The drawing and what is needed to lay names and times beside it."""

    height: int
    lanes: Lanes
    drawn: SafeString

    @property
    def size(self) -> int:
        """The height of the whole drawing, in pixels."""
        return self.height * len(self.lanes.lanes)

    @property
    def grid(self) -> str:
        """Lines down the drawing where the ticks are."""
        axis = self.lanes.axis
        return "".join(
            f"M{tick.place * axis.count:.2f} 0v{self.size}" for tick in axis.ticks
        )


def draw_lanes(lanes: Lanes) -> LaneChart:
    """The drawing of all lanes."""
    count = len(lanes.lanes)
    height = next((high for most, high in HEIGHTS if count <= most), LOWEST)
    drawn = format_html_join(
        "",
        '<g data-m="{}">{}</g>',
        (
            (lane.id, _draw_lane(lane, lanes.axis, place * height, height))
            for place, lane in enumerate(lanes.lanes)
        ),
    )
    return LaneChart(height, lanes, drawn)


def _draw_lane(lane: Lane, axis: Axis, top: int, height: int) -> SafeString:
    paths = [
        *_draw_steps(lane, axis, top + height // 2),
        *_draw_marks(lane.marks, axis, top, height),
    ]
    title = format_html("<title>{}: {}</title>", lane.name, lane.summary)
    drawn = format_html_join("", '<path class="a-{}" d="{}"/>', paths)
    told = _tell_marks(lane.marks, axis)
    if told:
        drawn += format_html('<desc data-told="{}"></desc>', json.dumps(told))
    return format_html("{}{}", title, drawn)


def _draw_steps(lane: Lane, axis: Axis, y: int) -> Iterable[tuple[str, str]]:
    """The path of each activity: strokes relative to where the one before ended."""
    paths: dict[str, list[str]] = defaultdict(list)
    ends: dict[str, int] = {}
    for activity, first, count in lane.steps:
        if activity == AT_REST:
            continue
        end = ends.get(activity)
        move = f"M{first} {y}" if end is None else f"m{first - end} 0"
        paths[activity].append(f"{move}h{_measure(axis, first, count)}")
        ends[activity] = first + count
    return ((name, "".join(paths[name])) for name in ACTIVITIES if name in paths)


def _measure(axis: Axis, first: int, count: int) -> str:
    """How many units so many steps are: the last step of an axis may still go on."""
    if first + count < axis.count:
        return str(count)
    last = axis.measure_step(axis.count - 1) / axis.step
    return f"{count - 1 + max(0.1, last):.1f}".removesuffix(".0")


def _tell_marks(marks: Sequence[Mark], axis: Axis) -> dict[int, str]:
    """What the pointer tells of the newest mark of each step."""
    found: dict[int, str] = {}
    for mark in marks:
        words = f"{mark.title}: {mark.text[:TOLD]}" if mark.text else mark.title
        found.setdefault(axis.find_place(mark.at), words)
    return found


def _draw_marks(
    marks: Sequence[Mark], axis: Axis, top: int, height: int
) -> Iterable[tuple[str, str]]:
    """The path of each kind of mark; of one kind there is one in a step."""
    for kind in MARK_KINDS:
        places = {axis.find_place(mark.at) for mark in marks if mark.kind == kind}
        if not places:
            continue
        part = MARK_PLACES.get(kind)
        y = top if part is None else top + round(height * part)
        stroke = f"v{height}" if part is None else "h0"
        path = "".join(f"M{place}.5 {y}{stroke}" for place in sorted(places))
        yield kind, path
