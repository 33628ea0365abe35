"""The runtime that a handler's author uses; it knows gRPC, domain and catalog only."""
