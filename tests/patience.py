"""How long tests wait for something that happens at its own pace."""

HANG = 600
"""Only a hang takes this long, also on a busy machine."""
