"""The plots of reports. Importing the modules of this folder needs matplotlib."""
