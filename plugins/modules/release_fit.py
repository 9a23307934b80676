#!/usr/bin/python
"""Documentation of the action of this name, which runs on the control node."""

DOCUMENTATION = r"""
module: release_fit
short_description: Check that the collection and the Python package of the control node are of one release
description: Runs on the control node. It has no arguments.
author: The Aqueduct project (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Check that the collection and the Python package are of one release
  aqueduct.estate.release_fit:
  run_once: true
"""
