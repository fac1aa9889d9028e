"""The transcript: looks, folding, the token cursor, finding, copying, following."""

from pathlib import Path

import pytest
from textual.geometry import Offset
from textual.selection import Selection

from localspec import paths
from localspec.chat.history import History
from localspec.chat.settings import Settings
from localspec.engine.events import Source
from localspec.engine.requests import SourceText
from localspec.tui.widgets.tokenpanel import TokenPanel
from tests.fake_engine import INFO, Say, Script, Wait, plain
from tests.tui.helpers import Bench, until

MIXED = [
    *plain("The"),
    Say((" quick", " brown"), ("bonus", " fox")),
    Say((" jumps",), ("resampled", " over"), drafter="draft", proposed=3),
    *plain(" it"),
]

HOSTILE = "[/INST] [/ a[i] list[int] [@click=app.quit]x[/] \x1b]52;c;eA==\x07 \x1b[2J \x9b31m"


def styles(bench: Bench, text: str) -> set[str]:
    """The attributes that the characters of `text` have on the screen."""
    found = set()
    transcript = bench.transcript
    for y in range(transcript.virtual_size.height):
        for segment in transcript._strip(y):
            if segment.text.strip() and segment.text.strip() in text.split() and segment.style:
                names = ("bold", "italic", "underline", "strike", "reverse")
                found |= {name for name in names if getattr(segment.style, name)}
    return found


async def test_every_kind_has_an_attribute_of_its_own() -> None:
    """T10: told apart without hue."""
    bench = Bench([Script(MIXED)])
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "hi")
        assert "The quick brown fox jumps over it" in bench.shown
        assert styles(bench, "quick") == {"bold"}
        assert styles(bench, "jumps") == {"italic"}
        assert styles(bench, "over") == {"underline"}
        assert styles(bench, "fox") == {"bold", "underline"}
        assert styles(bench, "it") == set()


async def test_marks_tell_the_kinds_by_brackets() -> None:
    """T10: `marks`."""
    bench = Bench([Script(MIXED)], settings=Settings(color="marks"), draft="small.gguf")
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "hi")
        assert "The‹ quick brown›⟨ fox⟩« jumps»⟦ over⟧ it" in bench.shown
        assert "«accepted (draft model)»" in str(bench.app.chat.query_one("#legend").content)


async def test_untrusted_text_is_shown_and_never_obeyed() -> None:
    """T2 and S5: in the prompt, the answer and the thoughts; stored and copied text is unchanged."""
    bench = Bench([Script(plain(HOSTILE))])
    async with bench.app.run_test(size=(120, 30)) as pilot:
        await bench.ask(pilot, HOSTILE)
        shown = "[/INST] [/ a[i] list[int] [@click=app.quit]x[/] ␛]52;c;eA==␇ ␛[2J <9B>31m"
        assert bench.shown.count(shown) == 2
        drawn = "".join(segment.text for y in range(30) for segment in bench.transcript.render_line(y))
        assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in drawn)
        assert bench.app.chat.desk.talk.turns[1].text == HOSTILE
        await pilot.press("f8")
        assert bench.app.clipboard == HOSTILE


async def test_control_sequences_split_over_tokens() -> None:
    """S5: split over tokens, and a CR LF that comes apart."""
    bench = Bench([Script(plain("a\x1b", "[2", "J\r", "\nb"))])
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "hi")
        assert "a␛[2J\n" in bench.shown
        assert bench.app.chat.desk.talk.turns[1].text == "a\x1b[2J\r\nb"


async def test_wide_and_combined_characters_keep_the_layout() -> None:
    bench = Bench([Script(plain("日本", "語", "e", "\u0301", " 👩", "\u200d", "💻", " ok"))])
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "hi")
        for y in range(bench.transcript.size.height):
            strip = bench.transcript.render_line(y)
            assert strip.cell_length == bench.transcript.scrollable_content_region.width
            for segment in strip:
                assert not segment.text.startswith(("\u0301", "\u200d"))
        assert "日本語e\u0301 👩\u200d💻 ok" in bench.shown


