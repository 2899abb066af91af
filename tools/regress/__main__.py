"""PostgreSQL 15's regression suite on Cairn and on PostgreSQL, statement by statement: see scripts/regress."""

import argparse
import collections
import difflib
import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import compare
from compare import CASCADE, CLASSES, DIFFERENT, IDENTICAL, REFUSED, SAME
from servers import POSTGRES, Cairn, PostgreSQL, Running
from statements import split

PROJECT = Path(__file__).resolve().parents[2]
LIST = PROJECT / "tests/regress/identical"
CHECKED = PROJECT / "tests/regress/checked"
WIDTH = 200  # longer lines of a difference are cut


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/regress", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="files of the suite, without .sql (default: all)")
    parser.add_argument("--files", action="store_true", help="a line for each file")
    parser.add_argument("--json", action="store_true", help="everything as JSON, every statement that is not identical included")
    parser.add_argument("--check", action="store_true", help="fail if a statement of tests/regress/identical is lost")
    parser.add_argument("--record", action="store_true", help="write tests/regress/identical (with the whole suite only)")
    parser.add_argument("--client-copy", action=argparse.BooleanOptionalAction, default=True,
                        help="feed COPY of a file of the server through \\copy (default)")
    parser.add_argument("--features", type=int, default=40, metavar="N", help="how many refused features to list (default: 40)")
    parser.add_argument("--cairn", type=Path, metavar="FILE", help="the binary to test (default: a debug build of this tree)")
    chosen = parser.parse_args()
    if chosen.record and chosen.names:
        parser.error("--record takes the whole suite")
    return chosen


def suite():
    """The directory of PostgreSQL's src/test, and where the headers for regress.c are; None if it cannot be had."""
    fetched = subprocess.run([PROJECT / "scripts/postgres-source"], stdout=subprocess.PIPE, text=True)
    return Path(fetched.stdout.strip()) if fetched.returncode == 0 else None


def lay_out(source, scratch):
    """Copies the suite to where both servers can read it, with the libraries that its functions in C are taken from."""
    directory = scratch / "suite"
    shutil.copytree(source / "regress", directory)
    libraries = directory / "lib"
    libraries.mkdir()
    for name in ("refint.so", "autoinc.so"):
        (libraries / name).symlink_to(POSTGRES.parent / "lib" / name)
    headers = source / "server-dev/usr/include/postgresql"
    compiled = subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-w", f"-I{headers}/15/server", f"-I{headers}", "-o", libraries / "regress.so", directory / "regress.c"]
    )
    if compiled.returncode != 0:
        print("regress.c does not compile: functions in C are missing in PostgreSQL too", file=sys.stderr)
    subprocess.run(["chmod", "-R", "a+rX", scratch], check=True)
    return directory


def schedule(directory):
    """The files of the suite, in the order in which they are run."""
    lines = (directory / "parallel_schedule").read_text().splitlines()
    return [name for line in lines if line.startswith("test:") for name in line[5:].split()]


def read(directory, name):
    """A file of the suite as text, and a digest of its bytes."""
    content = (directory / "sql" / f"{name}.sql").read_bytes()
    return content.decode("utf-8", errors="surrogateescape"), hashlib.sha256(content).hexdigest()[:12]


def run(directory, names, servers, client_copy, quiet):
    """Runs the files on both servers at the same time; yields the outcomes of each, in order."""
    answers = {server.name: queue.Queue() for server in servers}

    def all_files(server):
        try:
            for name in names:
                answers[server.name].put(server.run(name, split(read(directory, name)[0]), client_copy))
        except BaseException as error:
            answers[server.name].put(error)

    for server in servers:
        threading.Thread(target=all_files, args=(server,), daemon=True).start()
    failures = compare.Failures()
    for name in names:
        got = {}
        for server in servers:
            got[server.name] = answers[server.name].get()
            if isinstance(got[server.name], BaseException):
                raise got[server.name]
        outcomes = compare.compare(split(read(directory, name)[0]), got["postgresql"], got["cairn"], failures, client_copy)
        if not quiet:
            print(f"{name}: {sum(o.kind == IDENTICAL for o in outcomes)} of {len(outcomes)}", file=sys.stderr)
        yield name, outcomes


def ranges(numbers):
    """Numbers in ascending order as ranges: 1-5,7,9-12."""
    parts = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in parts)


