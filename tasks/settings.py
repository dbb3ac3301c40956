"""What anything that asks models is told: servers, models, limits, prices."""

from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from storage.errors import UserError
from storage.ids import content_id


class ConfigError(UserError):
    """The configuration cannot be used; the message says where and why."""


class Section(BaseModel):
    # Defaults too: a default of 5 for a float would be another value, to a hash, than the 5.0 read from a file.
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


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


class Asking(Section):
    """What anything that asks models depends on: servers, limits, prices, budget."""

    # Names that `transport` takes beside the models'.
    stages: ClassVar[tuple[str, ...]] = ()

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Name of the data set")
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

    @property
    @abstractmethod
    def models(self) -> list[Model]:
        """Every model that is asked; one that has two parts stands twice."""

    @model_validator(mode="after")
    def _models_fit(self) -> Self:
        for model in self.models:
            if model.endpoint not in self.servers:
                known = ", ".join(sorted(self.servers))
                raise ValueError(f"model {model.name}: no endpoint {model.endpoint!r} (there are {known})")
        simulated = {model.simulated for model in self.models}
        if len(simulated) > 1:
            raise ValueError("simulated (sim-...) and real models do not mix in one data set")
        all_models, stages = {model.name for model in self.models}, {"default", *self.stages}
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
        return self

    @property
    def servers(self) -> dict[str, Endpoint]:
        return VENDORS | self.endpoints

    @property
    def simulated(self) -> bool:
        return any(model.simulated for model in self.models)

    def transport_of(self, stage: str, model: str) -> Transport:
        """How a stage's calls to a model are made: the model's own word before the stage's."""
        by = self.transport
        return by.get(model) or by.get(stage) or by.get("default") or "online"

    def limits_of(self, model: str) -> Limits:
        return self.limits.get(model) or self.limits.get("default") or Limits()

    def model_key(self, model: Model) -> str:
        """What of a model decides its answers: name, server and parameters."""
        return content_id(model.name, self.servers[model.endpoint].identity, model.max_output_tokens, model.params)
