r"""AI-MO/NuminaMath-CoT: 859,494 problems, GSM8K's and MATH's among them; configuration default, splits train, test.

Apache-2.0.

    {"source": "cn_k12",
     "problem": "Solve $2x = \\frac{3}{4}$.",
     "solution": "Halving both sides gives $x = \\boxed{\\frac{3}{8}}$.",
     "messages": [{"role": "user", "content": "Solve ..."}, {"role": "assistant", "content": "Halving ..."}]}

There is no answer column: the reference answer is the last ``\boxed{}`` of the solution, none for a proof.
``messages`` repeats the problem and the solution and is not read.
"""

from tasks.final_answer import last_boxed
from tasks.sources.question import Question, Row, optional, required

COLUMNS = ("problem", "solution")
LICENCE = "Apache-2.0"


def read(row: Row) -> Question:
    """Raises ``UnusableRow``."""
    solution = optional(row, "solution")
    return Question(
        required(row, "problem"),
        reference_answer=last_boxed(solution) if solution else None,
        reference_solution=solution,
        licence=LICENCE,
    )
