"""The vendor simulator: OpenAI, Anthropic and Gemini on one local address, with models named ``sim-...``.

    python -m deployments.simulator --port 0 --latency-s 0.2 --fault-500 0.01

Its models answer the pipeline's prompts: generators with slips of known severity, a teacher that writes rubrics and
trajectories, judges with noise and bias of their own. What they answer is a function of the request, its
X-Client-Request-Id and the knobs, so a run can be repeated to the letter. ``GET /_sim/stats`` tells what was served;
``POST /_sim/script`` sets which faults the next requests with a call id, or of a model, get.

Public: ``true_scores`` (an answer's true score in each family), ``true_quality`` (their mean, rounded),
``true_item_score`` (under one rubric item), ``Knobs`` and ``KnobError``, and ``start`` for a server in this process.
"""

from deployments.simulator.checker import true_quality, true_scores
from deployments.simulator.knobs import KnobError, Knobs
from deployments.simulator.server import start
from deployments.simulator.teacher import true_item_score

__all__ = ["KnobError", "Knobs", "start", "true_item_score", "true_quality", "true_scores"]
