"""What a run leaves on disk: settings, metrics, checkpoints, logged frames."""
