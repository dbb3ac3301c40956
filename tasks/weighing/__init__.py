"""Weights for rubric criteria (Importance-Aware Criteria Weighting): plain functions over judgments and verdicts.

icw          pairwise comparisons to a matrix, its principal eigenvector, its consistency
active       the same from about a third of the comparisons
baselines    uniform, direct, averaged, importance levels, correlation-whitened
preference   scores, preference accuracy, relative improvement
preferences  RubricBench, JudgeBench and RewardBench files
reward       weights and verdicts as a reward function for TRL and verl
"""
