"""Any file with named columns: the config's source says which hold the question and its references.

sources:
  - name: puzzles
    path: puzzles.csv                    id,puzzle,result
    question: puzzle                     1,"A clock strikes 12 in 11 s ...",6
    reference_answer: result
    licence: CC0-1.0
"""

from tasks.config import Source
from tasks.sources.question import Question, Row, optional, required


def columns(source: Source) -> tuple[str, ...]:
    """The columns that ``source`` names."""
    named = (source.question, source.reference_answer, source.reference_solution)
    return tuple(dict.fromkeys(name for name in named if name is not None))


def read(row: Row, source: Source) -> Question:
    """Numbers as references are written out. Raises ``UnusableRow``."""
    return Question(
        required(row, source.question),
        reference_answer=optional(row, source.reference_answer) if source.reference_answer else None,
        reference_solution=optional(row, source.reference_solution) if source.reference_solution else None,
    )
