"""From metrics on disk to answers: results, scores, statistics, figures, the report. Nothing here trains."""
