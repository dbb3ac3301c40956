"""Traces classified as correct or not (rubric-reward-eval): ``figures`` from counts, ``results`` from files."""
