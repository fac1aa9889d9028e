"""Five requests of our own, one a kind: an edit, code, talk, an extraction, a summary."""

from localspec.engine.proof.texts import HARBOUR, LEDGER

SOURCE = f"""{LEDGER}
    def move(self, source, target, amount):
        if amount <= 0:
            raise ValueError("the amount must be positive")
        if self.accounts[source] < amount:
            raise ValueError(f"{{source}} holds less than {{amount}} {{self.currency}}")
        self.accounts[source] -= amount
        self.accounts[target] += amount
        self.entries.append((source, target, amount))
"""

EDIT = f"Rename the class `Ledger` to `Book`. Answer with the whole file only.\n\n```python\n{SOURCE}```"

CODE = "Write a Python function that returns the longest run of equal neighbours in a list, with a docstring."

CHAT = "Why is the sky blue, and why is it red in the evening? Explain it to a child of ten."

EXTRACTION = (
    "List every order as a JSON array of objects with the keys customer, item, count, price.\n\n"
    "Anna Berg ordered 3 lamps at 24.50 each. Two days later Tom Hale took 12 candles at 1.20 each. "
    "Mira Kos ordered 1 desk at 180.00, and Jon Aas came back for 4 chairs at 39.90 each."
)

SUMMARY = f"Summarise in three sentences.\n\n{HARBOUR}"

QUOTATION = (
    "Who bought the shed, and what did they do first? Answer by quoting the sentences of the text that say it, word "
    f"for word.\n\n{HARBOUR}"
)

REQUESTS = {"edit": EDIT, "code": CODE, "chat": CHAT, "extraction": EXTRACTION, "summary": SUMMARY}
