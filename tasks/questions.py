"""Questions: read the sources, cluster what repeats, and cut into shards (paper, section 2, "Diverse answer pool").

In: rows of GSM8K, LIMO, NaturalReasoning, NuminaMath-CoT, QwQ-LongCoT or any file with named columns. Out: rows
of ``questions``. What cannot be used is counted by reason; exact and near-duplicate questions share a cluster.
"""

from typing import Any

import polars as pl

from storage.ids import content_id
from storage.workspace import Workspace, now
from tasks.config import Config
from tasks.sources import Loaded, assign_shards, load_source, source_fingerprint, spread

QUESTIONS = "questions"


def fingerprint(config: Config) -> str:
    """Hash of the sources' content and of the settings that the questions depend on."""
    sources = [source_fingerprint(source) for source in config.sources]
    settings = [config.limit, config.shard_size, config.text_mode, config.questions.model_dump()]
    return content_id(sources, settings)


def stands(workspace: Workspace, config: Config) -> bool:
    manifest = workspace.read_manifest(QUESTIONS)
    if manifest is None or manifest["fingerprint"] != fingerprint(config):
        return False
    return all(
        workspace.table_path(QUESTIONS, shard).exists() and workspace.manifest_path(QUESTIONS, shard).exists()
        for shard in manifest["shards"]
    )


def load_questions(config: Config, *, skip_bad_rows: bool = False) -> list[Loaded]:
    """Each source's questions, those that the limit leaves it. Raises ``SourceError`` for what cannot be read."""
    return [
        load_source(
            source,
            limit=limit,
            max_characters=config.questions.max_characters,
            skip_bad_rows=skip_bad_rows or source.skip_bad_rows,
        )
        for source, limit in zip(config.sources, spread(config.limit, len(config.sources)), strict=True)
        if limit != 0
    ]


def read_questions(workspace: Workspace, config: Config, *, skip_bad_rows: bool = False) -> dict[str, Any]:
    """Write the questions table and its manifests. Raises ``SourceError`` for what cannot be read."""
    from tasks.clusters import cluster_questions

    mark = fingerprint(config)
    loaded = load_questions(config, skip_bad_rows=skip_bad_rows)
    questions = pl.concat([assign_shards(source.questions, config.shard_size) for source in loaded])
    clusters = cluster_questions(
        questions.select("question_id", "text"),
        threshold=config.questions.cluster_threshold,
        n=4,
        mode=config.text_mode,
    )
    questions = questions.join(clusters, on="question_id", maintain_order="left")
    dropped: dict[str, int] = {}
    for source in loaded:
        for reason, number in source.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + number
    workspace.forget_manifest(QUESTIONS)
    for (shard,), part in questions.group_by("shard", maintain_order=True):
        workspace.forget_manifest(QUESTIONS, str(shard))
        workspace.write_table("questions", part, str(shard))
        output = content_id(
            [part[name].to_list() for name in ("question_id", "cluster", "reference_answer", "licence")]
        )
        workspace.write_manifest(
            {"stage": QUESTIONS, "shard": shard, "rows": len(part), "output": output}, QUESTIONS, str(shard)
        )
    shards = questions["shard"].unique(maintain_order=True).to_list()
    manifest = {
        "fingerprint": mark,
        "shards": shards,
        "in": sum(source.rows_read for source in loaded),
        "out": len(questions),
        "dropped": dropped,
        "examples": [example for source in loaded for example in source.examples],
        "sanitized": sum(source.sanitized for source in loaded),
        "clusters": questions["cluster"].n_unique(),
        "finished_at": now(),
    }
    workspace.write_manifest(manifest, QUESTIONS)
    return manifest
