"""A job type of one's own: `word_count` finds the most frequent words of a text.

PYTHONPATH=examples BATON_JOB_MODULES=word_count baton dev
baton submit word_count --input '{"text": "to be or not to be"}' --watch
"""
