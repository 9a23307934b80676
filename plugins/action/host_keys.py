"""Installs a key and a certificate for each of a host's principals; the module of this name runs on the host.

Asks the host for its keys and certificates. On the control node, signs each certificate that is missing,
expires soon or differs from the inventory. Then copies all new files to the host at once.
"""

import base64
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from aqueduct.control_node import certificates
from aqueduct.errors import AqueductError, Refused, labelled, with_identifier
from aqueduct.estate.check.secrets import holders
from aqueduct.estate.provided_certificates import ServiceOfHost, unsuitable

MODULE = "aqueduct.estate.host_keys"


class ActionModule(ActionBase):
    """Arguments: `keys` (of each `principal`, `folder`, `owner`, `names`, `serves`, whether others connect to
    it, and `java_password` for Java's stores), and variables of the role certificates without its name."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        _, given = self.validate_argument_spec(
            {
                "keys": {
                    "type": "list",
                    "elements": "dict",
                    "required": True,
                    "options": {
                        "principal": {"type": "str", "required": True},
                        "folder": {"type": "path", "required": True},
                        "owner": {"type": "str", "required": True},
                        "names": {"type": "list", "elements": "str", "default": []},
                        "serves": {"type": "bool", "default": True},
                        "java_password": {"type": "str", "no_log": True},
                    },
                },
                "source": {"type": "str", "choices": ["own_ca", "provided"], "required": True},
                "directory": {"type": "path", "required": True},
                "provided_directory": {"type": "path"},
                "validity_days": {"type": "int", "required": True},
                "renewal_days": {"type": "int", "required": True},
            }
        )
        if not given["keys"]:
            return {"changed": False}
        self._variables, self._host = task_vars or {}, str((task_vars or {})["inventory_hostname"])
        try:
            if given["source"] == "provided":
                result = self._bring(given["keys"], *self._provided(given))
            else:
                result = self._sign(given)
        except AqueductError as error:
            raise AnsibleActionFail(error.labelled) from error
        return result

    def _provided(self, given: dict[str, Any]) -> tuple[str, list[dict[str, str]]]:
        folder, now = Path(given["provided_directory"] or ""), certificates.utc_now()
        ca, chains = folder / "ca.pem", []
        for key in given["keys"]:
            name = f"{key['principal']}.pem"
            files = [path for path in (folder / self._host / name, folder / name) if path.is_file()]
            if not files:
                raise AnsibleActionFail(
                    f"[provided-certificate-missing] {folder} has neither {self._host}/{name} nor {name}. "
                    "Copy the key and the certificate chain of this principal there, in one file."
                )
            if reason := certificates.provided_fault(files[0], ca, key["principal"], now):
                raise AnsibleActionFail(
                    "[provided-certificate-unusable] "
                    f"{files[0]} cannot be used on {self._host}: {reason}. Replace the file. "
                    f"Nothing of {self._host} was changed."
                )
            pem = files[0].read_text()
            if misuse := unsuitable(str(files[0]), pem, self._service(key)):
                sentence = f"{misuse.sentence} Nothing of {self._host} was changed."
                raise AnsibleActionFail(labelled(misuse.id, sentence))
            chains.append({"provided": pem})
        return ca.read_text(), chains

    def _service(self, key: dict[str, Any]) -> ServiceOfHost:
        groups = self._variables.get("groups", {})
        own_hosts = holders(groups, self._variables.get("hostvars", {}), key["principal"]) | {self._host}
        return ServiceOfHost(
            principal=key["principal"],
            serves=key["serves"],
            names=tuple(key["names"]),
            foreign_names=frozenset(groups.get("all", ())) - own_hosts,
        )

    def _sign(self, given: dict[str, Any]) -> dict[str, Any]:
        folder = Path(given["directory"]) / "ca"
        authority, now = certificates.load_authority(folder), certificates.utc_now()
        result = self._bring(given["keys"], authority.trusted, [{} for _ in given["keys"]])
        found_keys = result["keys"]
        requests = [
            certificates.Wanted(
                principal=key["principal"],
                names=tuple(key["names"]),
                usages=certificates.SERVICE if key["serves"] else certificates.CLIENT,
                validity_days=given["validity_days"],
                renewal_days=given["renewal_days"],
            )
            for key in given["keys"]
        ]
        old = [
            number
            for number, (host_key, request) in enumerate(zip(found_keys, requests, strict=True))
            if certificates.needs_new_key(host_key["certificate"], request, authority)
        ]
        if old:
            again = [given["keys"][number] for number in old]
            brought = self._bring(again, authority.trusted, [{"new_key": True} for _ in old])
            for number, host_key in zip(old, brought["keys"], strict=True):
                found_keys[number] = host_key
        signed = []
        for number, (request, host_key) in enumerate(zip(requests, found_keys, strict=True)):
            public = host_key["public_key"]
            try:
                reason = public and certificates.fault(
                    host_key["certificate"], public, request, authority, now
                )
                made = {"certificate": certificates.issue(public, request, authority, now)} if reason else {}
            except Refused as error:
                raise AnsibleActionFail(f"{self._host}, {request.principal}: {error.labelled}") from error
            signed.append(made | ({"new_key": True} if number in old and made else {}))
        new = [(key, made) for key, made in zip(given["keys"], signed, strict=True) if made]
        if new:
            brought = self._bring([key for key, _ in new], authority.trusted, [made for _, made in new])
            result |= {"changed": True, "files": result["files"] + brought["files"]}
            for key, made in new if not self._task.check_mode else ():
                issued = folder / "issued" / f"{self._host}.{key['principal']}.pem"
                issued.parent.mkdir(mode=0o700, exist_ok=True)
                certificates.write(issued, made["certificate"].encode(), 0o644)
        return {key: value for key, value in result.items() if key != "keys"}

    def _bring(self, keys: list[dict[str, Any]], ca: str, made: list[dict[str, str]]) -> dict[str, Any]:
        """Call the module."""
        entries = []
        for key, new in zip(keys, made, strict=True):
            entry = {name: key[name] for name in ("principal", "folder", "owner")}
            pem = f"{key['folder']}/{key['principal']}.pem"
            entry |= {"ca": ca, "properties": certificates.client_properties(pem, f"{key['folder']}/ca.pem")}
            if password := key["java_password"]:
                trust = base64.b64encode(certificates.java_truststore(ca, password)).decode()
                entry |= {"java_password": password, "java_trust": trust}
            entries.append(entry | new)
        result: dict[str, Any] = self._execute_module(
            module_name=MODULE, module_args={"keys": entries}, task_vars=self._variables
        )
        if result.get("failed"):
            raise AnsibleActionFail(
                with_identifier(
                    "host-module-failed",
                    str(next(filter(None, map(result.get, ("msg", "module_stderr", "exception"))), result)),
                )
            )
        result.pop("invocation", None)
        self._check(result, len(keys))
        return result

    def _check(self, result: dict[str, Any], asked: int) -> None:
        """Check that a host told one key for each of its principals: who has it may answer anything."""
        keys = result.get("keys")
        if not (
            isinstance(result.get("files"), list)
            and isinstance(keys, list)
            and len(keys) == asked
            and all(
                isinstance(key, dict)
                and isinstance(key.get("public_key"), str)
                and isinstance(key.get("certificate"), str)
                for key in keys
            )
        ):
            raise AnsibleActionFail(
                "[host-answer-wrong] "
                f"{self._host} did not send one public key for each of its {asked} principals. Nothing was "
                "signed. A module of Aqueduct always sends them. Find out who can change files on this host."
            )
