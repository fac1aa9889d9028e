"""The app's skeleton: it starts, loads its engine and answers."""

from tests.tui.helpers import Bench, until


async def test_an_answer_is_made() -> None:
    bench = Bench()
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        await pilot.press(*"hi", "enter")
        await until(pilot, lambda: len(bench.engine.requests) == 1)
        await until(pilot, lambda: "Hello." in bench.shown)
