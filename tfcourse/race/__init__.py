"""`tfcourse race`: the best held-out bits per byte on Python's manual, within one fixed budget.

The budget is the work of some hundred steps of a small reference model, measured on the machine
that runs the race. So a fast machine has no advantage. An entry is a Python file with a function
`train(text, clock, seed)`; the course's own are in `entries/`, plain ones first.
"""