class TestCursor:
    async def test_it_shows_each_tokens_cycle(self) -> None:
        bench = Bench([Script(MIXED)])
        async with bench.app.run_test(size=(100, 30)) as pilot:
            await bench.ask(pilot, "hi")
            panel = bench.app.chat.query_one(TokenPanel)
            assert not panel.display
            await pilot.press("shift+tab", "left")
            assert panel.display
            assert "“ it”" in str(panel.content)
            assert "nothing drafted" in str(panel.content)
            await pilot.press("left")
            text = str(panel.content)
            assert "draft model, draft length 3, judged 2, kept 1," in text
            assert " jumps??" in text
            assert "the target put instead  “ over”" in text
            await pilot.press("left_square_bracket")
            assert "“ quick”" in str(panel.content)
            assert "the target went on with  “ fox”" in str(panel.content)
            await pilot.press("left")
            assert "the first token" in str(panel.content)
            await pilot.press("escape")
            assert not panel.display
            assert bench.prompt.has_focus

    async def test_a_copied_token_tells_its_file_and_line(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also when the chat comes out of the history."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "shelf.py").write_text("def add():\n    pass\n")
        copied = Say(("def", " add"), ("resampled", "("), proposed=4, source=Source(str(tmp_path / "shelf.py"), 1))
        bench = Bench([Script([*plain("a"), copied])], history=History.in_memory())
        async with bench.app.run_test(size=(100, 30)) as pilot:
            await bench.ask(pilot, "rename @shelf.py")
            (source,) = bench.engine.requests[-1].sources
            assert source == SourceText(str(tmp_path / "shelf.py"), "def add():\n    pass\n")
            desk = bench.app.chat.desk
            panel = bench.app.chat.query_one(TokenPanel)
            for _ in range(2):
                bench.transcript.focus()
                await pilot.press("left", "left")
                assert "“ add”" in str(panel.content)
                assert "copied from  shelf.py line 1" in str(panel.content)
                assert panel.size.height == 5
                await pilot.press("right")
                assert "“(”" in str(panel.content)
                assert "copied" not in str(panel.content)
                bench.app.chat.open_chat(desk.talk.chat_id, None)
                await until(pilot, lambda: not panel.display)
            await bench.ask(pilot, "and again")
            assert bench.engine.requests[-1].sources == (source,)

    async def test_up_and_down_move_over_lines_and_messages(self) -> None:
        words = [f"word{number} " for number in range(60)]
        bench = Bench([Script(plain(*words))])
        async with bench.app.run_test(size=(60, 24)) as pilot:
            await bench.ask(pilot, "hi")
            panel = bench.app.chat.query_one(TokenPanel)
            await pilot.press("shift+tab", "left", "up")
            first = str(panel.content).splitlines()[0]
            await pilot.press("down")
            assert str(panel.content).splitlines()[0] != first
            await pilot.press("k")
            assert bench.transcript.current is bench.transcript.blocks[0]
            assert not panel.display

    async def test_a_click_points_at_a_token(self) -> None:
        bench = Bench([Script(MIXED)])
        async with bench.app.run_test(size=(80, 24)) as pilot:
            await bench.ask(pilot, "hi")
            line = bench.shown.splitlines().index("The quick brown fox jumps over it")
            await pilot.click(bench.transcript, offset=(1 + 2 + 5, line))
            await until(pilot, lambda: "“ quick”" in str(bench.app.chat.query_one(TokenPanel).content))

    async def test_rejected_guesses_are_shown_on_demand(self) -> None:
        bench = Bench([Script(MIXED)])
        async with bench.app.run_test() as pilot:
            await bench.ask(pilot, "hi")
            await pilot.press("shift+tab", "x")
            assert "jumps?? over" in bench.shown
            assert styles(bench, "??") == {"strike"}
            await pilot.press("x")
            assert "??" not in bench.shown


async def test_markdown_and_back() -> None:
    text = "# Title\n\n- **bold** and `code`\n\n```python\ndef f():\n    return 1\n```\n"
    bench = Bench([Script(plain(text))])
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "hi")
        assert "**bold**" in bench.shown
        await pilot.press("ctrl+l")
        assert "**" not in bench.shown
        assert "bold and code" in bench.shown
        assert "return 1" in bench.shown
        await pilot.press("ctrl+l")
        assert "**bold**" in bench.shown


THINKS = "{# <think></think> #}{% for m in messages %}{{ m.content }}{% endfor %}"


async def test_thoughts_are_folded_with_their_tokens() -> None:
    from dataclasses import replace

    info = replace(INFO, chat_template=THINKS)
    bench = Bench([Script(plain("<think>", "I ", "wonder", "</think>", "\n\n", "Yes"))], info=info)
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "hi")
        assert "▸ thoughts, 2 tokens" in bench.shown
        assert "wonder" not in bench.shown
        await pilot.press("shift+tab", "t")
        assert "▾ thoughts, 2 tokens" in bench.shown
        assert "I wonder" in bench.shown
        assert "Yes" in bench.shown


class TestFinding:
    async def test_places_are_counted_and_visited(self) -> None:
        bench = Bench([Script(plain(*["needle ", "hay\n"] * 40))])
        async with bench.app.run_test() as pilot:
            await bench.ask(pilot, "Needle?")
            found = bench.app.chat.query_one("#found")
            await pilot.press("ctrl+f", *"needle")
            await until(pilot, lambda: str(found.content) == "41 found")
            await pilot.press("enter")
            await until(pilot, lambda: str(found.content) == "1 of 41")
            assert bench.transcript.scroll_offset.y <= 1
            await pilot.press("up")
            await until(pilot, lambda: str(found.content) == "41 of 41")
            assert bench.transcript.scroll_offset.y > 10
            await pilot.press("escape")
            assert bench.prompt.has_focus

    async def test_nothing_found(self) -> None:
        bench = Bench()
        async with bench.app.run_test() as pilot:
            await bench.ask(pilot, "hi")
            await pilot.press("ctrl+f", *"zz[/x]", "enter")
            await until(pilot, lambda: str(bench.app.chat.query_one("#found").content) == "nothing found")


