"""The workload that comes with the program: three code edits, a chat, an extraction, all of our own writing."""

from localspec.bench.workloads import EDIT, Task, edit_prompt

WHOLE_FILE = "Return the whole file in one code block and change nothing else."

QUEUE = '''\
"""A queue of jobs that are tried again when they fail."""

import heapq
import itertools
import time


class Job:
    """Something to do, and how often it failed so far."""

    def __init__(self, name, action, tries=3):
        self.name = name
        self.action = action
        self.tries = tries
        self.failures = 0


class Queue:
    """Jobs by the time they are due. Failed jobs come back later, each time twice as late."""

    def __init__(self, clock=time.monotonic, pause=1.0):
        self.clock = clock
        self.pause = pause
        self.waiting = []
        self.order = itertools.count()
        self.lost = []

    def add(self, job, delay=0.0):
        """Put a job into the queue, due after a delay in seconds."""
        due = self.clock() + delay
        heapq.heappush(self.waiting, (due, next(self.order), job))

    def due(self):
        """Whether the next job may run now."""
        return bool(self.waiting) and self.waiting[0][0] <= self.clock()

    def run_next(self):
        """Run the next job that is due; answer its result, or None when there was none."""
        if not self.due():
            return None
        _, _, job = heapq.heappop(self.waiting)
        try:
            return job.action()
        except Exception as error:
            job.failures += 1
            if job.failures < job.tries:
                self.add(job, self.pause * 2 ** job.failures)
            else:
                self.lost.append((job, error))
            return None

    def run_all(self):
        """Run jobs until none is due; answer how many ran."""
        count = 0
        while self.due():
            self.run_next()
            count += 1
        return count
'''

GRID = '''\
"""Shortest ways on a map of letters: '.' is free, '#' a wall, 'S' the start, 'E' the end."""

from collections import deque

STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))


def read_map(text):
    """Answer the rows, the start and the end of a map given as text."""
    rows = [line for line in text.splitlines() if line]
    start = end = None
    for y, row in enumerate(rows):
        for x, letter in enumerate(row):
            if letter == "S":
                start = (x, y)
            elif letter == "E":
                end = (x, y)
    if start is None or end is None:
        raise ValueError("the map needs a start and an end")
    return rows, start, end


def neighbours(rows, place):
    """Yield the free places next to a place."""
    x, y = place
    for dx, dy in STEPS:
        nx, ny = x + dx, y + dy
        if 0 <= ny < len(rows) and 0 <= nx < len(rows[ny]) and rows[ny][nx] != "#":
            yield (nx, ny)


def shortest_way(text):
    """Answer the places from start to end, both included, or None when there is no way."""
    rows, start, end = read_map(text)
    came_from = {start: None}
    waiting = deque([start])
    while waiting:
        place = waiting.popleft()
        if place == end:
            way = []
            while place is not None:
                way.append(place)
                place = came_from[place]
            return way[::-1]
        for following in neighbours(rows, place):
            if following not in came_from:
                came_from[following] = place
                waiting.append(following)
    return None


def drawn(text):
    """Answer the map with the shortest way marked by '*'."""
    rows, start, end = read_map(text)
    way = shortest_way(text) or []
    letters = [list(row) for row in rows]
    for x, y in way:
        if (x, y) not in (start, end):
            letters[y][x] = "*"
    return "\\n".join("".join(row) for row in letters)
'''

MEASURES = '''\
"""Measuring points that report a temperature, and what is told of them."""

import json
import statistics


class Point:
    """One measuring point with its readings, oldest first."""

    def __init__(self, name, unit="C"):
        self.name = name
        self.unit = unit
        self.readings = []

    def add(self, time, value):
        if self.readings and time < self.readings[-1][0]:
            raise ValueError(f"{self.name}: the reading at {time} comes late")
        self.readings.append((time, value))

    def between(self, start, end):
        return [value for time, value in self.readings if start <= time < end]

    def latest(self):
        return self.readings[-1][1] if self.readings else None


class Report:
    """Figures of several points over the same hours."""

    def __init__(self, points):
        self.points = {point.name: point for point in points}

    def mean(self, name, start, end):
        values = self.points[name].between(start, end)
        return statistics.fmean(values) if values else None

    def spread(self, name, start, end):
        values = self.points[name].between(start, end)
        return max(values) - min(values) if values else None

    def warmest(self, start, end):
        means = {name: self.mean(name, start, end) for name in self.points}
        known = {name: mean for name, mean in means.items() if mean is not None}
        return max(known, key=known.get) if known else None

    def as_json(self, start, end):
        rows = []
        for name in sorted(self.points):
            rows.append({
                "name": name,
                "unit": self.points[name].unit,
                "mean": self.mean(name, start, end),
                "spread": self.spread(name, start, end),
                "latest": self.points[name].latest(),
            })
        return json.dumps(rows, indent=2)
'''

CHAT = "My bread comes out flat and dense. What are the three most likely reasons, and what should I try first?"

EXTRACTION = (
    "Make a JSON array of objects with the keys guest, room, nights and breakfast (true or false) out of these notes. "
    "Answer with the JSON only.\n\n"
    "Monday: Mrs Okafor takes room 12 for three nights, with breakfast. Mr Lindqvist is in room 7, two nights, and "
    "does not want breakfast. Tuesday: the Haddad family has room 21 for five nights with breakfast; Ms Tanaka comes "
    "late, room 3, one night, no breakfast. Wednesday: Mr and Mrs Novak, room 15, four nights, breakfast on all of "
    "them. Dr Reyes has room 9 for two nights, without breakfast."
)

TASKS = (
    Task("edit-queue", EDIT, edit_prompt(f"Add type hints to every function and method. {WHOLE_FILE}", QUEUE)),
    Task("edit-grid", EDIT, edit_prompt(f"Rename the parameter `rows` to `lines` everywhere. {WHOLE_FILE}", GRID)),
    Task("edit-measures", EDIT, edit_prompt(f"Give every method a docstring of one line. {WHOLE_FILE}", MEASURES)),
    Task("chat-bread", "chat", CHAT),
    Task("extraction-hotel", "extraction", EXTRACTION),
)
