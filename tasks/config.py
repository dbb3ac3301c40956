"""The configuration: one pydantic model. Unknown keys are refused with their place; defaults are the papers'."""

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from storage.errors import UserError
from storage.ids import content_id

# The stages that ask models, in the order of a shard.
ASKING = ("answers", "rubrics", "trajectories", "coverage", "judges")


class ConfigError(UserError):
    """The configuration cannot be used; the message says where and why."""


class Section(BaseModel):
    # Defaults too: a default of 5 for a float would be another value, to a hash, than the 5.0 read from a file.
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


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


class Endpoint(Section):
    """A server: its protocol, address, and the environment variable that holds its key."""

    api: Literal["openai", "openai-chat", "anthropic", "google"] = Field(description="The protocol it speaks")
    base_url: str | None = Field(None, description="Address; the vendor's own when not given")
    key_env: str | None = Field(
        None,
        pattern=r"^[A-Z][A-Z0-9_]*$",
        description="Name (in capitals) of the environment variable that holds the key; none for an open server",
    )
    timeout_s: float = Field(600.0, gt=0, description="Seconds until a call counts as timed out")

    @field_validator("base_url")
    @classmethod
    def _no_password(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "")
        if parts.username or parts.password:
            raise ValueError("no user or password in an address: it would be stored; give the key by key_env")
        return url

    @property
    def identity(self) -> str:
        """What of the address decides the answer. A loopback port is often chosen at random and does not."""
        if self.base_url is None:
            return self.api
        parts = urlsplit(self.base_url)
        host = "loopback" if parts.hostname in ("127.0.0.1", "localhost", "::1") else parts.netloc
        return f"{self.api} {host}{parts.path.rstrip('/')}"


VENDORS: dict[str, Endpoint] = {
    "openai": Endpoint(api="openai", key_env="OPENAI_API_KEY"),
    "anthropic": Endpoint(api="anthropic", key_env="ANTHROPIC_API_KEY"),
    "google": Endpoint(api="google", key_env="GEMINI_API_KEY"),
}


class Model(Section):
    """A model and the parameters that decide its answers; written as ``vendor/model`` where there are none."""

    name: str = Field(description="vendor/model, vendor being an endpoint's name")
    max_output_tokens: int = Field(16_384, gt=0, description="Limit on the output, thinking included")
    params: dict[str, Any] = Field(default_factory=dict, description="As the vendor spells them: temperature, ...")

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("name")
    @classmethod
    def _vendor_and_model(cls, name: str) -> str:
        vendor, slash, model = name.partition("/")
        if not (vendor and slash and model) or any(character.isspace() for character in name):
            raise ValueError(f"{name!r} is not of the form vendor/model, such as openai/gpt-5")
        return name

    @property
    def endpoint(self) -> str:
        return self.name.split("/", 1)[0]

    @property
    def bare(self) -> str:
        return self.name.split("/", 1)[1]

    @property
    def simulated(self) -> bool:
        return self.bare.startswith("sim-")


class Limits(Section):
    """What one process may ask of one model."""

    max_concurrency: int = Field(64, gt=0, description="Calls in flight, at the most")
    min_concurrency: int = Field(1, gt=0, description="Calls in flight that are left when the vendor says to slow down")
    requests_per_minute: int | None = Field(None, gt=0, description="None: no limit of our own")
    tokens_per_minute: int | None = Field(None, gt=0, description="Input and output together; None: no limit")
    stall_limit_s: float = Field(600.0, gt=0, description="Seconds without a success after which the model is stopped")
    batch_tokens: int | None = Field(
        None, gt=0, description="Input tokens in all running vendor batches together; None: no limit of our own"
    )

    @model_validator(mode="after")
    def _in_order(self) -> "Limits":
        if self.min_concurrency > self.max_concurrency:
            raise ValueError("min_concurrency is larger than max_concurrency")
        return self


class Price(Section):
    """What a model costs, where the price list does not know it or an agreement differs."""

    input_usd_per_mtok: float = Field(ge=0, description="US dollars for a million input tokens")
    output_usd_per_mtok: float = Field(ge=0, description="US dollars for a million output tokens, thinking included")
    cached_input_usd_per_mtok: float | None = Field(None, ge=0, description="From the cache; None: as other input")
    batch_factor: float = Field(0.5, ge=0, le=1, description="Of these prices, what is paid in a vendor batch")


Transport = Literal["online", "batch"]


class Simulator(Section):
    """The vendor simulator: started for the run, or the one at ``url``."""

    url: str | None = Field(None, description="A simulator that runs already; none: start one")
    options: dict[str, float | int | str] = Field(default_factory=dict, description="Knobs, as `criticgen simulate`")


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


