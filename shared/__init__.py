"""The core that both services stand on."""
