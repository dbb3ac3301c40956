"""What a run takes where nothing has been measured: from the lengths of the rendered prompts, and it is rough.

A token is taken as 4 bytes of UTF-8: what vendors name for English; other scripts and mathematics take more tokens for
a byte. A rubric has 8.4 items (paper, section 4). What models write is taken as long as the figures below say; thinking
is not in it, and with a model that thinks aloud for long the output is a multiple.
"""

from tasks.batches import Stage
from tasks.calls import Row
from tasks.config import Config
from tasks.coverage import COVERAGE
from tasks.rubrics import RUBRICS
from tasks.trajectories import JUDGES, TRAJECTORIES

BYTES_PER_TOKEN = 4
ITEMS = 8.4  # of an answer's rubric
ANSWER_TOKENS = 300  # steps, one line each
DIMENSION_TOKENS = 8
LEVEL_TOKENS = 30
ITEM_TOKENS = 15 + DIMENSION_TOKENS + 6 * LEVEL_TOKENS  # as JSON
CRITIQUE_TOKENS = 150  # score, reason and suggestion


def calls_per_parent(config: Config, stage: str, part: str) -> float:
    """Calls of the stage, to one model, for each call of the stage before it; of coverage, for each question."""
    if stage == TRAJECTORIES.name:
        return ITEMS
    if stage == COVERAGE.name:
        answers = len(config.answers.generators) * config.answers.samples_per_model
        # Answers of one question are alike: three have three different levels at the most that is to be counted on.
        missing = 6 - min(answers, 3) if config.coverage.unit == "question" else 5 * ITEMS * answers
        return missing * 0.5 ** (int(part.removeprefix("coverage-")) - 1)  # half of them hit their level
    return 1.0


def tokens(stage: Stage[Config], config: Config, question_bytes: float) -> tuple[float, float]:
    """Input and output tokens of one call about a question of this length."""
    messages = stage.messages(config, _stand_in(round(question_bytes)))
    sent = sum(len(message.text.encode()) for message in messages) + len(str(stage.schema(config) or ""))
    output = {
        RUBRICS.name: ITEMS * ITEM_TOKENS,
        TRAJECTORIES.name: CRITIQUE_TOKENS + ANSWER_TOKENS,
        JUDGES.name: CRITIQUE_TOKENS + ANSWER_TOKENS,
    }
    return sent / BYTES_PER_TOKEN, output.get(stage.name, ANSWER_TOKENS)


def _stand_in(question_bytes: int) -> Row:
    """Texts of the lengths that are to be expected."""

    def text(tokens: int) -> str:
        return "x" * (BYTES_PER_TOKEN * tokens)

    return {
        "text": "x" * question_bytes,
        "question": "x" * question_bytes,
        "answer": text(ANSWER_TOKENS),
        "family": "self_derived",
        "dimension": text(DIMENSION_TOKENS),
        **{f"level_{level}": text(LEVEL_TOKENS) for level in range(6)},
        "min_items": 3,
        "level": 3,
        "round": 1,
    }
