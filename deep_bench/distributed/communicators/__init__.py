"""How ranks reach each other: one interface, and what implements it."""
