import re

from tasks.models import outcomes
from tasks.models.outcomes import REMEDIES, Outcome


def test_the_drawing_at_the_top_lists_every_class_once() -> None:
    assert outcomes.__doc__ is not None
    drawn = re.findall(r"^([a-z_]+) {2,}\S", outcomes.__doc__, re.MULTILINE)
    assert drawn == ["class", *(outcome.value for outcome in Outcome)]


def test_every_class_has_a_remedy() -> None:
    assert set(REMEDIES) == set(Outcome)
