"""Five requests of our own, one a kind: an edit, code, talk, an extraction, a summary."""

SOURCE = '''\
class Ledger:
    """Money in and out of named accounts."""

    def __init__(self, currency="EUR"):
        self.currency = currency
        self.accounts = {}
        self.entries = []

    def open(self, name, balance=0):
        if name in self.accounts:
            raise ValueError(f"account {name} exists")
        self.accounts[name] = balance

    def move(self, source, target, amount):
        if amount <= 0:
            raise ValueError("the amount must be positive")
        if self.accounts[source] < amount:
            raise ValueError(f"{source} holds less than {amount} {self.currency}")
        self.accounts[source] -= amount
        self.accounts[target] += amount
        self.entries.append((source, target, amount))
'''

EDIT = f"Rename the class `Ledger` to `Book`. Answer with the whole file only.\n\n```python\n{SOURCE}```"

CODE = "Write a Python function that returns the longest run of equal neighbours in a list, with a docstring."

CHAT = "Why is the sky blue, and why is it red in the evening? Explain it to a child of ten."

EXTRACTION = (
    "List every order as a JSON array of objects with the keys customer, item, count, price.\n\n"
    "Anna Berg ordered 3 lamps at 24.50 each. Two days later Tom Hale took 12 candles at 1.20 each. "
    "Mira Kos ordered 1 desk at 180.00, and Jon Aas came back for 4 chairs at 39.90 each."
)

HARBOUR = (
    "The old harbour of Lindvik was built in 1871, when herring brought three hundred boats a year to the bay. After "
    "the fish moved north in the twenties, most of the sheds stood empty, and the railway was taken up in 1958. Ten "
    "years ago a group of carpenters bought the largest shed for the price of its timber. They repaired the slipway "
    "first, because boats that could be lifted would bring work, and lived in a caravan for two winters. Today eleven "
    "people work there, the slipway is booked until next autumn, and the town talks about the railway again."
)

SUMMARY = f"Summarise in three sentences.\n\n{HARBOUR}"

QUOTATION = (
    "Who bought the shed, and what did they do first? Answer by quoting the sentences of the text that say it, word "
    f"for word.\n\n{HARBOUR}"
)

REQUESTS = {"edit": EDIT, "code": CODE, "chat": CHAT, "extraction": EXTRACTION, "summary": SUMMARY}
