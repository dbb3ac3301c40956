"""``criticgen export``: the two data sets again, in other shapes, elsewhere, or on the hub. No model is asked."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from flows.plan import config_of, keep_config
from storage.errors import UserError
from storage.workspace import Workspace
from tasks.config import Config, Export
from tasks.curation import STEPS, run_step, stands
from tasks.export import export


def export_again(place: Workspace, out: Path | None, changes: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The export with changed settings: in the workspace, whose settings they become, or at ``out`` alone.

    Returns the rows by data set and split. Raises ``UserError`` where the workspace is not built to its end.
    """
    with place.lock():
        config = config_of(place)
        for step in STEPS[:-1]:
            if not stands(step, place, config):
                raise UserError(f"{place.root}: {step.name} is not done yet; `criticgen run` goes on with the build")
        config = config.model_copy(update={"export": _changed(config, changes)})
        if out is not None:
            return export(place, config, out)
        counts = run_step(STEPS[-1], place, config)["counts"]
        keep_config(place, config)
        return dict(counts)


def _changed(config: Config, changes: dict[str, Any]) -> Export:
    try:
        return Export.model_validate(config.export.model_dump() | changes)
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'export'}: {one['msg']}" for one in error.errors())
        raise UserError(f"export: {said}") from None
