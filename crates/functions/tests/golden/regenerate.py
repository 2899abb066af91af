#!/usr/bin/env python3
"""Asks a PostgreSQL 15 what each call of inputs/*.txt returns; writes expected/*.tsv. usage: regenerate.py [port]

Input lines: `prosrc | type: value ;; value | type: value ...` call the function with that prosrc and those
argument types with every combination of the values (\\N is null); `set name = value` holds for the lines
below; `aggregate name | type: v ;; v | ...` calls an aggregate over the rows that the columns' values make.
`oid number` instead of a prosrc names a function in language sql.
The rows of a set-returning function are shown one after the other, ` ;; ` between.
Output lines: prosrc, result type oid, expected text, then `type oid=value` per argument, joined by tabs.
"""
import itertools, pathlib, subprocess, sys

here = pathlib.Path(__file__).parent
port = sys.argv[1] if len(sys.argv) > 1 else "5499"


def psql(script):
    run = subprocess.run(["psql", "-h", "127.0.0.1", "-p", port, "-U", "postgres", "-X", "-q", "-v", "ON_ERROR_STOP=1"],
                         input=script, text=True, capture_output=True)
    if run.returncode:
        sys.exit(run.stderr)
    return run.stdout


quote = lambda s: "'" + s.replace("'", "''") + "'"
PRELUDE = r"""
\pset tuples_only on
\pset format unaligned
set search_path = pg_catalog;
create function pg_temp.attempt(q text) returns text language plpgsql as $$
declare r text; d text; h text;
begin
  execute 'select (' || q || ')::text' into r;
  return coalesce(replace(replace(replace(r, E'\\', E'\\\\'), E'\t', E'\\t'), E'\n', E'\\n'), '\N');
exception when others then
  get stacked diagnostics d = pg_exception_detail, h = pg_exception_hint;
  return 'ERROR ' || sqlstate || ' ' || sqlerrm || case when d <> '' then ' DETAIL ' || d else '' end
    || case when h <> '' then ' HINT ' || h else '' end;
end $$;
create function pg_temp.call(source text, types regtype[], vals text[]) returns text language plpgsql as $$
declare p record; q text := ''; shown text := '';
begin
  select proname, prorettype, proargtypes, provariadic, proretset into p from pg_proc
   where prosrc = source and prolang = 12 and proargtypes = array_to_string(types::oid[]::text[], ' ')::oidvector;
  if not found then
    select proname, prorettype, proargtypes, provariadic, proretset into p from pg_proc where prosrc = source and prolang = 12 and pronargs = cardinality(types);
  end if;
  if not found then
    select proname, prorettype, proargtypes, provariadic, proretset into p from pg_proc where prosrc = source and prolang = 12 and provariadic = '"any"'::regtype;
  end if;
  if not found and source not like 'oid %' then raise exception 'no function % %', source, types; end if;
  if source like 'oid %' then
    select proname, prorettype, proargtypes, provariadic, proretset into p from pg_proc where oid = substr(source, 5)::oid;
  end if;
  for i in 1 .. cardinality(types) loop
    q := q || case when i > 1 then ', ' else '' end
      || case when i = cardinality(types) and p.provariadic not in (0, '"any"'::regtype) then 'variadic ' else '' end
      || coalesce(quote_literal(vals[i]), 'null') || '::' || types[i];
    shown := shown || E'\t' || types[i]::oid || '=' || coalesce(vals[i], '\N');
  end loop;
  q := 'pg_catalog.' || quote_ident(p.proname) || '(' || q || ')';
  if p.proretset then
    q := 'select string_agg(coalesce(r::text, ''\N''), '' ;; '') from ' || q || ' r';
  end if;
  return source || E'\t' || p.prorettype || E'\t' || pg_temp.attempt(q) || shown;
end $$;
"""


def alternatives(part):
    kind, values = part.split(":", 1)
    return kind.strip(), [None if v.strip() == "\\N" else v.strip(" ") for v in values.split(";;")]


def array(items):
    return "array[" + ", ".join("null" if i is None else quote(i) for i in items) + "]::"


for source in sorted((here / "inputs").glob("*.txt")):
    script = [PRELUDE]
    for line in source.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("set "):
            script += [f"{line};", f"select {quote(line)};"]
            continue
        name, *parts = line.split(" | ")
        name = name.strip()
        parts = [alternatives(part) for part in parts]
        kinds = [kind for kind, _ in parts]
        if name.startswith("aggregate "):
            name = name.removeprefix("aggregate ").strip()
            rows = list(itertools.zip_longest(*(values for _, values in parts)))
            literals = ", ".join("(" + ", ".join("null" if v is None else quote(v) for v in row) + ")" for row in rows)
            columns = ", ".join(f"x{i}::{kind}" for i, kind in enumerate(kinds))
            names = ", ".join(f"x{i}" for i in range(len(kinds)))
            source_rows = f"from (values {literals}) v({names})"
            result = f"(select {name}({columns}) {source_rows})"
            kind_of = f"(select pg_typeof({name}({columns}))::oid {source_rows})"
            shown = "".join(f" || E'\\t' || {quote(kind)}::regtype::oid || '=' || "
                            + quote(" ;; ".join("\\N" if v is None else v for v in values)) for kind, values in parts)
            script.append(f"select {quote('aggregate ' + name)} || E'\\t' || pg_temp.attempt({quote(kind_of)})"
                          f" || E'\\t' || pg_temp.attempt({quote(result)}){shown};")
            continue
        if name.startswith("ordered "):
            name = name.removeprefix("ordered ").strip()
            (direct_kind, directs), (kind, values) = parts
            literals = ", ".join("(" + ("null" if v is None else quote(v)) + ")" for v in values)
            shown = f" || E'\\t' || {quote(kind)}::regtype::oid || '=' || " + quote(
                " ;; ".join("\\N" if v is None else v for v in values))
            for direct in directs:
                none = direct_kind == "-"
                argument = "" if none else ("null" if direct is None else quote(direct)) + f"::{direct_kind}"
                call = f"{name}({argument}) within group (order by x::{kind}) from (values {literals}) v(x)"
                given = "'-'" if none else f"{quote(direct_kind)}::regtype::oid || '=' || {quote(direct or chr(92) + 'N')}"
                script.append(f"select {quote('ordered ' + name)} || E'\\t' || pg_temp.attempt({quote(f'(select pg_typeof(x)::oid from (select {call}) v(x))')})"
                              f" || E'\\t' || pg_temp.attempt({quote(f'(select {call})')}) || E'\\t' || {given}{shown};")
            continue
        for values in itertools.product(*(values for _, values in parts)):
            types = "array[" + ", ".join(quote(k) for k in kinds) + "]::regtype[]"
            script.append(f"select pg_temp.call({quote(name)}, {types}, {array(values)}text[]);")
    (here / "expected").mkdir(exist_ok=True)
    (here / "expected" / (source.stem + ".tsv")).write_text(psql("\n".join(script)))
