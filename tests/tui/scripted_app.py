"""The app with a scripted engine as a program of its own: every answer is the edit of `edits`."""

from dataclasses import replace

from tests.fake_engine import INFO
from tests.tui.edits import NEW, answers
from tests.tui.helpers import Bench

if __name__ == "__main__":
    Bench(answers(NEW), info=replace(INFO, context=4096)).app.run()