class TestCopying:
    async def test_code_blocks_in_turn(self) -> None:
        text = "a\n```python\none\n\ttab\n```\nb\n~~~\ntwo\n~~~\n"
        bench = Bench([Script(plain(text))])
        async with bench.app.run_test() as pilot:
            await bench.ask(pilot, "hi")
            await pilot.press("shift+tab", "c")
            assert bench.app.clipboard == "one\n\ttab\n"
            assert "Code block 1 of 2 sent to the terminal" in bench.notice
            await pilot.press("c")
            assert bench.app.clipboard == "two\n"
            await pilot.press("c")
            assert bench.app.clipboard == "one\n\ttab\n"

    async def test_the_whole_chat(self) -> None:
        bench = Bench()
        async with bench.app.run_test() as pilot:
            await bench.ask(pilot, "hi")
            await pilot.press("shift+tab", "Y")
            assert bench.app.clipboard == "**You**\n\nhi\n\n**Answer**\n\nHello.\n"

    async def test_what_is_too_much_for_a_terminal_is_in_a_file_too(self) -> None:
        """T7: 200 kB; says "sent to the terminal", and a file as last resort."""
        text = "x" * 200_000
        bench = Bench([Script(plain(text))])
        async with bench.app.run_test() as pilot:
            await bench.ask(pilot, "hi")
            await pilot.press("f8")
            file = paths.state_dir() / "copied.txt"
            assert str(file) in bench.notice.replace("\n", "")
            assert file.read_text() == text
            assert file.stat().st_mode & 0o077 == 0

    async def test_a_mouse_selection_copies_the_source(self) -> None:
        """T7: the exact source, over wrapped lines and marks."""
        text = "tab\there and a long line that is wrapped because it is longer than the screen\x1b\nnext"
        bench = Bench([Script(plain(text))])
        async with bench.app.run_test(size=(40, 24)) as pilot:
            await bench.ask(pilot, "hi")
            top = bench.transcript.top_of(1)
            selection = Selection(Offset(0, top + 1), Offset(200, top + 5))
            copied = bench.transcript.get_selection(selection)
            assert copied is not None
            assert text in copied[0]


class TestFollowing:
    async def test_the_end_is_followed_until_the_reader_scrolls_up(self) -> None:
        wait = Wait()
        lines = [f"line {number}\n" for number in range(50)]
        bench = Bench([Script([*plain(*lines), wait, *plain(*lines)])])
        async with bench.app.run_test() as pilot:
            await bench.type(pilot, "hi")
            transcript = bench.transcript
            await until(pilot, lambda: "line 49" in bench.shown)
            assert transcript.scroll_offset.y == transcript.max_scroll_y
            await pilot.press("shift+tab", "home")
            await until(pilot, lambda: not transcript.following)
            await until(pilot, lambda: "more below" in str(bench.app.chat.query_one("#legend").content))
            where = transcript.scroll_offset.y
            wait.release.set()
            await bench.ready(pilot)
            await until(pilot, lambda: len(bench.shown.splitlines()) > 100)
            assert transcript.scroll_offset.y == where
            await pilot.press("end")
            await until(pilot, lambda: transcript.following)
            assert transcript.scroll_offset.y == transcript.max_scroll_y

    async def test_a_resize_wraps_anew_and_keeps_the_end(self) -> None:
        bench = Bench([Script(plain(*[f"word{number} " for number in range(300)]))])
        async with bench.app.run_test(size=(120, 30)) as pilot:
            await bench.ask(pilot, "hi")
            before = bench.transcript.virtual_size.height
            await pilot.resize_terminal(50, 20)
            await until(pilot, lambda: bench.transcript.virtual_size.height > before)
            assert bench.transcript.scroll_offset.y == bench.transcript.max_scroll_y
            assert "word299" in bench.shown


async def test_painting_is_batched(monkeypatch: pytest.MonkeyPatch) -> None:
    """T3: a fast stream is painted a few times, not once a token, and its end is always there."""
    from localspec.tui.widgets.transcript import Transcript

    grown = 0
    original = Transcript.grown

    def counted(self: Transcript) -> None:
        nonlocal grown
        grown += 1
        original(self)

    monkeypatch.setattr(Transcript, "grown", counted)
    bench = Bench([Script(plain(*[f"{number} " for number in range(2000)]))])
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "hi")
        assert "1999" in bench.shown
        assert 0 < grown < 200


async def test_an_old_answer_opens_with_its_colours() -> None:
    from localspec.chat.history import History

    history = History.in_memory()
    bench = Bench([Script(MIXED)], history=history)
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "hi")
        chat = bench.app.chat.desk.talk.chat_id
    again = Bench(history=history)
    async with again.app.run_test() as pilot:
        await again.ready(pilot)
        again.app.chat.open_chat(chat, None)
        await until(pilot, lambda: "The quick" in again.shown)
        assert styles(again, "quick") == {"bold"}
        assert styles(again, "over") == {"underline"}
