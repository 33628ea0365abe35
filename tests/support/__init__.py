"""What tests stand on: servers, fakes, builders."""
