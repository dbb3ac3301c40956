"""Small tables that the pages filter, made from the workspace's tables in the reader's memory.

``items``        a rubric item: ids, source, generator, family, scores, and its fate; about 100 bytes a row
``score_counts`` items by group and scores, counted
``call_counts``  calls by batch, model, outcome and hour, summed
"""

import duckdb

# Why an item is in RefineData or is not, in one word; the order of the pipeline.
FATES = ("no_trajectory", "unjudged", "disagreement", "near_duplicate", "kept", "train", "test")

ITEMS = """
CREATE TABLE items AS
SELECT r.item_id, r.answer_id, r.question_id, r.shard, r.position, r.family::VARCHAR AS family,
       q.source, a.model AS generator, a.origin, a.target_score,
       c.teacher_score, [vote.score FOR vote IN c.votes] AS votes, c.reason,
       CASE WHEN c.item_id IS NULL THEN 'not judged' WHEN NOT c.kept THEN c.reason
            WHEN n.kept = false THEN 'near_duplicate' ELSE coalesce(s.split, 'kept') END AS fate
FROM (SELECT item_id, answer_id, question_id, shard, position, family FROM rubrics) r
LEFT JOIN (SELECT item_id, teacher_score, votes, kept, reason FROM consensus) c USING (item_id)
LEFT JOIN (SELECT answer_id, model, origin, target_score FROM answers) a ON a.answer_id = r.answer_id
LEFT JOIN (SELECT question_id, source FROM questions) q ON q.question_id = r.question_id
LEFT JOIN (SELECT instance_id, kept FROM near_duplicates WHERE data_set = 'refine_data' AND NOT kept) n
       ON n.instance_id = r.item_id
LEFT JOIN (SELECT instance_id, split FROM splits WHERE data_set = 'refine_data') s ON s.instance_id = r.item_id
ORDER BY r.shard, r.question_id, r.answer_id, r.position
"""

SCORE_COUNTS = """
CREATE TABLE score_counts AS
SELECT family, source, generator, origin, teacher_score, votes, fate, count(*) AS items FROM items GROUP BY ALL
"""

CALL_COUNTS = """
CREATE TABLE call_counts AS
SELECT stage, shard, batch, model, outcome, wanted, date_trunc('hour', finished_at) AS hour, count(*) AS calls,
       sum(attempts) AS attempts, sum(input_tokens) AS input_tokens, sum(cached_tokens) AS cached_tokens,
       sum(output_tokens) AS output_tokens, sum(thinking_tokens) AS thinking_tokens, sum(cost_usd) AS cost_usd,
       count(*) FILTER (cost_usd IS NULL) AS unpriced, sum(latency_s) AS latency_s,
       min(finished_at) AS first_at, max(finished_at) AS last_at
FROM calls GROUP BY ALL
"""


def make(connection: duckdb.DuckDBPyConnection) -> None:
    """Make them in an open database."""
    for statement in (ITEMS, SCORE_COUNTS, CALL_COUNTS):
        connection.execute(statement)
