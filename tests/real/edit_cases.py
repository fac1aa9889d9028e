"""Twelve small edits in three languages: the file, what is asked, which lines, and what must be in the new text."""

from typing import NamedTuple


class Case(NamedTuple):
    name: str
    text: str
    instruction: str
    wanted: tuple[str, ...]
    unwanted: tuple[str, ...] = ()
    lines: str | None = None


STACK = '''\
class Stack:
    """Things on top of each other."""

    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        return self.items.pop()

    def size(self):
        return len(self.items)
'''

WORDS = """\
import sys


def count(path):
    words = {}
    with open(path) as file:
        for line in file:
            for word in line.split():
                words[word] = words.get(word, 0) + 1
    return words


def main():
    words = count(sys.argv[1])
    for word in sorted(words, key=words.get, reverse=True)[:10]:
        print(word, words[word])


if __name__ == "__main__":
    main()
"""

TEMPERATURE = """\
def to_fahrenheit(celsius):
    return celsius * 9 / 5 + 32


def to_celsius(fahrenheit):
    return (fahrenheit - 32) * 5 / 9


def describe(celsius):
    if celsius < 0:
        return "frost"
    if celsius < 20:
        return "cool"
    return "warm"
"""

CART = """\
export class Cart {
  constructor() {
    this.items = [];
  }

  add(item, count) {
    this.items.push({ item, count });
  }

  total() {
    let sum = 0;
    for (const { item, count } of this.items) {
      sum += item.price * count;
    }
    return sum;
  }
}
"""

FETCH = """\
const cache = new Map();

function load(url) {
  if (cache.has(url)) {
    return Promise.resolve(cache.get(url));
  }
  return fetch(url)
    .then((response) => response.json())
    .then((data) => {
      cache.set(url, data);
      return data;
    });
}

module.exports = { load };
"""

POINT = """\
#[derive(Debug, Clone)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

impl Point {
    pub fn new(x: f64, y: f64) -> Self {
        Point { x, y }
    }

    pub fn length(&self) -> f64 {
        (self.x * self.x + self.y * self.y).sqrt()
    }
}
"""

LINES = """\
use std::io::{self, BufRead};

fn main() {
    let stdin = io::stdin();
    let mut count = 0;
    for line in stdin.lock().lines() {
        let line = line.unwrap();
        if !line.trim().is_empty() {
            count += 1;
        }
    }
    println!("{}", count);
}
"""

CASES = (
    Case("stack.py", STACK, "Rename the method size to count.", ("def count(self)",), ("def size",)),
    Case("hints.py", TEMPERATURE, "Add type hints to every function.", ("celsius: float", "-> float", "-> str")),
    Case("pop.py", STACK, "Raise an IndexError when the stack is empty.", ("raise IndexError",), (), "10-11"),
    Case("words.py", WORDS, "Open the file with encoding utf-8.", ("encoding=", "utf-8"), (), "4-10"),
    Case("tabs.py", STACK.replace("    ", "\t"), "Rename the class Stack to Pile.", ("class Pile:",), ("class Stack",)),
    Case("crlf.py", TEMPERATURE.replace("\n", "\r\n"), "Rename describe to name_of.", ("def name_of(",), ("describe",)),
    Case("cart.js", CART, "Rename the method total to sum.", ("  sum() {",), ("total()",)),
    Case("check.js", CART, "Throw an error when count is negative.", ("throw new ", "count < 0"), (), "6-8"),
    Case("fetch.js", FETCH, "Rename the function load to loadJson.", ("function loadJson(url)",), ("function load(",)),
    Case("await.js", FETCH, "Rewrite this function with async and await.", ("async function load", "await fetch"),
         (".then(",), "3-13"),
    Case("point.rs", POINT, "Add PartialEq to the derived traits.", ("PartialEq",)),
    Case("lines.rs", LINES.rstrip("\n"), "Rename the variable count to total.", ("let mut total = 0;",), ("count",)),
)  # fmt: skip
