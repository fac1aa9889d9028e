"""What the checks let a model go on with: raw text, so that any model takes it, with and without a chat template."""

LEDGER = '''\
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
'''

CODE = f'''{LEDGER}

# The same class again, with the accounts called shelves and the money called books:

class Ledger:
    """Books on and off'''
"""Its continuation stands in it, mostly: lookup drafts, and is sometimes wrong."""

HARBOUR = """\
The old harbour of Lindvik was built in 1871, when herring brought three hundred boats a year to the bay. After the \
fish moved north in the twenties, most of the sheds stood empty, and the railway was taken up in 1958. Ten years ago a \
group of carpenters bought the largest shed for the price of its timber. They repaired the slipway first, because \
boats that could be lifted would bring work, and lived in a caravan for two winters. Today eleven people work there, \
the slipway is booked until next autumn, and the town talks about the railway again."""

PROSE = f"{HARBOUR} One evening in March"
"""Could go on in many ways: drafts are often wrong."""

TEXTS = (CODE, PROSE)
