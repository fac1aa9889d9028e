"""Grammars that llama.cpp's parser would take and not survive, or refuse without a reason, are refused with one."""

import subprocess
import sys
from pathlib import Path

import pytest

from localspec.engine import gbnf
from localspec.engine.errors import EngineError
from localspec.engine.grammar_state import GrammarState
from localspec.engine.llama import Model

GOOD = {
    "alternatives": 'root ::= "a" | "b" other\nother ::= [c-d]+',
    "groups": 'root ::= ( "a" ( "b"\n | "c" )? ){2,5} # a comment\n',
    "escapes": r'root ::= "\x41\u0042\U00000043\t\r\n\\\"\[\]" [^\x00-\x1F\]\-a-]',
    "any": "root ::= .*",
    "right recursion": 'root ::= "a" root | ""',
    "windows": 'root ::= other\r\nother ::= "a"\r\n',
    "nothing": 'root ::= ""',
    "empties inside": 'root ::= ("a"* "b"*)* "c"',
}

BAD = {
    "": "no rule named root",
    "  \n# only a comment\n": "no rule named root",
    'other ::= "a"': "no rule named root",
    "root ::= missing": "no rule named missing",
    "root ::= (": r"line 1: expected \)",
    'root ::= "a"\nroot2 = "b"': "line 2: expected ::=",
    'root ::= "a': "ends inside",
    "root ::= [a": "ends inside",
    "root ::= []": "empty character class",
    "root ::= [z-a]": "runs backwards",
    r'root ::= "\q"': "is no escape",
    r'root ::= "\x4"': "needs 2 hexadecimal",
    r'root ::= "\UFFFFFFFF"': "is no character",
    "root ::= *": "nothing stands before",
    'root ::= ""*': "nothing stands before",
    'root ::= "a"{5,2}': "from 5 to 2",
    'root ::= "a"{3000}': "more than 2,000",
    'root ::= "a"{0,3000}': "more than 2,000",
    'root ::= "a"{99999999999999999999}': "more than 2,000",
    'root ::= "a" !<[7]>': "not supported",
    'root ::= "a" ]': "expected the end of the rule",
    'root ::= "a"\0': "zero byte",
    'root ::= root "a" | "b"': "root begins with itself",
    'root ::= a\na ::= b a "y" | "z"\nb ::= c\nc ::= ""': "a begins with itself",
    "root ::= " + "(" * 5000 + '"a"' + ")" * 5000: "nest deeper",
    "root ::= r0\n" + "".join(f"r{i} ::= r{i + 1}\n" for i in range(6000)) + 'r6000 ::= "a"': "more than 5,000 rules",
    'root ::= "' + "a" * gbnf.MAX_BYTES + '"': "longer than",
    'root ::= "\udcff"': "not valid Unicode",
}


@pytest.mark.parametrize("name", GOOD)
def test_good_grammars_pass_and_llama_cpp_takes_them(tiny_files: dict[str, Path], name: str) -> None:
    gbnf.check(GOOD[name])
    model = Model(str(tiny_files["bytes"]), vocab_only=True)
    state = GrammarState.begin(model, GOOD[name])
    state.close()
    model.close()


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:24])
def test_bad_grammars_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(EngineError, match=BAD[text]) as error:
        gbnf.check(text)
    assert "\n" not in str(error.value)


def test_the_longest_things_that_pass_are_survived(tiny_files: dict[str, Path]) -> None:
    """The limits lie below what overflows the stack. In a process of its own: it may be the one that ends."""
    chain = "root ::= r0\n" + "".join(f"r{i} ::= r{i + 1}\n" for i in range(4990)) + 'r4990 ::= "a"'
    deep = "root ::= " + "(" * (gbnf.MAX_DEPTH - 1) + '"a"' + ")" * (gbnf.MAX_DEPTH - 1)
    code = (
        "import sys; from localspec.engine import gbnf; from localspec.engine.llama import Model\n"
        "from localspec.engine.grammar_state import GrammarState\n"
        f"model = Model({str(tiny_files['bytes'])!r}, vocab_only=True)\n"
        "for text in sys.stdin.read().split('---'):\n"
        "    gbnf.check(text); state = GrammarState.begin(model, text); print(state.allows(model.tokenize('a')[0]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=f"{chain}---{deep}", capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True"], done.stderr[-300:]
