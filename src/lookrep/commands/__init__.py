"""One file per `lookrep` subcommand, each with `main(argv) -> exit status`; `lookrep.cli` picks one, reports errors."""
