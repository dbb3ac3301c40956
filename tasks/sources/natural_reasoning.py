"""facebook/natural_reasoning: 1.1 million questions of many fields; configuration default, split train.

CC BY-NC 4.0: what is made from it is not for commercial use.

    {"question": "Why does a longer pendulum swing more slowly?",
     "reference_answer": "",
     "responses": [{"response_model": "Llama3.3-70B-Instruct", "response": "The period grows with ..."}]}

``reference_answer`` is empty in 18 % of the rows: no reference, then. The responses are a model's and are not read.
"""

from tasks.sources.question import Question, Row, optional, required

COLUMNS = ("question", "reference_answer")
LICENCE = "CC-BY-NC-4.0"


def read(row: Row) -> Question:
    """Raises ``UnusableRow``."""
    return Question(required(row, "question"), reference_answer=optional(row, "reference_answer"), licence=LICENCE)
