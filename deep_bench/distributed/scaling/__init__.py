"""What training would take on more ranks than there are: traced on few, generalised, checked, and predicted."""
