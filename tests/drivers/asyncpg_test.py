"""asyncpg against Cairn: binary protocol throughout, type introspection, prepared statements, COPY, cursors, pools."""
import asyncio
import datetime
import decimal
import json
import uuid

import asyncpg


async def main():
    connection = await asyncpg.connect()
    await connection.execute("create table job (id bigint generated always as identity primary key, queue text not null, payload jsonb,"
                             " run_at timestamptz not null default now(), tries int not null default 0)")
    await connection.execute("create type mood as enum ('sad', 'ok', 'happy')")

    # Values of every common type, in binary.
    values = [True, 7, 2**31 - 1, 2**62, 1.25, decimal.Decimal("-1234567890.00012"), "text \u2603", b"\x00\x01",
              uuid.UUID("12345678-1234-5678-1234-567812345678"), datetime.date(1999, 12, 31),
              datetime.time(1, 2, 3, 4), datetime.datetime(2026, 5, 5, 5, 5, 5, 5),
              datetime.datetime(2026, 5, 5, 5, 5, 5, 5, tzinfo=datetime.timezone.utc),
              datetime.timedelta(days=1, microseconds=7), [1, None, 3], ["a", None], '{"a": 1}', "happy"]
    row = await connection.fetchrow(
        "select $1::bool, $2::int2, $3::int4, $4::int8, $5::float8, $6::numeric, $7::text, $8::bytea, $9::uuid, $10::date, $11::time,"
        " $12::timestamp, $13::timestamptz, $14::interval, $15::int[], $16::text[], $17::jsonb, $18::mood", *values)
    assert list(row.values()) == values, list(row.values())

    # A statement that cannot be prepared: asyncpg waits for the error behind a Flush, before it says Sync.
    for _ in range(2):
        try:
            await asyncio.wait_for(connection.prepare("select nothing from nowhere"), 20)
            raise AssertionError("prepared")
        except asyncpg.UndefinedTableError:
            pass
    assert await connection.fetchval("select 1") == 1

    # A cached statement whose result has changed is prepared again.
    await connection.execute("create table reshaped (a int); insert into reshaped values (1)")
    assert [tuple(row) for row in await connection.fetch("select * from reshaped")] == [(1,)]
    await connection.execute("alter table reshaped add column b int")
    assert [tuple(row) for row in await connection.fetch("select * from reshaped")] == [(1, None)]

    # A job queue as applications write it, ten workers at once.
    await connection.executemany("insert into job (queue, payload) values ($1, $2)",
                                 [("mail", json.dumps({"n": n})) for n in range(200)])
    pool = await asyncpg.create_pool(min_size=10, max_size=10)

    async def worker():
        done = []
        async with pool.acquire() as own:
            while True:
                job = await own.fetchrow("delete from job where id = (select id from job where queue = $1 order by id"
                                         " for update skip locked limit 1) returning id, payload", "mail")
                if job is None:
                    return done
                done.append(json.loads(job["payload"])["n"])

    done = await asyncio.gather(*(worker() for _ in range(10)))
    assert sorted(n for one in done for n in one) == list(range(200))
    assert await connection.fetchval("select count(*) from job") == 0

    # Prepared statements, cursors, transactions, COPY.
    statement = await connection.prepare("select g, g * 1.5 as f from generate_series(1, $1::int) g")
    assert [column.name for column in statement.get_attributes()] == ["g", "f"]
    assert len(await statement.fetch(1000)) == 1000
    async with connection.transaction():
        seen = [record["g"] async for record in statement.cursor(500, prefetch=50)]
        assert seen == list(range(1, 501))
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.execute("insert into job (queue) values ('x')")
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert await connection.fetchval("select count(*) from job") == 0
    copied = await connection.copy_records_to_table("job", records=[("bulk", 1)] * 500, columns=["queue", "tries"])
    assert copied == "COPY 500"
    assert await connection.fetchval("select count(*) from job where queue = any($1::text[])", ["bulk", "none"]) == 500
    try:
        await connection.execute("insert into job (queue) values (null)")
    except asyncpg.NotNullViolationError as error:
        assert error.column_name == "queue" and error.table_name == "job"

    # A statement that takes too long is cancelled, and the connection lives on.
    try:
        await connection.execute("select pg_sleep(30)", timeout=0.3)
        raise AssertionError("the timeout did nothing")
    except asyncio.TimeoutError:
        pass
    assert await connection.fetchval("select 1") == 1

    # LISTEN.
    told = asyncio.Queue()
    await connection.add_listener("news", lambda _, pid, channel, payload: told.put_nowait((pid, channel, payload)))
    async with pool.acquire() as other:
        pid = await other.fetchval("select pg_backend_pid()")
        for n in range(100):
            await other.execute(f"notify news, '{n}'")
    assert [await asyncio.wait_for(told.get(), 10) for _ in range(100)] == [(pid, "news", str(n)) for n in range(100)]
    await connection.reset()
    await pool.close()
    await connection.close()
    print("asyncpg: passed")


asyncio.run(main())
