"""The report page: one file that a browser opens, with everything in it."""
