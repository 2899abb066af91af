"""psycopg 3 against Cairn: parameters in text and binary, types, pipelining, COPY, errors, cursors, savepoints."""
import datetime
import decimal
import uuid

import psycopg
from psycopg.types.json import Jsonb

connection = psycopg.connect("", autocommit=True)
run = connection.execute

run("create table item (id bigint generated always as identity primary key, name text not null unique, price numeric(10,2),"
    " tags text[], attributes jsonb, created timestamptz default now(), code uuid, raw bytea, active bool default true)")

# Values of every common type survive the way there and back, in text and in binary.
code = uuid.uuid4()
moment = datetime.datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=datetime.timezone.utc)
for binary in (False, True):
    cursor = connection.cursor(binary=binary)
    values = (7, 2**40, 1.5, decimal.Decimal("12345678901234567890.123450"), "snow \u2603 man", True, b"\x00\xff\x10", code,
              datetime.date(2026, 2, 28), datetime.time(23, 59, 59, 999999), moment,
              datetime.timedelta(days=3, seconds=5), [1, 2, None], ["a", 'b"c', None], None)
    row = cursor.execute(
        "select %s::int, %s::bigint, %s::float8, %s::numeric, %s::text, %s::bool, %s::bytea, %s::uuid, %s::date, %s::time,"
        " %s::timestamptz, %s::interval, %s::int[], %s::text[], %s::int", values).fetchone()
    assert row == values, (binary, row)

# Insert with returning, executemany, Jsonb, server-side types.
inserted = run("insert into item (name, price, tags, attributes, code, raw) values (%s, %s, %s, %s, %s, %s) returning id, price, active",
               ("first", decimal.Decimal("19.99"), ["x", "y"], Jsonb({"b": [1, 2], "a": None}), code, b"abc")).fetchone()
assert inserted == (1, decimal.Decimal("19.99"), True), inserted
with connection.cursor() as cursor:
    cursor.executemany("insert into item (name, price) values (%s, %s)", [(f"item {n}", n) for n in range(2, 202)])
    assert cursor.rowcount == 200
    attributes, = cursor.execute("select attributes from item where id = 1").fetchone()
    assert attributes == {"a": None, "b": [1, 2]}

# Pipelining.
with connection.pipeline():
    cursors = [run("select %s::int * 2", (n,)) for n in range(50)]
assert [cursor.fetchone()[0] for cursor in cursors] == [n * 2 for n in range(50)]

# Transactions, savepoints, errors with their fields.
with connection.transaction():
    run("update item set price = 0 where id = 1")
    try:
        with connection.transaction():
            run("insert into item (name) values ('first')")
        raise AssertionError("the duplicate was accepted")
    except psycopg.errors.UniqueViolation as error:
        assert error.diag.constraint_name == "item_name_key", error.diag.constraint_name
        assert error.diag.message_detail == "Key (name)=(first) already exists.", error.diag.message_detail
assert run("select price from item where id = 1").fetchone() == (decimal.Decimal("0.00"),)
try:
    run("select * from nowhere")
except psycopg.errors.UndefinedTable as error:
    assert error.diag.statement_position == "15"

# COPY both ways, text and binary.
with connection.cursor() as cursor:
    run("create table copied (a int, b text, c timestamptz)")
    with cursor.copy("copy copied from stdin") as copy:
        for n in range(1000):
            copy.write_row((n, f"tab\t{n}\nline" if n % 3 else None, moment))
    with cursor.copy("copy copied from stdin (format binary)") as copy:
        copy.set_types(["int4", "text", "timestamptz"])
        for n in range(1000, 2000):
            copy.write_row((n, "b", moment))
    assert run("select count(*), count(b), sum(a) from copied").fetchone() == (2000, 1666, 1999000)
    with cursor.copy("copy (select a, b from copied where a < 3 order by a) to stdout") as copy:
        copy.set_types(["int4", "text"])
        assert list(copy.rows()) == [(0, None), (1, "tab\t1\nline"), (2, "tab\t2\nline")]

# Server-side cursors and prepared statements.
with connection.transaction():
    with connection.cursor(name="walk") as cursor:
        cursor.itersize = 100
        cursor.execute("select id from item order by id")
        assert [row[0] for row in cursor] == list(range(1, 202))
for n in range(20):
    assert run("select name from item where id = %s", (n + 2,), prepare=True).fetchone() == (f"item {n + 2}",)

# A notice arrives; the session's state is as told.
notices = []
connection.add_notice_handler(lambda diagnostic: notices.append(diagnostic.message_primary))
run("drop table if exists nowhere")
assert notices == ['table "nowhere" does not exist, skipping'], notices
assert connection.info.server_version // 10000 == 15
assert connection.info.parameter_status("standard_conforming_strings") == "on"

# LISTEN and NOTIFY: an idle session is told at once, in the order of the commits; a busy one when its block ends.
listener = psycopg.connect(autocommit=True)
listener.execute("listen jobs")
assert listener.execute("select * from pg_listening_channels()").fetchall() == [("jobs",)]
with connection.transaction():
    run("notify jobs, 'one'")
    run("notify jobs, 'one'")
    run("select pg_notify('jobs', 'two'), pg_notify('elsewhere', 'not heard')")
    try:
        with connection.transaction():
            run("notify jobs, 'never'")
            raise psycopg.Rollback
    except psycopg.Rollback:
        pass
heard = [(told.channel, told.payload, told.pid) for told in listener.notifies(timeout=10, stop_after=2)]
assert heard == [("jobs", "one", connection.info.backend_pid), ("jobs", "two", connection.info.backend_pid)], heard
with listener.transaction():
    listener.execute("select 1")
    run("notify jobs, 'three'")
    assert list(listener.notifies(timeout=0.3)) == []
    listener.execute("select 2")
assert [told.payload for told in listener.notifies(timeout=10, stop_after=1)] == ["three"]
listener.execute("unlisten jobs")
run("notify jobs, 'four'")
assert list(listener.notifies(timeout=0.2)) == []
listener.close()
connection.close()
print("psycopg: passed")
