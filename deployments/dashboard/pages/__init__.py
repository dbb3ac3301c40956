"""The pages, in the order of the navigation."""

from deployments.dashboard.pages import agreement, batches, coverage, diversity, models, overview, row, rows, sql

GET, BOTH = ("GET",), ("GET", "POST")

ROUTES = (
    ("/", overview.page, GET),
    ("/batches", batches.page, BOTH),
    ("/rows", rows.page, GET),
    ("/find", row.find, GET),
    ("/row/{row_id}", row.page, GET),
    ("/agreement", agreement.page, GET),
    ("/coverage", coverage.page, GET),
    ("/diversity", diversity.page, GET),
    ("/models", models.page, GET),
    ("/sql", sql.page, BOTH),
    ("/sql/download", sql.download, GET),
)
