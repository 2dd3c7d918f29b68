"""The labelled corpus that the checker is measured on: faults, and correct variants."""