class Config(Section):
    """All that a run depends on."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Name of the data set")
    sources: list[Source] = Field(min_length=1, description="Where the questions come from")
    limit: int | None = Field(None, gt=0, description="Questions in all, spread evenly over the sources; None: all")
    shard_size: int = Field(25, gt=0, description="Questions in a shard")
    shards_in_flight: int = Field(16, gt=0, description="Shards worked on at the same time")
    max_failed: float = Field(0.05, ge=0, le=1, description="Share of a batch's calls that may fail, rounded up")
    endpoints: dict[str, Endpoint] = Field(default_factory=dict, description="Named servers, beside the three vendors")
    limits: dict[str, Limits] = Field(default_factory=dict, description="By vendor/model; `default` for all others")
    prices: dict[str, Price] = Field(default_factory=dict, description="By vendor/model; else the price list's")
    batch_poll_s: float = Field(60.0, gt=0, description="Seconds between two looks at a vendor batch")
    budget_usd: float | None = Field(None, ge=0, description="US dollars that this workspace may cost in all its runs")
    give_up_after: int = Field(20, gt=0, description="Failures in all after which a call is abandoned")
    transport: dict[str, Transport] = Field(
        default_factory=dict,
        description="online, or batch (the vendor's Batch API): by vendor/model, by stage, or `default`",
    )
    simulator: Simulator | None = Field(None, description="Every vendor is the simulator (models named sim-...)")
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
    def _models_fit(self) -> "Config":
        for model in self.models:
            if model.endpoint not in self.servers:
                known = ", ".join(sorted(self.servers))
                raise ValueError(f"model {model.name}: no endpoint {model.endpoint!r} (there are {known})")
        for role, models in (("generators", self.answers.generators), ("judges", self.judges)):
            names = [model.name for model in models]
            if len(set(names)) < len(names):
                raise ValueError(f"{role}: a model is named twice: {', '.join(names)}")
        simulated = {model.simulated for model in self.models}
        if len(simulated) > 1:
            raise ValueError("simulated (sim-...) and real models do not mix in one data set")
        all_models, stages = {model.name for model in self.models}, {"default", *ASKING}
        for section, allowed in (
            ("limits", all_models | {"default"}),
            ("prices", all_models),
            ("transport", all_models | stages),
        ):
            if unknown := set(getattr(self, section)) - allowed:
                what = "model or stage" if section == "transport" else "model"
                raise ValueError(f"{section}: no {what} of this config is named {', '.join(sorted(unknown))}")
        addressed = all(self.servers[model.endpoint].base_url for model in self.models)
        if simulated == {True} and self.simulator is None and not addressed:
            raise ValueError("models named sim-... need a `simulator:` section")
        if simulated == {False} and self.simulator is not None:
            raise ValueError("a `simulator:` section goes with models named sim-...")
        quorum = self.consensus.quorum
        if quorum != "all" and quorum > len(self.judges):
            raise ValueError(f"consensus: quorum {quorum} with {len(self.judges)} judges")
        return self

    @property
    def servers(self) -> dict[str, Endpoint]:
        return VENDORS | self.endpoints

    @property
    def models(self) -> list[Model]:
        """Every model of the run; one that has two parts stands twice."""
        return [*self.answers.generators, self.teacher, *self.judges]

    @property
    def simulated(self) -> bool:
        return self.teacher.simulated

    def transport_of(self, stage: str, model: str) -> Transport:
        """How a stage's calls to a model are made: the model's own word before the stage's."""
        by = self.transport
        return by.get(model) or by.get(stage) or by.get("default") or "online"

    def limits_of(self, model: str) -> Limits:
        return self.limits.get(model) or self.limits.get("default") or Limits()

    def model_key(self, model: Model) -> str:
        """What of a model decides its answers: name, server and parameters."""
        return content_id(model.name, self.servers[model.endpoint].identity, model.max_output_tokens, model.params)


def load_config(path: Path, overrides: list[str] = [], limit: int | None = None) -> Config:  # noqa: B006
    """Read a YAML config, apply ``key.path=value`` overrides (values are YAML), and validate it.

    A source's relative path in the file is relative to the file's folder; in an override, to the present one.
    Raises ``ConfigError``, with the place of what is wrong.
    """
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
    sources = values.get("sources")
    for source in sources if isinstance(sources, list) else []:
        if isinstance(source, dict) and isinstance(source.get("path"), str):
            source["path"] = str((path.parent / source["path"]).resolve())
    if limit is not None:
        overrides = [*overrides, f"limit={limit}"]
    return _validated(values, overrides, str(path))


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
    return _validated(config.model_dump(), overrides, "config") if overrides else config


def _validated(values: dict[str, Any], overrides: list[str], path: str) -> Config:
    for override in overrides:
        _override(values, override)
    try:
        return Config.model_validate(values)
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
