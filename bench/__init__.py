"""Measures Baton beside another durable engine, on one machine and in one run."""
