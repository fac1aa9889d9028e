"""The history: chats with their branches and provenance, two processes at once, damage. T11, S5."""

import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from localspec import paths
from localspec.chat.errors import HistoryError
from localspec.chat.history import FILE_NAME, History
from localspec.chat.history_schema import MIGRATIONS, VERSION, migrate
from localspec.chat.turns import Turn
from tests.chat.chats import TEXT, answer, chat_of, question, without_id

ROOT = Path(__file__).parents[2]


@pytest.fixture
def history() -> Iterator[History]:
    opened = History.open()
    assert opened.problem is None
    yield opened
    opened.close()


class TestChats:
    def test_an_answer_comes_back_with_every_token(self, history: History) -> None:
        said, thought = question("Write merge"), answer(thoughts="hm")
        chat = history.create(target="starter", draft="d.gguf", system="Be brief.", settings={"temperature": 0.5})
        first = history.add(chat.id, said, None)
        history.add(chat.id, thought, first)
        with_other = History.open()
        assert with_other.turns(chat.id) == [said, thought]
        found = with_other.chat(chat.id)
        with_other.close()
        assert thought.text == TEXT
        assert (found.title, found.target, found.draft) == ("Write merge", "starter", "d.gguf")
        assert (found.system, found.settings, found.messages) == ("Be brief.", {"temperature": 0.5}, 2)

    def test_the_latest_message_decides_the_order(self, history: History) -> None:
        one, two = chat_of(history, "one"), chat_of(history, "two")
        assert [chat.id for chat in history.chats()] == [two, one]
        history.add(one, question("more"), history.chat(one).head)
        assert [chat.id for chat in history.chats()] == [one, two]
        last = history.last()
        assert last is not None
        assert last.id == one
        assert [chat.id for chat in history.chats(1)] == [one]

    def test_rename_and_change_keep_the_order(self, history: History) -> None:
        one, two = chat_of(history, "one"), chat_of(history, "two")
        history.update(one, title="Een\nnaam", target="other", system="S", settings={"top_k": 1})
        found = history.chat(one)
        assert (found.title, found.target, found.draft, found.system) == ("Een naam", "other", None, "S")
        assert found.settings == {"top_k": 1}
        assert [chat.id for chat in history.chats()] == [two, one]

    def test_a_title_is_the_first_line_with_something_on_it(self, history: History) -> None:
        assert history.chat(chat_of(history, "\n  \n  Why\x1b[2J?\nmore")).title == "Why␛[2J?"
        assert len(history.chat(chat_of(history, "word " * 50)).title) <= 60
        assert history.chat(chat_of(history, "asked", title="Given")).title == "Given"

    def test_a_deleted_chat_is_gone_with_everything(self, history: History) -> None:
        one, two = chat_of(history, *map(str, range(3))), chat_of(history, "two")
        history.delete(one)
        assert [chat.id for chat in history.chats()] == [two]
        with sqlite3.connect(history.file or "") as db:
            assert db.execute("SELECT count(*) FROM messages").fetchone() == (2,)
            assert db.execute("SELECT count(*) FROM provenance").fetchone() == (1,)
        with pytest.raises(HistoryError, match=f"no chat {one}"):
            history.turns(one)
        for change in (lambda: history.delete(one), lambda: history.update(one, title="x")):
            with pytest.raises(HistoryError, match=f"no chat {one}"):
                change()
        assert chat_of(history, "three") > two, "numbers are never given twice"

    def test_a_very_long_chat_can_be_deleted(self, history: History) -> None:
        chat, parent = history.create(), None
        for number in range(1200):
            parent = history.add(chat.id, Turn("user", str(number)), parent)
        history.delete(chat.id)
        assert history.chats() == []

    def test_text_with_half_a_character_is_kept(self, history: History) -> None:
        chat = chat_of(history, "name\udce9.txt\x00 end")
        assert history.turns(chat)[0].text == "name?.txt\x00 end"


