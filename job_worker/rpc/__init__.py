"""Servicers of ExecutionService, and the way between protobuf and the domain."""
