"""What a critic is worth: plain functions from arrays to figures (CriticGen, section 4 and appendices C and F).

scores        correlations, agreement and their intervals
units         semantic-unit precision, recall and F1, over embed's cosines
refinement    improved, unchanged, degraded
gold          final answers before and after
sensitivity   how far rubrics follow the answer
ratings       the two raters' Likert protocol
compare       all that two files allow, and report, which shows it
"""
