"""Contract tests load Ansible's plugins and roles in this process."""

from kit import plugin_modules  # noqa: F401  # which lets Ansible find the collection, before any test runs