def numbers_in(text):
    """The numbers that ranges stand for."""
    numbers = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def record(directory, results):
    lines = [
        "# The statements of PostgreSQL 15's regression suite that Cairn answers as PostgreSQL does, written by `scripts/regress",
        "# --record`: file, digest of the file, how many of how many statements, their numbers.",
    ]
    for name, outcomes in results.items():
        numbers = [outcome.number for outcome in outcomes if outcome.kind == IDENTICAL]
        lines.append(f"{name} {read(directory, name)[1]} {len(numbers)}/{len(outcomes)} {ranges(numbers) or '-'}")
    LIST.parent.mkdir(exist_ok=True)
    LIST.write_text("\n".join(lines) + "\n")


def recorded():
    """The list of identical statements: for each file its digest and the statements' numbers."""
    entries = {}
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            name, digest, _, numbers = line.split()
            entries[name] = digest, set() if numbers == "-" else numbers_in(numbers)
    return entries


def check(directory, results):
    """Compares with the list; prints what is lost and says whether nothing is."""
    entries = recorded()
    lost = checked = won = 0
    for name, outcomes in results.items():
        if name not in entries:
            continue
        digest, numbers = entries[name]
        if read(directory, name)[1] != digest:
            print(f"{name}: not checked, the list was recorded from another version of this file")
            continue
        checked += len(numbers)
        for outcome in outcomes:
            if outcome.kind == IDENTICAL:
                won += outcome.number not in numbers
            elif outcome.number in numbers:
                lost += 1
                print(f"lost: {name}, statement {outcome.number}")
                show(name, outcome)
    gained = f"; {won} more are identical (scripts/regress --record keeps them)" if won else ""
    print(f"{checked} statements of {len(results)} files checked, {lost} lost{gained}")
    return lost == 0


def show(name, outcome):
    """Prints a statement with the difference of its answers."""
    reason = ": ".join(part for part in (outcome.kind, outcome.reason, outcome.root) if part)
    print(f"--- {name}:{outcome.statement.line}, {reason}")
    print(outcome.statement.text)
    if outcome.cairn is not None:
        theirs, ours = outcome.postgres.text.splitlines(), outcome.cairn.text.splitlines()
        if outcome.postgres.state != outcome.cairn.state:
            theirs, ours = [f"[{outcome.postgres.state}]", *theirs], [f"[{outcome.cairn.state}]", *ours]
        for line in list(difflib.unified_diff(theirs, ours, "PostgreSQL", "Cairn", lineterm="", n=1))[2:]:
            if not line.startswith("@@"):
                print(f"  {line if len(line) <= WIDTH else line[:WIDTH] + '...'}")
    print()


def summary(results, features):
    """Prints the totals."""
    outcomes = [(name, outcome) for name, all_of in results.items() for outcome in all_of]
    total = len(outcomes)
    counts = collections.Counter(outcome.kind for _, outcome in outcomes)
    whole = sum(all(outcome.kind == IDENTICAL for outcome in all_of) for all_of in results.values())
    print(f"{total} statements in {len(results)} files, {whole} of them wholly identical")
    for kind in CLASSES:
        print(f"{counts[kind]:7} {100 * counts[kind] / max(total, 1):5.1f} %  {kind}")
    for kind in (SAME, DIFFERENT, compare.CRASHED):
        reasons = collections.Counter(outcome.reason.split(":")[0] for _, outcome in outcomes if outcome.kind == kind)
        if reasons:
            print(f"{kind}: " + ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()))
    for name, outcome in outcomes:
        if outcome.kind == compare.CRASHED or outcome.reason.startswith("internal error"):
            print(f"{name}:{outcome.statement.line} {outcome.reason}")
    table = refusals(outcomes)
    if table:
        print("\nrefused by feature: statements, and statements that fall after them")
        for reason, (own, after, example) in list(table.items())[:features]:
            print(f"{own:7} {after:7}  {reason}  ({example})")
        if len(table) > features:
            print(f"        and {len(table) - features} more (--features)")


def refusals(outcomes):
    """Each refused feature with its statements, those that fall after them, and an example; the costliest first."""
    own, after, example = collections.Counter(), collections.Counter(), {}
    for name, outcome in outcomes:
        if outcome.kind == REFUSED:
            own[outcome.reason] += 1
            example.setdefault(outcome.reason, f"{name}:{outcome.statement.line}")
        elif outcome.kind == CASCADE:
            after[outcome.root] += 1
    order = sorted(own, key=lambda reason: -own[reason] - after[reason])
    return {reason: (own[reason], after[reason], example[reason]) for reason in order}


