"""Postgres and Redis, races, plans and migrations."""
