"""The inventory of an estate: sites and flows (`model`), their ACLs (`acls`), and its check (`check`).

The package uses neither Ansible nor sockets. The plugins filter/estate.py and action/inventory_check.py call
it.
"""
