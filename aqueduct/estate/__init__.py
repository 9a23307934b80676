"""An inventory as a whole: its sites and flows (`model`), their rights (`acls`), its errors (`check`).

Pure: no Ansible, no files, no sockets. The plugins filter/estate.py and action/inventory_check.py are thin
around it.
"""
