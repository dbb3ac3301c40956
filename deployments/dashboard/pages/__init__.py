"""The pages, in the order of the navigation."""

from deployments.dashboard.pages import overview, row, rows

GET, BOTH = ("GET",), ("GET", "POST")

ROUTES = (
    ("/", overview.page, GET),
    ("/rows", rows.page, GET),
    ("/find", row.find, GET),
    ("/row/{row_id}", row.page, GET),
)
