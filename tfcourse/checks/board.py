"""The progress board: what is done, what is open, lesson by lesson."""

from __future__ import annotations

from html import escape

from tfcourse.checks.exercise import Exercise
from tfcourse.checks.quiz import Item


class Board:
    """Exercises and questions with their records, as a table and as text."""

    def __init__(self, exercises: dict[str, Exercise], questions: dict[str, Item], records: dict):
        self.lessons: dict[str, list[tuple[str, str]]] = {}
        self.quizzes: dict[str, tuple[int, int]] = {}
        for name, exercise in exercises.items():
            entry = records["exercises"].get(name, {})
            state = "done" if "right" in entry else "tried" if "last" in entry else "open"
            self.lessons.setdefault(exercise.lesson, []).append((exercise.title, state))
        for name, item in questions.items():
            right, total = self.quizzes.get(item.lesson, (0, 0))
            done = "right" in records["questions"].get(name, {})
            self.quizzes[item.lesson] = (right + done, total + 1)

    def __repr__(self) -> str:
        return "\n".join(
            f"{lesson} · {done} · {names} · questions {asked}"
            for lesson, done, names, asked in self._rows()
        )

    def _rows(self):
        signs = {"done": "✓", "tried": "✗", "open": "○"}
        for lesson, parts in self.lessons.items():
            done = sum(state == "done" for _, state in parts)
            right, total = self.quizzes.get(lesson, (0, 0))
            names = ", ".join(f"{signs[state]} {title}" for title, state in parts)
            yield lesson, f"{done}/{len(parts)}", names, f"{right}/{total}"

    def _repr_mimebundle_(self, include=None, exclude=None):
        rows = "".join(
            f"<tr><td>{escape(lesson)}</td><td>{done}</td>"
            f'<td style="text-align:left;white-space:normal">{escape(names)}</td>'
            f"<td>{escape(asked)}</td></tr>"
            for lesson, done, names, asked in self._rows()
        )
        html = (
            "<table><caption>Your progress: ✓ right, ✗ tried, ○ open</caption><tr><th>Lesson</th>"
            f"<th>Done</th><th>Exercises</th><th>Questions</th></tr>{rows}</table>"
        )
        return {"text/plain": repr(self), "text/html": html}
