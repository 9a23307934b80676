"""The real input of the demo and the scenarios, and the table that the demo ends with."""
