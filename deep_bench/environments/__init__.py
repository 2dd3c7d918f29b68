"""Other Python environments: declared, built once, locked, and run in."""
