"""python -m bench backup|restore... [--data NAME]... [--store local|s3]... [--scale FACTOR] [--runs N]"""

import argparse
import sys
from dataclasses import replace

from bench import backup, restore
from bench.data import DATA
from bench.measured import CommandFailed
from bench.rounds import STORES, Rounds, estate, rows, table
from bench.tell import machine, say

VERBS = {"backup": backup.commands, "restore": restore.commands}


def parse() -> tuple[list[str], Rounds]:
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("verbs", nargs="+", choices=VERBS)
    parser.add_argument("--data", action="append", choices=DATA)
    parser.add_argument("--store", action="append", choices=STORES)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    chosen = [DATA[name] for name in args.data or DATA]
    scaled = tuple(replace(each, records=int(each.records * args.scale)) for each in chosen)
    return args.verbs, Rounds(scaled, tuple(args.store or STORES), args.runs)


def main() -> int:
    verbs, plan = parse()
    try:
        with estate() as where:
            found = rows(plan, where, [VERBS[verb] for verb in verbs])
    except CommandFailed as error:
        say(f"This failed: {error}")
        return 1
    print(f"{machine()} Median of {plan.runs}.")
    for verb, measured in zip(verbs, found, strict=True):
        print(f"\n`bench/{verb}`\n\n{table(measured)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
