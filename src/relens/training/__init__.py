"""Training: settings, losses, the loop, and checkpoints."""
