"""PTX front end: text -> typed, immutable IR -> control flow."""
