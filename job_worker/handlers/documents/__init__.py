"""Parsers from files to headings and passages; pure functions that know nothing of jobs.

Each reads one format and raises nothing but `UnreadableDocument`, whatever bytes it is given.
"""
