"""amphora/QwQ-LongCoT-130K: 133,102 problems with one model's long thoughts; configuration default, split train.

Apache-2.0.

    {"problem": "How many of the first 30 positive integers are multiples of 4 or 6?",
     "qwq": "So I need to count the multiples of 4 up to 30 ... Let me check that again ...",
     "source": "NuminaMath", "split": "train", "__index_level_0__": 17}

``qwq`` is what QwQ-32B-Preview wrote, right or wrong, so it is no reference; the source has none.
"""

from tasks.sources.question import Question, Row, required

COLUMNS = ("problem",)
LICENCE = "Apache-2.0"


def read(row: Row) -> Question:
    """Raises ``UnusableRow``."""
    return Question(required(row, "problem"), licence=LICENCE)
