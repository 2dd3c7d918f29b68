"""Pictures of operators; importing its modules needs matplotlib."""
