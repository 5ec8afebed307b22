"""Training: settings, losses, the loop, checkpoints and the ranking of validation queries."""
