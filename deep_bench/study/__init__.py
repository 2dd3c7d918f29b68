"""What every study shares: its settings, its systems, and how they are judged."""
