"""The configs that are shipped: each is valid, and the demo's questions are what they should be."""

import re
from itertools import combinations
from pathlib import Path

import pytest

import deployments
from deployments.simulator.knobs import Knobs
from tasks.config import Config, load_config
from tasks.sources import load_source

CONFIGS = Path(deployments.__file__).parent / "configs"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_config_is_valid(path: Path) -> None:
    assert load_config(path).sources


def test_the_demo_needs_no_vendor_and_makes_six_shards() -> None:
    config = load_config(CONFIGS / "demo.yaml")
    loaded = load_source(config.sources[0], limit=None, max_characters=1000, skip_bad_rows=False)
    assert (config.simulated, len(loaded.questions), config.shard_size, loaded.dropped) == (True, 36, 6, {})
    assert loaded.questions.null_count().sum_horizontal().item() == 0


def test_the_demos_options_are_knobs_of_the_simulator() -> None:
    simulator = load_config(CONFIGS / "demo.yaml").simulator
    assert simulator is not None
    assert Knobs.of(simulator.options).retry_after_s == 0.2


def test_one_pair_of_demo_questions_differs_in_a_number_and_no_other_is_alike() -> None:
    source = load_config(CONFIGS / "demo.yaml").sources[0]
    texts = load_source(source, limit=None, max_characters=1000, skip_bad_rows=False).questions["text"].to_list()
    words = [re.findall(r"\w+", text.lower()) for text in texts]
    grams = [{tuple(word[i : i + 4]) for i in range(len(word) - 3)} for word in words]
    alike = [(a, b) for a, b in combinations(range(36), 2) if len(grams[a] & grams[b]) > 0.1 * len(grams[a] | grams[b])]
    [(first, second)] = alike
    assert first // 6 != second // 6
    assert re.sub(r"\d+", "0", texts[first]) == re.sub(r"\d+", "0", texts[second])


def test_every_equation_in_the_demo_solutions_holds() -> None:
    source = load_config(CONFIGS / "demo.yaml").sources[0]
    questions = load_source(source, limit=None, max_characters=1000, skip_bad_rows=False).questions
    equations = re.findall(
        r"(\d[\d.]*(?:\s?[-+*/]\s?\d[\d.]*)+) = (\d+(?:\.\d+)?)(?![\d/])", " ".join(questions["reference_solution"])
    )
    assert len(equations) > 60
    wrong = [(left, right) for left, right in equations if abs(eval(left) - float(right)) > 1e-9]
    assert wrong == []


def test_the_papers_setting_is_the_papers() -> None:
    config = load_config(CONFIGS / "paper.yaml")
    assert config.teacher.name == "openai/gpt-5"
    assert [judge.name for judge in config.judges] == ["anthropic/claude-sonnet-4-5", "google/gemini-3.1-pro-preview"]
    assert [source.hub for source in config.sources] == [
        "openai/gsm8k",
        "GAIR/LIMO",
        "facebook/natural_reasoning",
        "AI-MO/NuminaMath-CoT",
        "amphora/QwQ-LongCoT-130K",
    ]
    assert (config.near_duplicates.threshold, config.near_duplicates.n, config.consensus.tolerance) == (0.75, 4, 0)
    assert (config.split.rubric_ratio, config.split.refine_ratio, config.coverage.rounds) == (5, 50, 1)


def test_current_differs_from_the_paper_in_its_models_only() -> None:
    def rest(config: Config) -> dict[str, object]:
        return config.model_dump(exclude={"name", "teacher", "judges", "answers"})

    paper, current = (load_config(CONFIGS / f"{name}.yaml") for name in ("paper", "current"))
    assert rest(paper) == rest(current)
    assert {m.name for m in paper.models} & {m.name for m in current.models} == {"vllm/Qwen/Qwen2.5-7B-Instruct"}
