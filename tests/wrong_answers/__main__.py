"""Prints what the course says to every wrong answer: `make diagnoses`."""

from tests.wrong_answers import attempts
from tests.wrong_answers.test_diagnoses import verdict_of

if __name__ == "__main__":
    exercise = ""
    for attempt in attempts():
        if attempt.exercise != exercise:
            exercise = attempt.exercise
            print(f"\n## {exercise}\n")
        verdict = verdict_of(attempt)
        sign = "✓" if verdict.diagnosis == attempt.diagnosis else "MISSED"
        print(f"- {sign} {attempt.answer.__name__} [{verdict.diagnosis}] {verdict.message}")
