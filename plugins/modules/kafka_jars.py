#!/usr/bin/python
"""Ansible module: bring Kafka's jars, checked against a lock file, into the controller's cache."""

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kafka_jars
short_description: Fetch Kafka's jars once, check them against a lock file and pack them for the hosts
description:
  - Runs on the controller. Both sources end in the same archive with a C(libs/) folder.
  - An archive that is in the cache already is checked again, jar by jar, and not fetched.
options:
  version: {description: Kafka's version., type: str, required: true}
  source: {description: Where the jars come from., type: str, choices: [maven, archive], required: true}
  archive_url: {description: The vendor's C(.tgz), type: str}
  archive_sha256: {description: Its digest., type: str}
  lock: {description: File in the format of sha256sum that names every jar., type: path, required: true}
  cache: {description: Folder to keep the archive in., type: path, required: true}
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "source": {"type": "str", "choices": ["maven", "archive"], "required": True},
            "archive_url": {"type": "str"},
            "archive_sha256": {"type": "str"},
            "lock": {"type": "path", "required": True},
            "cache": {"type": "path", "required": True},
        },
        required_if=[
            ("source", "archive", ["archive_url", "archive_sha256"]),
        ],
    )
    from aqueduct.controller import artifacts
    from aqueduct.errors import AqueductError

    try:
        result = artifacts.kafka_jars(**module.params)
    except AqueductError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=result.fetched, path=str(result.path))


if __name__ == "__main__":
    main()
