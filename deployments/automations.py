"""Prefect automations of the deployments, made where they are not there yet (``python -m deployments.automations``).

- *criticgen: runs without a heartbeat have crashed*: a flow run whose worker died is not Running for ever.
- *criticgen: tell the webhook*, where CRITICGEN_WEBHOOK_URL is set: a POST when a batch failed, a model was stopped,
  the budget was reached or a run has finished.
"""

import os
from datetime import timedelta

from prefect.automations import Automation
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import CallWebhook, ChangeFlowRunState
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from pydantic import SecretStr

SILENCE_S = 420  # two heartbeats of Prefect's own pace, and a minute
# The names of the states in which a flow run of ours can end or rest.
ENDS = ("Completed", "Failed", "Cancelled", "Crashed", "Waiting", "Skipped", "NothingToDo", "Suspended", "Paused")
EVENTS = ("batch.failed", "model.stopped", "budget.reached", "run.finished")
MESSAGE = """{"event": "{{ event.event }}", "data_set": "{{ event.resource['prefect.resource.name'] }}",
"told": {{ event.payload | tojson }}}"""


def crashed_without_heartbeat() -> Automation:
    heartbeat = "prefect.flow-run.heartbeat"
    return Automation(
        name="criticgen: runs without a heartbeat have crashed",
        trigger=EventTrigger(
            after={heartbeat},
            expect={heartbeat, *(f"prefect.flow-run.{name}" for name in ENDS)},
            match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=SILENCE_S),
        ),
        actions=[ChangeFlowRunState(state=StateType.CRASHED, message="No heartbeat: its process is gone.")],
    )


def tell_webhook(url: str) -> Automation:
    block = Webhook(method="POST", url=SecretStr(url), headers={}, allow_private_urls=True)
    block_id = block.save("criticgen", overwrite=True)
    return Automation(
        name="criticgen: tell the webhook",
        trigger=EventTrigger(
            expect={f"criticgen.{name}" for name in EVENTS},
            match=ResourceSpecification({"prefect.resource.id": ["criticgen.data-set.*"]}),
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[CallWebhook(block_document_id=block_id, payload=MESSAGE)],
    )


def make_automations() -> None:
    """Under the server that PREFECT_API_URL names."""
    wanted = [crashed_without_heartbeat()]
    if url := os.environ.get("CRITICGEN_WEBHOOK_URL"):
        wanted.append(tell_webhook(url))
    with get_client(sync_client=True) as client:
        there = {automation.name for automation in client.read_automations()}
    for automation in wanted:
        if automation.name not in there:
            automation.create()


if __name__ == "__main__":
    make_automations()