def by_file(results, servers):
    """Prints a line for each file; the seconds are those of PostgreSQL and of Cairn."""
    print("\nidentical  same  refused  cascade  other   all  seconds        file")
    for name, outcomes in results.items():
        counts = collections.Counter(outcome.kind for outcome in outcomes)
        others = len(outcomes) - sum(counts[kind] for kind in (IDENTICAL, SAME, REFUSED, CASCADE))
        print(f"{counts[IDENTICAL]:9} {counts[SAME]:5} {counts[REFUSED]:8} {counts[CASCADE]:8} {others:6} {len(outcomes):5}  "
              + "  ".join(f"{server.seconds[name]:6.1f}" for server in servers) + f"  {name}")


def as_json(results, servers):
    """Prints everything as one JSON document."""
    outcomes = [(name, outcome) for name, all_of in results.items() for outcome in all_of]
    files = {}
    for name, all_of in results.items():
        counts = collections.Counter(outcome.kind for outcome in all_of)
        seconds = {server.name: round(server.seconds[name], 2) for server in servers}
        files[name] = {"statements": len(all_of), "seconds": seconds} | {kind: counts[kind] for kind in CLASSES}
    statements = []
    for name, outcome in outcomes:
        if outcome.kind != IDENTICAL:
            statements.append({
                "file": name, "number": outcome.number, "line": outcome.statement.line, "class": outcome.kind,
                "reason": outcome.reason, "root": outcome.root, "statement": outcome.statement.text,
                "postgresql": {"state": outcome.postgres.state, "output": outcome.postgres.text},
                "cairn": outcome.cairn and {"state": outcome.cairn.state, "output": outcome.cairn.text},
            })
    counts = collections.Counter(outcome.kind for _, outcome in outcomes)
    features = [{"feature": reason, "statements": own, "after": after, "example": example}
                for reason, (own, after, example) in refusals(outcomes).items()]
    document = {"statements": len(outcomes), "classes": {kind: counts[kind] for kind in CLASSES}, "features": features,
                "files": files, "not_identical": statements}
    json.dump(document, sys.stdout, indent=1, ensure_ascii=True)
    print()


def main():
    chosen = arguments()
    names = chosen.names
    if chosen.check and not names:
        names = [line for line in CHECKED.read_text().split("\n") if line and not line.startswith("#")]
    if not (POSTGRES / "postgres").exists():
        print(f"PostgreSQL 15 is not installed ({POSTGRES}): PostgreSQL's regression suite is not compared")
        return 0 if chosen.check else 2
    source = suite()
    if source is None:
        print("PostgreSQL's source package could not be fetched: its regression suite is not compared")
        return 0 if chosen.check else 2
    cairn = chosen.cairn
    if not cairn and "PGPORT" not in os.environ:
        subprocess.run(["cargo", "build", "-q", "-p", "cairn"], check=True, cwd=PROJECT)
        cairn = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")) / "debug/cairn"

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    scratch = Path(tempfile.mkdtemp(prefix="cairn-regress-"))
    servers = []
    try:
        directory = lay_out(source, scratch)
        every = schedule(directory)
        if unknown := [name for name in names if name not in every]:
            raise SystemExit(f"no such file in the suite: {', '.join(unknown)}")
        order = [name for name in every if not names or name in names or name == "test_setup"]
        servers = [PostgreSQL(directory, scratch), Cairn(directory, scratch, cairn) if cairn else Running(directory, scratch)]
        for server in servers:
            server.start()
            server.create_database()
        results = dict(run(directory, order, servers, chosen.client_copy, quiet=chosen.check))
        if chosen.check:
            return 0 if check(directory, results) else 1
        if chosen.record:
            record(directory, results)
        if names:
            results = {name: outcomes for name, outcomes in results.items() if name in names}
        if chosen.json:
            as_json(results, servers)
            return 0
        if names:
            for name, outcomes in results.items():
                for outcome in outcomes:
                    if outcome.kind != IDENTICAL:
                        show(name, outcome)
        summary(results, chosen.features)
        if chosen.files:
            by_file(results, servers)
        for server in servers:
            if server.restarts:
                print(f"{server.name} ended and was started again {server.restarts} times")
        return 0
    finally:
        for server in servers:
            server.stop()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
