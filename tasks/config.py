"""The configuration: one pydantic model. Unknown keys are refused with their place; defaults are the papers'."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from tasks.settings import Asking, ConfigError, Model, Section

S = TypeVar("S", bound=Section)

# The stages that ask models, in the order of a shard.
ASKING = ("answers", "rubrics", "trajectories", "coverage", "judges")


class Source(Section):
    """Where questions come from: a known data set, or any file with named columns."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", description="Name of the source in tables and shards")
    adapter: Literal["gsm8k", "limo", "natural_reasoning", "numinamath_cot", "qwq_longcot", "columns"] = Field(
        "columns", description="How rows are read: a known data set's shape, or named columns"
    )
    path: str | None = Field(None, description="Local file: .jsonl, .json, .csv or .parquet; relative to the config")
    hub: str | None = Field(None, description="Data set on the Hugging Face hub, as owner/name")
    hub_config: str = Field("default", description="Configuration of the hub data set")
    split: str = Field("train", description="Split of the hub data set")
    question: str = Field("question", description="Column of the question (adapter columns)")
    reference_answer: str | None = Field(None, description="Column of the final answer (adapter columns)")
    reference_solution: str | None = Field(None, description="Column of the worked solution (adapter columns)")
    licence: str | None = Field(None, description="SPDX identifier, where the adapter does not know it")
    skip_bad_rows: bool = Field(False, description="Go on without rows that cannot be read, and count them")

    @model_validator(mode="after")
    def _one_place(self) -> "Source":
        if (self.path is None) == (self.hub is None):
            raise ValueError(f"source {self.name}: give either path or hub")
        return self


class Questions(Section):
    cluster_threshold: float = Field(0.5, ge=0, le=1, description="Word 4-gram Jaccard above which questions cluster")
    max_characters: int = Field(100_000, gt=0, description="A longer question is a bad row")


class Answers(Section):
    generators: list[Model] = Field(min_length=1, description="Models that answer every question")
    samples_per_model: int = Field(1, gt=0, description="Answers of each model to each question")


class Rubrics(Section):
    min_items: int = Field(3, ge=3, description="Fewest items a rubric may have (a family each at least)")


class Coverage(Section):
    unit: Literal["question", "item"] = Field("question", description="Levels are completed per question or dimension")
    rounds: int = Field(1, ge=0, le=10, description="Rounds of completion (1 in the paper); 0 turns it off")


class Consensus(Section):
    tolerance: int = Field(0, ge=0, le=5, description="Largest difference from the teacher's score that agrees")
    quorum: Annotated[int, Field(gt=0)] | Literal["all"] = Field("all", description="Judges that must agree")


class NearDuplicates(Section):
    threshold: float = Field(0.75, ge=0, le=1, description="A Jaccard greater than this is a near-duplicate")
    n: int = Field(4, gt=0, description="Tokens in an n-gram")


class Split(Section):
    rubric_ratio: float = Field(5, gt=0, description="RubricData: train rows for each test row")
    refine_ratio: float = Field(50, gt=0, description="RefineData: train rows for each test row")
    seed: int = Field(0, description="Decides which clusters are held out; what was test before stays test")


class Export(Section):
    without: list[Literal["reason", "suggestion"]] = Field(
        default_factory=list, description="Ablation: fields left out"
    )
    rewrite_only: bool = Field(False, description="Ablation: the refined answer alone")
    formats: list[Literal["messages", "prompt-completion", "verl"]] = Field(
        default=["messages", "prompt-completion", "verl"], description="Shapes for trainers, beside Parquet"
    )
    tokenizer: str | None = Field(
        None, description="Tokenizer that lengths are counted with: a folder, or a model on the hub; none: an estimate"
    )
    max_tokens: int = Field(4096, gt=0, description="Rows whose chat is longer are listed and left out")

    @model_validator(mode="after")
    def _one_ablation(self) -> "Export":
        if self.rewrite_only and self.without:
            raise ValueError("give either without or rewrite_only")
        return self


