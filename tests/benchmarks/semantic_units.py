"""Semantic units: 10,000 pairs of texts to precision, recall and F1, with the default embedder.

The texts are made: one to three sentences each, no two sentences alike, so that nothing is embedded once for two.
"""

import resource
import time

import numpy as np

PAIRS = 10_000
_SAID = (
    "Step {a} multiplies {b} by {c} although the question asks for the sum",
    "The unit of the result in line {a} is missing, e.g. metres for {b}.{c}",
    "It uses $x = {b}$ where {c} was given in sentence {a}",
    "The conclusion follows from {b} + {c}, as step {a} says",
    "Insert after line {a} the division of {b} by {c}",
)


def texts(count: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    made = []
    for number in range(count):
        parts = [
            _SAID[random.integers(len(_SAID))].format(a=random.integers(1, 30), b=number, c=random.integers(10_000))
            for _ in range(random.integers(1, 4))
        ]
        made.append(". ".join(parts) + ".")
    return made


def semantic_units() -> None:
    from tasks.evaluation.embed import DEFAULT, embedder
    from tasks.evaluation.units import align, units_of

    generated, reference = texts(PAIRS, 1), texts(PAIRS, 2)
    embed = embedder(DEFAULT)
    units = sum(len(units_of(text)) for text in (*generated, *reference))
    wall, cpu = time.perf_counter(), time.process_time()
    found = align(generated, reference, embed)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"semantic units: {PAIRS:,} pairs, {units:,} units, embedder {DEFAULT}: {wall:.0f} s wall, {cpu:.0f} CPU s, "
        f"{units / cpu:.0f} units per CPU second, peak memory {memory:,.0f} MB, mean F1 {found.f1.mean():.3f}"
    )


if __name__ == "__main__":
    semantic_units()
