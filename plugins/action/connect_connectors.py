"""Runs the module of this name in the environment `connect` of its host."""

from ansible_collections.aqueduct.estate.plugins.plugin_utils.environments import EnvironmentAction


class ActionModule(EnvironmentAction):
    """Arguments: those of the module of this name."""

    environment = "connect"
