"""Whether services speak the protocol: over gRPC alone, against whatever runs at an address.

Checks create jobs of the type `synthetic` only, each with the run's label, and cancel what is left of them.
"""
