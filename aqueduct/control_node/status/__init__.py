"""The state of a whole estate: each declared object, judged by the facts that its hosts gave.

Everything here is a pure core. `plugins/action/estate_status.py` gathers the facts.
"""
