"""The record of a run: its model, the files it is kept in, and the tables and pictures that are made of it."""
