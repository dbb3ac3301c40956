r"""GAIR/LIMO: 817 competition problems with long solutions; configuration default, split train. Apache-2.0.

{"question": "Find the number of positive divisors of $2^3 \\cdot 5$.",
 "solution": "Every divisor is $2^a 5^b$ with $a$ from 0 to 3 and $b$ from 0 to 1 ... so there are $4 \\cdot 2 = 8$.",
 "answer": "8"}
"""

from tasks.sources.question import Question, Row, optional, required

COLUMNS = ("question", "solution", "answer")
LICENCE = "Apache-2.0"


def read(row: Row) -> Question:
    """Raises ``UnusableRow``."""
    return Question(
        required(row, "question"),
        reference_answer=optional(row, "answer"),
        reference_solution=optional(row, "solution"),
        licence=LICENCE,
    )