class TestBranches:
    def test_editing_and_regenerating_keep_what_was_there(self, history: History) -> None:
        chat = chat_of(history, "one", "two")
        one, first, two, second = (turn.id for turn in history.turns(chat))
        assert first is not None
        assert second is not None
        edited = history.add(chat, question("two, but shorter"), first)
        again = history.add(chat, answer(), edited)
        assert [turn.id for turn in history.turns(chat)] == [one, first, edited, again]
        assert history.siblings(edited) == [two, edited]
        assert history.siblings(again) == [again]
        regenerated = history.add(chat, answer(), edited)
        assert history.siblings(again) == [again, regenerated]
        assert history.show(second) == second
        assert [turn.id for turn in history.turns(chat)] == [one, first, two, second]
        assert history.show(edited) == regenerated
        assert [turn.id for turn in history.turns(chat, again)] == [one, first, edited, again]

    def test_another_beginning_is_a_branch_too(self, history: History) -> None:
        chat = chat_of(history, "one")
        one = history.turns(chat)[0].id
        other = history.add(chat, question("uno"), None)
        assert history.siblings(other) == [one, other]
        assert [turn.text for turn in history.turns(chat)] == ["uno"]

    def test_the_list_of_branches(self, history: History) -> None:
        chat = chat_of(history, "one", "two")
        _, first, _, second = (turn.id for turn in history.turns(chat))
        edited = history.add(chat, question("deux"), first)
        found = history.branches(chat)
        assert [(b.leaf, b.messages, b.question, b.shown) for b in found] == [
            (edited, 3, "deux", True),
            (second, 4, "two", False),
        ]
        assert history.branches(history.create().id) == []

    def test_a_leaf_of_another_chat_shows_nothing(self, history: History) -> None:
        one, two = chat_of(history, "one"), chat_of(history, "two")
        assert history.turns(one, history.chat(two).head) == []
        with pytest.raises(HistoryError, match="no message 999"):
            history.show(999)


class TestUnfinished:
    def test_an_answer_without_an_end_is_broken(self, history: History) -> None:
        chat = history.create()
        turn = replace(answer(), reason=None, stats=None)
        history.add(chat.id, turn, history.add(chat.id, question("?"), None))
        found = history.turns(chat.id)
        assert [turn.broken for turn in found] == [False, True]
        assert found[1].stopped
        assert found[1].parts == turn.parts

    def test_saving_goes_on_where_it_was(self, history: History) -> None:
        chat = history.create()
        whole = answer()
        turn = Turn("assistant")
        history.add(chat.id, turn, None)
        for count in (2, len(whole.parts)):
            turn.parts = whole.parts[:count]
            turn.text = "".join(part.text for part in turn.parts)
            history.save(turn)
            assert history.turns(chat.id)[0].parts == turn.parts
        turn.cycles, turn.started, turn.reason, turn.stats = whole.cycles, whole.started, whole.reason, whole.stats
        history.save(turn)
        assert without_id(history.turns(chat.id)[0]) == whole

    def test_a_message_that_was_never_added_is_refused(self, history: History) -> None:
        with pytest.raises(HistoryError, match="add it first"):
            history.save(question("?"))

    def test_a_killed_process_leaves_what_it_had_saved(self, history: History) -> None:
        """T6: no end, no close, no commit outstanding."""
        code = (
            "import os, signal; from localspec.chat.history import History; from localspec.chat.turns import Turn\n"
            "h = History.open(); c = h.create(); t = Turn('assistant'); h.add(c.id, t, None)\n"
            "t.text = 'half an '; h.save(t); os._exit(9)"
        )
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
        chat = history.last()
        assert chat is not None
        (turn,) = history.turns(chat.id)
        assert (turn.text, turn.broken) == ("half an ", True)


