"""One file per `lookrep` subcommand; each has `main(argv) -> exit status`. `lookrep.cli` picks one and reports errors."""
