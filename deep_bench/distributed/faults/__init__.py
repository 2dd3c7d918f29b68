"""What happens when a rank is lost: all others learn of it, one of them tells, and all end."""