class TestSearch:
    def test_words_are_found_inside_words_in_any_case(self, history: History) -> None:
        chat = chat_of(history, "Sort LISTEN of strings")
        assert [hit.chat for hit in history.search("listen STR")] == [chat]
        assert [hit.chat for hit in history.search("sten")] == [chat]
        assert history.search("listen numbers") == []

    def test_the_title_comes_first_then_the_latest(self, history: History) -> None:
        titled = chat_of(history, "x", title="About parsing")
        old, new = chat_of(history, "hello", "parsing now"), chat_of(history, "hello", "later parsing")
        hits = history.search("parsing")
        assert [(hit.chat, hit.message is None) for hit in hits] == [(titled, True), (new, False), (old, False)]
        assert [hit.chat for hit in history.search("parsing", limit=2)] == [titled, new]

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("x: list[int] = []", "list[int]"),
            ('say "hi there" twice', 'twice "hi there"'),
            ("50% of _it_\\", "50%"),
            ("a_b", "_"),
            ("ÉCOLE", "école"),
            ("日本語の文", "本語"),
            ("ab", "AB"),
            ("it's OR NOT (x*)", "OR (x*)"),
        ],
    )
    def test_signs_and_scripts_are_just_text(self, history: History, text: str, query: str) -> None:
        chat = chat_of(history, "\n".join(("title", text)))
        chat_of(history, "something else: 5 of it")
        assert [hit.chat for hit in history.search(query)] == [chat]

    @pytest.mark.parametrize("query", ["", "   ", '"', '""'])
    def test_no_words_find_nothing(self, history: History, query: str) -> None:
        chat_of(history, 'a ""')
        assert history.search(query) == []

    def test_the_snippet_shows_where(self, history: History) -> None:
        chat_of(history, "start\n" + "filler " * 40 + "before the needle, after\nit" + " filler" * 40)
        (hit,) = history.search("NEEDLE filler")
        assert hit.snippet.startswith("…")
        assert hit.snippet.endswith("…")
        assert "\n" not in hit.snippet
        found = [hit.snippet[start:end].lower() for start, end in hit.spans]
        assert found.count("needle") == 1
        assert set(found) == {"needle", "filler"}

    def test_counts_and_the_latest_message(self, history: History) -> None:
        chat = chat_of(history, "apples", "pears", "more apples")
        (hit,) = history.search("apples mor")
        assert (hit.chat, hit.count, hit.message) == (chat, 1, history.turns(chat)[4].id)
        title, *_ = history.search("apples")
        assert title.message is None

    def test_what_changed_or_went_is_found_no_more(self, history: History) -> None:
        chat = chat_of(history, "first", title="Old name")
        turn = history.turns(chat)[0]
        assert history.search("first")
        turn.text = "second"
        history.save(turn)
        history.update(chat, title="New name")
        assert history.search("first") == history.search("Old") == []
        assert history.search("second")
        assert history.search("New")
        history.delete(chat)
        assert history.search("second") == history.search("New") == []

    def test_without_fts5_the_same_is_found(self, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
        chats = [chat_of(history, "alpha Beta"), chat_of(history, "beta ÉCOLE"), chat_of(history, "gamma")]
        queries = ("beta", "école", "alpha beta", "a", "delta", "zzz")
        found = [history.search(query) for query in queries]
        monkeypatch.setattr("localspec.chat.history_search.has_index", lambda _: False)
        assert [history.search(query) for query in queries] == found
        assert {hit.chat for hit in found[0]} == set(chats[:2])

    def test_the_index_is_used(self, history: History) -> None:
        chat_of(history, "alpha")
        history.search("alpha")
        with sqlite3.connect(history.file or "") as db:
            assert db.execute("SELECT count(*) FROM message_index WHERE message_index MATCH 'alpha'").fetchone() == (1,)
            assert db.execute("SELECT count(*) FROM messages WHERE indexed = 0").fetchone() == (0,)


class TestTheFile:
    def test_nobody_else_may_read_it(self, history: History) -> None:
        chat_of(history, "private")
        assert history.file is not None
        if sys.platform != "win32":
            for file in history.file.parent.glob(f"{FILE_NAME}*"):
                assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0

    def test_version_1_is_brought_to_the_current_one(self) -> None:
        """The dump is of version 1 as it was released: it must never change."""
        file = paths.data_dir() / FILE_NAME
        file.parent.mkdir(parents=True)
        with sqlite3.connect(file) as db:
            db.executescript((Path(__file__).parent / "history_v1.sql").read_text(encoding="utf-8"))
            assert db.execute("PRAGMA user_version").fetchone() == (1,)
        history = History.open()
        assert history.problem is None
        turns = history.turns(1)
        assert [turn.text for turn in turns] == [
            "Write merge", TEXT, "Again, with generators", "cut off by a crash",
        ]  # fmt: skip
        assert without_id(turns[1]) == answer()
        assert turns[3].broken
        assert [hit.message for hit in history.search("generators")] == [3]
        assert history.search("Merging")[0].chat == 1
        history.add(1, question("on"), 4)
        assert len(history.turns(1)) == 5
        history.close()
        with sqlite3.connect(file) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)

    def test_a_migrated_file_has_the_tables_of_a_new_one(self, history: History, tmp_path: Path) -> None:
        old = tmp_path / "old.db"
        with sqlite3.connect(old) as db:
            db.executescript((Path(__file__).parent / "history_v1.sql").read_text(encoding="utf-8"))
        History.open(old).close()
        look = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
        with sqlite3.connect(old) as one, sqlite3.connect(history.file or "") as two:
            assert one.execute(look).fetchall() == two.execute(look).fetchall()

    def test_a_failed_migration_changes_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = _made_of_version_1(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr("localspec.chat.history_schema.MIGRATIONS", (*MIGRATIONS, ("no sql at all",)))
            patch.setattr("localspec.chat.history_schema.VERSION", VERSION + 1)
            db = sqlite3.connect(file, isolation_level=None)
            with pytest.raises(sqlite3.OperationalError, match="syntax"):
                migrate(db)
            assert db.execute("PRAGMA user_version").fetchone() == (1,)
            db.close()
        history = History.open(file)
        assert history.problem is None
        assert len(history.turns(1)) == 4
        history.close()

    def test_a_newer_file_is_left_alone(self, history: History) -> None:
        history.close()
        assert history.file is not None
        with sqlite3.connect(history.file) as db:
            db.execute(f"PRAGMA user_version = {VERSION + 1}")
        newer = History.open()
        assert newer.problem is not None
        assert "newer localspec" in newer.problem
        assert not newer.kept

    @pytest.mark.parametrize("damage", ["text", "folder", "no folder", "zeroes"])
    def test_one_that_cannot_be_used_is_left_and_said(self, home: Path, damage: str) -> None:
        file = paths.data_dir() / FILE_NAME
        if damage == "no folder":
            file.parent.write_text("a file where the folder would be")
        else:
            file.parent.mkdir(parents=True)
            if damage == "folder":
                file.mkdir()
            else:
                file.write_bytes(b"not a database at all" * 99 if damage == "text" else b"\0" * 8192)
        before = file.read_bytes() if file.is_file() else None
        history = History.open()
        assert history.problem is not None
        assert str(file) in history.problem
        assert "\n" not in history.problem
        assert not history.kept
        # It is a whole history all the same, for as long as the program runs.
        chat = chat_of(history, "one")
        assert len(history.turns(chat)) == 2
        assert history.search("one")
        assert (file.read_bytes() if file.is_file() else None) == before
        history.close()

    def test_damage_inside_is_one_line_when_it_is_met(self, history: History) -> None:
        chat_of(history, *("x" * 3000 for _ in range(8)))
        history.close()
        assert history.file is not None
        data = bytearray(history.file.read_bytes())
        for at in range(8192, len(data), 512):
            data[at : at + 64] = b"\xff" * 64
        history.file.write_bytes(data)
        damaged = History.open()
        if damaged.problem is None:
            with pytest.raises(HistoryError) as caught:
                [damaged.turns(chat.id) for chat in damaged.chats()]
            assert "\n" not in str(caught.value)
        damaged.close()

    def test_damaged_provenance_costs_the_colours_only(self, history: History) -> None:
        chat = chat_of(history, "one")
        with sqlite3.connect(history.file or "") as db:
            db.execute("UPDATE provenance SET data = x'00'")
        turns = history.turns(chat)
        assert (turns[1].text, turns[1].parts) == (TEXT, [])

    def test_a_deleted_chat_of_another_process_is_said(self, history: History) -> None:
        chat = chat_of(history, "one")
        other = History.open()
        other.delete(chat)
        other.close()
        with pytest.raises(HistoryError, match="another localspec deleted it"):
            history.add(chat, question("two"), None)


class TestSeveral:
    def test_two_processes_write_and_nothing_is_lost(self, history: History) -> None:
        code = (
            "import sys; sys.path.insert(0, '.')\n"
            "from localspec.chat.history import History; from tests.chat.chats import *\n"
            "h = History.open(); assert h.problem is None, h.problem\n"
            "sys.stdin.readline()\n"
            "for n in range(30):\n"
            "    c = chat_of(h, f'{sys.argv[1]} {n}'); t = h.turns(c)[1]; h.save(t); h.search(sys.argv[1])\n"
            "h.close()"
        )
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", code, name], cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for name in ("left", "right")
        ]
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write(b"\n")
            writer.stdin.flush()
        for writer in writers:
            _, errors = writer.communicate(timeout=120)
            assert errors == b""
            assert writer.returncode == 0
        assert {chat.title for chat in history.chats()} == {f"{s} {n}" for s in ("left", "right") for n in range(30)}
        assert all(len(history.turns(chat.id)) == 2 for chat in history.chats())
        with sqlite3.connect(history.file or "") as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert db.execute("PRAGMA foreign_key_check").fetchall() == []

    def test_two_processes_migrate_at_once(self) -> None:
        file = paths.data_dir() / FILE_NAME
        file.parent.mkdir(parents=True)
        shutil.copy(_made_of_version_1(file.parent), file)
        code = "from localspec.chat.history import History; h = History.open(); print(h.problem, len(h.turns(1)))"
        both = [
            subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        assert [one.communicate(timeout=60)[0] for one in both] == ["None 4\n"] * 2

    def test_a_file_that_another_process_writes_to_is_waited_for(self, tmp_path: Path) -> None:
        """SQLite itself waits for no writer before it changes how a file is written."""
        file = _made_of_version_1(tmp_path)
        other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
        release.start()
        history = History.open(file)
        release.join()
        assert history.problem is None
        assert len(history.turns(1)) == 4
        history.close()
        other.close()

    def test_threads_share_one(self, history: History) -> None:
        chat = history.create()
        turns = [Turn("assistant") for _ in range(4)]

        def write(turn: Turn) -> None:
            history.add(chat.id, turn, None)
            for n in range(20):
                turn.text += f"{n} "
                history.save(turn)

        threads = [threading.Thread(target=write, args=(turn,)) for turn in turns]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = [turn for turn, _, _ in history.tree(chat.id)]
        assert [turn.text for turn in kept] == [turns[0].text] * 4


def _made_of_version_1(folder: Path) -> Path:
    file = folder / "made.db"
    with sqlite3.connect(file) as db:
        db.executescript((Path(__file__).parent / "history_v1.sql").read_text(encoding="utf-8"))
    return file
