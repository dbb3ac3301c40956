"""Small tables that the pages filter, made from the workspace's tables in the reader's memory.

``items``          a rubric item: ids, source, generator, family, scores, and its fate; about 250 bytes a row
``score_counts``   items by group and scores, counted
``answer_scores``  an answer: source, generator, target, and its quality (the mean of its item scores, half up)
``call_counts``    calls by batch, model and outcome, summed
``latencies``      calls by model: seconds that half of them, nine tenths and 99 % took
``attempt_counts`` the ledger's attempts by run, model, outcome and minute, summed
"""

import duckdb

# Why an item is in RefineData or is not, in one word; the order of the pipeline.
FATES = ("not_judged", "no_trajectory", "unjudged", "disagreement", "near_duplicate", "kept", "train", "test")

SHARDS_AT_ONCE = 20  # so that no join holds more than a part of a large workspace

_ITEMS = """
    SELECT r.item_id, r.answer_id, r.shard, r.position, r.family,
           q.source, a.model AS generator, a.origin, a.target_score,
           c.teacher_score, [vote.score FOR vote IN c.votes] AS votes,
           CASE WHEN c.item_id IS NULL THEN 'not_judged' WHEN NOT c.kept THEN c.reason
                WHEN n.instance_id IS NOT NULL THEN 'near_duplicate' ELSE coalesce(s.split, 'kept') END AS fate
    FROM (SELECT item_id, answer_id, question_id, shard, position, family FROM rubrics WHERE shard IN $shards) r
    LEFT JOIN (SELECT item_id, teacher_score, votes, kept, reason FROM consensus WHERE shard IN $shards) c
           USING (item_id)
    LEFT JOIN (SELECT answer_id, model, origin, target_score FROM answers WHERE shard IN $shards) a
           ON a.answer_id = r.answer_id
    LEFT JOIN (SELECT question_id, source FROM questions WHERE shard IN $shards) q ON q.question_id = r.question_id
    LEFT JOIN near n ON n.instance_id = r.item_id
    LEFT JOIN held s ON s.instance_id = r.item_id
    ORDER BY r.shard, r.question_id, r.answer_id, r.position
"""
_NEAR = "SELECT instance_id FROM near_duplicates WHERE data_set = 'refine_data' AND NOT kept"
_HELD = "SELECT instance_id, split FROM splits WHERE data_set = 'refine_data'"

_TABLES = {
    "score_counts": """
        SELECT family, source, generator, origin, teacher_score, votes, fate, count(*) AS items
        FROM items GROUP BY ALL
    """,
    "answer_scores": """
        SELECT answer_id, any_value(source) AS source, any_value(generator) AS generator, any_value(origin) AS origin,
               any_value(target_score) AS target_score,
               ((2 * sum(teacher_score) + count(teacher_score)) // (2 * count(teacher_score)))::TINYINT AS quality
        FROM items WHERE teacher_score IS NOT NULL GROUP BY answer_id
    """,
    "call_counts": """
        SELECT stage, shard, batch, model, outcome, wanted, count(*) AS calls, sum(attempts) AS attempts,
               sum(input_tokens) AS input_tokens, sum(cached_tokens) AS cached_tokens,
               sum(output_tokens) AS output_tokens, sum(thinking_tokens) AS thinking_tokens,
               sum(cost_usd) AS cost_usd, count(*) FILTER (cost_usd IS NULL) AS unpriced,
               min(finished_at) AS first_at, max(finished_at) AS last_at
        FROM calls GROUP BY ALL
    """,
    "latencies": """
        SELECT model, approx_quantile(latency_s, [0.5, 0.9, 0.99]) AS seconds, max(latency_s) AS longest
        FROM calls WHERE outcome = 'ok' AND vendor_batch IS NULL GROUP BY model
    """,
    "attempt_counts": """
        SELECT run, model, outcome, date_trunc('minute', finished_at) AS minute, count(*) AS attempts,
               sum(cost_usd) AS cost_usd, sum(coalesce(cost_usd, most_usd)) AS most_usd,
               count(*) FILTER (cost_usd IS NULL) AS unpriced,
               min(finished_at) AS first_at, max(finished_at) AS last_at
        FROM ledger GROUP BY ALL
    """,
}


def make(connection: duckdb.DuckDBPyConnection) -> None:
    """Make them in an open database."""
    connection.execute(f"CREATE TABLE near AS {_NEAR}")
    connection.execute(f"CREATE TABLE held AS {_HELD}")
    shards = [shard for (shard,) in connection.execute("SELECT DISTINCT shard FROM rubrics ORDER BY ALL").fetchall()]
    connection.execute(f"CREATE TABLE items AS {_ITEMS} LIMIT 0", {"shards": [""]})
    for at in range(0, len(shards), SHARDS_AT_ONCE):
        connection.execute(f"INSERT INTO items {_ITEMS}", {"shards": shards[at : at + SHARDS_AT_ONCE]})
    connection.execute("DROP TABLE near")
    connection.execute("DROP TABLE held")
    for name, sql in _TABLES.items():
        connection.execute(f"CREATE TABLE {name} AS {sql}")
