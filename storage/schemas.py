"""The tables of a workspace, as their reader would want them documented.

Each table is Parquet (zstd) with the explicit schema below, never an inferred one. A column that is not
listed here is an error, and so is a file of another ``VERSION``. Text is ``large_string``. "No score" is
null and never 0. ``question_id``, ``answer_id`` and ``call_id`` are content hashes (storage/ids.py); an
answer's id is its call's id, and a rubric item's is ``<call id>-<position>``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

VERSION = "2"

TEXT = pa.large_string()
ID = pa.string()
SCORE = pa.int8()
LEVELS = range(6)
FAMILIES = ("subjective", "objective", "self_derived")
VOTE = pa.struct([pa.field("model", pa.string()), pa.field("score", SCORE)])


@dataclass(frozen=True)
class Table:
    """One table: what a row is, and for each column its Arrow type and its meaning with unit."""

    name: str
    row: str
    columns: Mapping[str, tuple[pa.DataType, str]]

    @property
    def schema(self) -> pa.Schema:
        fields = [
            pa.field(name, type_, metadata={"description": meaning}) for name, (type_, meaning) in self.columns.items()
        ]
        return pa.schema(fields, metadata={"criticgen.table": self.name, "criticgen.version": VERSION})


QUESTION_ID = (ID, "the question")
ANSWER_ID = (ID, "the answer")
ITEM_ID = (ID, "the rubric item")
SHARD = (ID, "the shard its question belongs to")
REPAIRED = (pa.bool_(), "the model's JSON was not strict and was put right, as by LaTeX escapes")
SANITIZED = (pa.bool_(), "lone surrogates or NUL in the text were replaced by U+FFFD")
LEVEL_COLUMNS = {f"level_{level}": (TEXT, f"the criterion: what score {level} means here") for level in LEVELS}

QUESTIONS = Table(
    "questions",
    "a question",
    {
        "question_id": (ID, "hash of the source's name and the text"),
        "source": (pa.string(), "the source data set's name in the config"),
        "source_row": (pa.int64(), "row in the source file, counted from 1"),
        "licence": (pa.string(), "the source's licence (SPDX where there is one), null when not known"),
        "text": (TEXT, "the question, as it stands in the source"),
        "reference_answer": (TEXT, "the final answer, null when the source has none"),
        "reference_solution": (TEXT, "the worked solution, null when the source has none"),
        "cluster": (ID, "exact and near-duplicate questions share it: the least question id among them"),
        "shard": (ID, "the fixed group that is scheduled, retried and distributed together"),
    },
)

ANSWERS = Table(
    "answers",
    "an answer",
    {
        "answer_id": (ID, "the id of the call that gave it"),
        "question_id": QUESTION_ID,
        "shard": SHARD,
        "model": (pa.string(), "the model that wrote it, as vendor/model"),
        "origin": (pa.string(), "pool (a generator's) or coverage (synthesized for a target score)"),
        "round": (pa.int8(), "coverage round, from 1; 0 for the pool"),
        "sample": (pa.int16(), "sample number of this model for this question, from 0"),
        "target_score": (SCORE, "the score it was synthesized for, null for the pool"),
        "target_dimension": (TEXT, "the dimension the target is about (coverage unit item), else null"),
        "text": (TEXT, "the answer"),
        "finish_reason": (pa.string(), "the vendor's word for why the model stopped"),
        "sanitized": SANITIZED,
    },
)

RUBRICS = Table(
    "rubrics",
    "a rubric item",
    {
        "item_id": (ID, "the rubric call's id, a dash, and the position"),
        "answer_id": (ID, "the answer the rubric was induced for"),
        "question_id": QUESTION_ID,
        "shard": SHARD,
        "call_id": (ID, "the call that induced the whole rubric"),
        "model": (pa.string(), "the teacher that induced it"),
        "position": (pa.int16(), "place in the rubric, from 0"),
        "family": (pa.string(), "subjective, objective or self_derived"),
        "dimension": (TEXT, "the dimension's name"),
        **LEVEL_COLUMNS,
        "repaired": REPAIRED,
        "sanitized": SANITIZED,
    },
)

TRAJECTORIES = Table(
    "trajectories",
    "a rubric item under one model, teacher or judge",
    {
        "item_id": ITEM_ID,
        "answer_id": ANSWER_ID,
        "question_id": QUESTION_ID,
        "shard": SHARD,
        "call_id": (ID, "the call that gave it"),
        "role": (pa.string(), "teacher or judge"),
        "model": (pa.string(), "the model that gave it"),
        "score": (SCORE, "0 to 5"),
        "reason": (TEXT, "why the answer has this score under this criterion"),
        "suggestion": (TEXT, "what to change in the answer"),
        "refined_answer": (TEXT, "the answer rewritten by the suggestion"),
        "repaired": REPAIRED,
        "sanitized": SANITIZED,
    },
)

COVERAGE = Table(
    "coverage",
    "a question (or a question and dimension) and a score level, in one round",
    {
        "question_id": QUESTION_ID,
        "shard": SHARD,
        "dimension": (TEXT, "the dimension, for coverage unit item; null for unit question"),
        "round": (pa.int8(), "coverage round, from 1"),
        "level": (SCORE, "the score level, 0 to 5"),
        "covered_before": (pa.bool_(), "an answer had this level before the round"),
        "requested": (pa.bool_(), "an answer of this level was asked for"),
        "answer_id": (ID, "the synthesized answer, null when none came"),
        "synthesized_score": (SCORE, "the level the synthesized answer reached, null when it has no score"),
        "hit": (pa.bool_(), "it reached its target, null when it has no score"),
        "covered_after": (pa.bool_(), "an answer has this level after the round"),
    },
)

CONSENSUS = Table(
    "consensus",
    "a rubric item",
    {
        "item_id": ITEM_ID,
        "answer_id": ANSWER_ID,
        "question_id": QUESTION_ID,
        "shard": SHARD,
        "teacher_score": (SCORE, "the teacher's score, null when its trajectory failed"),
        "votes": (pa.list_(VOTE), "each configured judge's score, null when its judgment is missing"),
        "kept": (pa.bool_(), "goes on to RefineData's filters"),
        "reason": (pa.string(), "agreement, disagreement, unjudged, or no_trajectory"),
    },
)

DIVERSITY = Table(
    "diversity",
    "a field of a data set at a filter step, for one n",
    {
        "data_set": (pa.string(), "rubric_data or refine_data"),
        "field": (pa.string(), "question, answer, rubric, reason, suggestion or refined_answer"),
        "step": (pa.string(), "candidates (before the filters), consensus, or near_duplicates (after them)"),
        "counted": (pa.string(), "distinct (each question and answer once: the reported figure) or rows"),
        "n": (pa.int8(), "tokens in an n-gram"),
        "texts": (pa.int64(), "texts counted"),
        "ngrams": (pa.int64(), "all n-grams, none across texts"),
        "unique_ngrams": (pa.int64(), "different n-grams"),
        "distinct": (pa.float64(), "Distinct-n: unique n-grams over all n-grams, null when there are none"),
    },
)

NEAR_DUPLICATES = Table(
    "near_duplicates",
    "a candidate instance of a data set",
    {
        "data_set": (pa.string(), "rubric_data or refine_data"),
        "instance_id": (ID, "an answer id (rubric_data) or an item id (refine_data)"),
        "kept": (pa.bool_(), "retained"),
        "twin_id": (ID, "the retained instance it repeats, null when kept"),
        "shared": (pa.int32(), "n-grams in both, null when kept or compared by normalized text"),
        "union": (pa.int32(), "n-grams in either, null when kept or compared by normalized text"),
        "jaccard": (pa.float64(), "shared over union, 1 for equal normalized texts, null when kept"),
    },
)

SPLITS = Table(
    "splits",
    "an instance of a data set",
    {
        "data_set": (pa.string(), "rubric_data or refine_data"),
        "instance_id": (ID, "an answer id (rubric_data) or an item id (refine_data)"),
        "question_id": QUESTION_ID,
        "cluster": (ID, "its question's cluster: never in both splits of a data set"),
        "split": (pa.string(), "train or test"),
    },
)

CALLS = Table(
    "calls",
    "a call, from the ledger",
    {
        "call_id": (ID, "hash of all that decides the call's answer"),
        "stage": (pa.string(), "answers, rubrics, trajectories, coverage or judges"),
        "shard": SHARD,
        "batch": (pa.string(), "the annotation batch it belongs to: stage, shard and part"),
        "model": (pa.string(), "the model asked, as vendor/model"),
        "prompt": (ID, "hash of the prompt template"),
        "question_id": QUESTION_ID,
        "answer_id": (ID, "the answer asked about, null when there is none"),
        "item_id": (ID, "the rubric item asked about, null when there is none"),
        "outcome": (pa.string(), "ok, the class of failure, or todo: not asked yet, as when its model was stopped"),
        "error": (TEXT, "what was wrong in the last attempt, null when ok"),
        "attempts": (pa.int16(), "responses and failures recorded; waits for a rate limit are not attempts"),
        "input_tokens": (pa.int64(), "tokens sent, cached ones included, over all attempts; null when not known"),
        "cached_tokens": (pa.int64(), "of these served from the vendor's prompt cache"),
        "output_tokens": (pa.int64(), "tokens received, thinking included, over all attempts"),
        "thinking_tokens": (pa.int64(), "of these spent on thinking"),
        "cost_usd": (pa.float64(), "US dollars over all attempts, null when one's is not known"),
        "latency_s": (pa.float64(), "seconds the last attempt took"),
        "request_id": (pa.string(), "the vendor's id of the last attempt"),
        "vendor_batch": (pa.string(), "the vendor's batch of the last attempt, null when it was asked online"),
        "finished_at": (pa.timestamp("us", "UTC"), "when the last attempt was recorded"),
        "wanted": (pa.bool_(), "the settings of the last run ask for it; false: paid for under earlier ones"),
    },
)

REPLIES = Table(
    "replies",
    "an answered call of a job beside the build: weighing, evaluating, classifying, criticizing",
    {
        "call_id": (ID, "the call"),
        "row_id": (ID, "hash of what was asked about"),
        "sample": (pa.int16(), "sample number, from 0"),
        "model": (pa.string(), "the model that gave it"),
        "value": (TEXT, "the answer: the JSON that was asked for, else the text"),
        "repaired": REPAIRED,
        "sanitized": SANITIZED,
    },
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        QUESTIONS, ANSWERS, RUBRICS, TRAJECTORIES, COVERAGE,
        CONSENSUS, DIVERSITY, NEAR_DUPLICATES, SPLITS, CALLS, REPLIES,
    )
}  # fmt: skip

LEDGER = Table(
    "ledger",
    "an attempt at a call, as it came",
    {
        "call_id": (ID, "the call"),
        "attempt": (pa.int16(), "from 1, over all runs"),
        "run": (ID, "the run that made it"),
        "stage": (pa.string(), "the call's stage"),
        "shard": SHARD,
        "batch": (pa.string(), "the annotation batch"),
        "model": (pa.string(), "vendor/model"),
        "prompt": (ID, "hash of the prompt template"),
        "question_id": QUESTION_ID,
        "answer_id": ANSWER_ID,
        "item_id": ITEM_ID,
        "sample": (pa.int16(), "sample number"),
        "outcome": (pa.string(), "the vendor's answer as a class, before its text is parsed"),
        "error": (TEXT, "the vendor's or the connection's error"),
        "raw": (TEXT, "the response body as it came, null when none came"),
        "text": (TEXT, "the model's own text in it, null when there is none"),
        "sanitized": (pa.bool_(), "the text held what no file can (lone surrogates, NUL), replaced by U+FFFD"),
        "finish_reason": (pa.string(), "the vendor's word for why the model stopped"),
        "input_tokens": (pa.int64(), "tokens sent, cached ones included, null when not reported"),
        "cached_tokens": (pa.int64(), "of these from the vendor's cache"),
        "output_tokens": (pa.int64(), "tokens received, thinking included"),
        "thinking_tokens": (pa.int64(), "of these spent on thinking"),
        "cost_usd": (pa.float64(), "US dollars, null when it is not known"),
        "most_usd": (pa.float64(), "US dollars that it may have cost, where that is not known but its price is"),
        "latency_s": (pa.float64(), "seconds from request to last byte"),
        "request_id": (pa.string(), "the vendor's id"),
        "vendor_batch": (pa.string(), "the vendor's batch it came in, null when it was asked online"),
        "finished_at": (pa.timestamp("us", "UTC"), "when it was recorded"),
    },
)