class Config(Asking):
    """All that a run depends on."""

    stages = ASKING

    sources: list[Source] = Field(min_length=1, description="Where the questions come from")
    limit: int | None = Field(None, gt=0, description="Questions in all, spread evenly over the sources; None: all")
    shard_size: int = Field(25, gt=0, description="Questions in a shard")
    text_mode: Literal["word", "ws"] = Field("word", description="Tokens of the lexical figures")
    teacher: Model = Field(description="Writes rubrics, trajectories and coverage answers")
    judges: list[Model] = Field(min_length=1, description="Score again, blind to the teacher")
    questions: Questions = Questions()
    answers: Answers
    rubrics: Rubrics = Rubrics()
    coverage: Coverage = Coverage()
    consensus: Consensus = Consensus()
    near_duplicates: NearDuplicates = NearDuplicates()
    split: Split = Split()
    export: Export = Export()

    @field_validator("sources")
    @classmethod
    def _names_differ(cls, sources: list[Source]) -> list[Source]:
        names = [source.name for source in sources]
        if len(set(names)) < len(names):
            raise ValueError(f"two sources have the same name: {', '.join(names)}")
        return sources

    @model_validator(mode="after")
    def _roles_fit(self) -> Self:
        for role, models in (("generators", self.answers.generators), ("judges", self.judges)):
            names = [model.name for model in models]
            if len(set(names)) < len(names):
                raise ValueError(f"{role}: a model is named twice: {', '.join(names)}")
        quorum = self.consensus.quorum
        if quorum != "all" and quorum > len(self.judges):
            raise ValueError(f"consensus: quorum {quorum} with {len(self.judges)} judges")
        return self

    @property
    def models(self) -> list[Model]:
        return [*self.answers.generators, self.teacher, *self.judges]


def load_config(path: Path, overrides: list[str] = [], limit: int | None = None) -> Config:  # noqa: B006
    """Read a YAML config, apply ``key.path=value`` overrides (values are YAML), and validate it.

    A source's relative path in the file is relative to the file's folder; in an override, to the present one.
    Raises ``ConfigError``, with the place of what is wrong.
    """
    values = read_yaml(path)
    sources = values.get("sources")
    for source in sources if isinstance(sources, list) else []:
        if isinstance(source, dict) and isinstance(source.get("path"), str):
            source["path"] = str((path.parent / source["path"]).resolve())
    if limit is not None:
        overrides = [*overrides, f"limit={limit}"]
    return validated(Config, values, overrides, str(path))


def read_yaml(path: Path) -> dict[str, Any]:
    """Keys and values of a YAML file. Raises ``ConfigError``."""
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _OnceLoader)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected keys and values, such as `name: my-data`")
    return values


class _OnceLoader(yaml.SafeLoader):
    """YAML that refuses a key that stands twice: of two values one would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def changed(config: Config, overrides: list[str]) -> Config:
    """The config with ``key.path=value`` overrides. Raises ``ConfigError``."""
    return validated(Config, config.model_dump(), overrides, "config") if overrides else config


def validated(model: type[S], values: dict[str, Any], overrides: list[str], path: str) -> S:
    """The settings that ``values`` with overrides are. Raises ``ConfigError``, with the place of what is wrong."""
    for override in overrides:
        _override(values, override)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        places = [f"  {'.'.join(map(str, e['loc'])) or 'config'}: {_plain(e)}" for e in error.errors()]
        head = f"{path}: {len(places)} mistakes" if len(places) > 1 else f"{path}:"
        raise ConfigError("\n".join([head, *places])) from None


def _plain(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "unknown key"
    if error["loc"] and error["loc"][-1] == "key_env":
        return "expected the name of an environment variable, such as MY_KEY (not the key itself)"
    message: str = error["msg"]
    return message.removeprefix("Value error, ")


def _override(values: dict[str, Any], override: str) -> None:
    keys, equals, text = override.partition("=")
    if not equals or not keys:
        raise ConfigError(f"--set {override}: expected key=value, such as near_duplicates.threshold=0.8")
    *parents, last = keys.split(".")
    place: Any = values
    try:
        value = yaml.safe_load(text)
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
        place[int(last) if isinstance(place, list) else last] = value
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {override}: the value is not YAML: {error}") from None
    except (AttributeError, IndexError, TypeError, ValueError):
        raise ConfigError(f"--set {override}: {keys} is not a place in the config") from None
