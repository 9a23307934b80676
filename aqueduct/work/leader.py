"""Wait until a master of a Spark cluster is active (ALIVE).

A master that recovers sends MasterChanged to the former workers. If a new worker already runs at the address
of a former one, it takes this message for its own registration, and no master ever lists it (Spark 4.3.0).
Therefore the unit of a worker waits for an active master.
"""

import argparse
import json
import ssl
import time
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException

from aqueduct.common.deadlines import within

SECONDS = 1.0  # between two requests
ANSWER_SECONDS = 10.0  # for a complete page
MOST_BYTES = 16 << 20  # of a page


def main(argv: Sequence[str] | None = None) -> None:
    """Run `python -m aqueduct.work.leader [--certificate FILE --ca FILE] PAGE...`; end if one is active."""
    parser = argparse.ArgumentParser(prog="aqueduct.work.leader")
    parser.add_argument("--certificate", metavar="FILE", help="PEM file with key and certificate")
    parser.add_argument("--ca", metavar="FILE", help="PEM file with the CA of the masters")
    parser.add_argument("pages", metavar="PAGE", nargs="+", help="URL of a master's web page, without a path")
    args = parser.parse_args(argv)
    context = ssl.create_default_context(cafile=args.ca)
    if args.certificate:
        context.load_cert_chain(args.certificate)
    https = urllib.request.HTTPSHandler(context=context)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), https)
    is_announced = False
    while not any(_leads(opener, page) for page in args.pages):
        if not is_announced:
            print(f"Waiting for an active master: {', '.join(args.pages)}", flush=True)
            is_announced = True
        time.sleep(SECONDS)


def _leads(opener: urllib.request.OpenerDirector, page: str) -> bool:
    def ask() -> bytes:
        with opener.open(f"{page}/json/", timeout=ANSWER_SECONDS) as answer:
            return bytes(answer.read(MOST_BYTES))

    try:
        return bool(json.loads(within(ANSWER_SECONDS, ask)).get("status") == "ALIVE")
    except (OSError, ValueError, AttributeError, RecursionError, HTTPException):
        return False


if __name__ == "__main__":
    main()
