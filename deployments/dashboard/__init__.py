"""The dashboard: looks at a workspace, holds nothing itself. ``python -m deployments.dashboard --help``.

app.py         the routes, the password, what every answer carries
pages/         one file a page: its query parameters in, a template filled out
queries/       one file a page: plain functions from the tables to rows, without the web
reader.py      the tables as DuckDB views, kept open as long as the files stand
text.py        model text as safe HTML: Markdown, LaTeX, diffs, marks
charts.py      bars and lines as SVG
prefect_api.py what is asked of Prefect's server
"""
