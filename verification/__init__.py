"""The suite behind `baton verify`: puts a running engine under fire, and judges what became of every job.

It stands on the protocol alone. It shares no rule and no statement with the engine, so a fault there can't
hide itself here.
"""
