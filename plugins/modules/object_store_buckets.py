#!/usr/bin/python
"""Ansible module: make an object store have the declared buckets, with the declared rights."""

DOCUMENTATION = r"""
module: object_store_buckets
short_description: Wait until an S3 server answers, create buckets and set the permissions of users
description:
  - Runs on a host of the object store. No bucket is ever deleted.
  - The policy of a bucket gets exactly the declared permissions. It is removed if no user is declared.
author: The Aqueduct project (!UNKNOWN)
options:
  endpoint:
    description: "Address of the server, as C(host:port). The connection uses TLS."
    type: str
    required: true
  region: {description: Region of the server., type: str, required: true}
  ca: {description: PEM file of the CA that signed the server's certificate., type: path, required: true}
  access_key: {description: Access key of the store's administrator., type: str, required: true}
  secret_key: {description: "Secret key of the administrator.", type: str, required: true}
  buckets:
    description: The buckets.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the bucket., type: str, required: true}
      read:
        description: Users who can list the bucket and read its objects.
        type: list
        elements: str
        default: []
      write: {description: Users who can also create objects., type: list, elements: str, default: []}
      delete:
        description: Users who can list the bucket, and read and delete its objects.
        type: list
        elements: str
        default: []
      prefixes:
        description: Users who have these permissions only for objects with a prefix.
        type: list
        elements: dict
        default: []
        suboptions:
          name: {description: The prefix., type: str, required: true}
          read: {description: Users who can list and read objects., type: list, elements: str, default: []}
          write: {description: Users who can also create objects., type: list, elements: str, default: []}
          delete:
            description: "Users who can read and delete objects."
            type: list
            elements: str
            default: []
      locked_days:
        description: Days for which no user can delete or replace a new object; 0 means no lock.
        type: int
        default: 0
  timeout_seconds: {description: Time limit in seconds until the server answers., type: int, default: 60}
"""

EXAMPLES = r"""
- name: Create a bucket that one user writes and another one reads
  aqueduct.estate.object_store_buckets:
    endpoint: store-1.example.com:7070
    region: us-east-1
    ca: /etc/aqueduct/object_store/tls/ca.pem
    access_key: admin
    secret_key: "{{ secret_key }}"
    buckets:
      - {name: backups, write: [backup], read: [restore], locked_days: 30}
"""

RETURN = r"""
altered:
  description: Names of buckets that were created, or whose permissions were changed.
  type: list
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Run the module."""
    users = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "endpoint": {"type": "str", "required": True},
            "region": {"type": "str", "required": True},
            "ca": {"type": "path", "required": True},
            "access_key": {"type": "str", "required": True, "no_log": False},  # a name
            "secret_key": {"type": "str", "required": True, "no_log": True},
            "buckets": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "read": users,
                    "write": users,
                    "delete": users,
                    "prefixes": {
                        "type": "list",
                        "elements": "dict",
                        "default": [],
                        "options": {
                            "name": {"type": "str", "required": True},
                            "read": users,
                            "write": users,
                            "delete": users,
                        },
                    },
                    "locked_days": {"type": "int", "default": 0},
                },
            },
            "timeout_seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    from aqueduct.errors import AqueductError
    from aqueduct.store.bucket_admin import BucketAdmin, S3Server
    from aqueduct.store.bucket_policy import bucket_policy

    given = module.params
    try:
        admin = BucketAdmin(
            S3Server(
                address=given["endpoint"],
                region=given["region"],
                access_key=given["access_key"],
                secret_key=given["secret_key"],
                ca_file=given["ca"],
            )
        )
        admin.wait(given["timeout_seconds"])
        altered = [
            bucket["name"]
            for bucket in given["buckets"]
            if admin.ensure(
                bucket["name"],
                bucket_policy(
                    bucket["name"],
                    read=bucket["read"],
                    write=bucket["write"],
                    delete=bucket["delete"],
                    prefixes={prefix["name"]: prefix for prefix in bucket["prefixes"]},
                ),
                bucket["locked_days"],
                check_only=module.check_mode,
            )
        ]
    except AqueductError as error:
        module.fail_json(msg=error.labelled)
    module.exit_json(changed=bool(altered), altered=altered)


if __name__ == "__main__":
    main()
