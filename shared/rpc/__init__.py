"""What every gRPC server of the engine has: interceptors, the error table, server set-up."""
