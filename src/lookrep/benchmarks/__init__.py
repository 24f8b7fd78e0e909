"""Timings, each beside the limit it is measured against. Run by `lookrep bench`; no test asserts any of them."""
