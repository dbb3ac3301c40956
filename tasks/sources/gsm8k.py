r"""openai/gsm8k: grade school word problems; configurations main and socratic, splits train and test. MIT licence.

    {"question": "A tray holds 12 cups. A cafe fills 3 trays and sells 20 cups. How many cups are left?",
     "answer": "The trays hold 3*12 = <<3*12=36>>36 cups.\nThat leaves 36-20 = <<36-20=16>>16.\n#### 16"}

The final answer follows ``####``, without its thousands commas here; what stands before is the worked
solution, its ``<<...>>`` calculator notes included.
"""

from tasks.final_answer import split_at_hashes
from tasks.sources.faults import UnusableRow
from tasks.sources.question import Question, Row, required

COLUMNS = ("question", "answer")
LICENCE = "MIT"


def read(row: Row) -> Question:
    """Raises ``UnusableRow``, also for an answer without ``####``."""
    text = required(row, "question")
    parts = split_at_hashes(required(row, "answer"))
    if parts is None:
        raise UnusableRow("missing_field", "'answer' has no final answer after ####")
    solution, final = parts
    return Question(text, reference_answer=final, reference_solution=solution or None, licence=LICENCE)
