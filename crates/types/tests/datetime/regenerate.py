#!/usr/bin/env python3
"""Asks a PostgreSQL 15 for the output of every line of inputs.txt; writes expected.tsv. usage: regenerate.py [port]"""
import pathlib, subprocess, sys

here = pathlib.Path(__file__).parent
port = sys.argv[1] if len(sys.argv) > 1 else "5499"
script = [
    "\\set QUIET on", "\\pset tuples_only on", "\\pset format unaligned", "\\pset fieldsep ''",
    """create function pg_temp.attempt(t text, v text) returns text language plpgsql as $$
    declare r text; h text; begin execute format('select %L::%s::text', v, t) into r; return r;
    exception when others then get stacked diagnostics h = pg_exception_hint;
    return 'ERROR ' || sqlstate || ' ' || sqlerrm || case when h <> '' then ' HINT ' || h else '' end; end $$;""",
]
quote = lambda s: "'" + s.replace("'", "''") + "'"
for line in (here / "inputs.txt").read_text().splitlines():
    if line.startswith("#"):
        continue
    if line.startswith("set "):
        script += [f"{line};", f"select {quote(line)};"]
    else:
        kind, text = line.split("|", 1)
        script.append(f"select {quote(kind)} || E'\\t' || {quote(text)} || E'\\t' || pg_temp.attempt({quote(kind)}, {quote(text)});")
out = subprocess.run(["psql", "-h", "127.0.0.1", "-p", port, "-U", "postgres", "-X", "-q", "-v", "ON_ERROR_STOP=1"],
                     input="\n".join(script), text=True, capture_output=True)
if out.returncode:
    sys.exit(out.stderr)
(here / "expected.tsv").write_text(out.stdout)
