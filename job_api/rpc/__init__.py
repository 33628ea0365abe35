"""Servicers of JobControl, and the way between protobuf and the domain."""
