// node-postgres against Cairn: simple and extended protocol, types, transactions, COPY streams, cursors, pools.
const assert = require('node:assert');
const { pipeline } = require('node:stream/promises');
const { Readable } = require('node:stream');
const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');
const { from: copyFrom } = require('pg-copy-streams');

async function main() {
  const client = new Client();
  await client.connect();
  await client.query(`create table person (id serial primary key, name varchar(20) not null, born date, meta json, scores int[],
                      balance numeric default 0 check (balance >= 0))`);

  const inserted = await client.query(
    'insert into person (name, born, meta, scores, balance) values ($1, $2, $3, $4, $5) returning *',
    ['Ada', '1815-12-10', { first: true }, [1, 2, 3], '10.50']);
  assert.deepStrictEqual(inserted.rows[0].meta, { first: true });
  assert.deepStrictEqual(inserted.rows[0].scores, [1, 2, 3]);
  assert.strictEqual(inserted.rows[0].balance, '10.50');
  assert.strictEqual(inserted.fields.find((field) => field.name === 'name').dataTypeID, 1043);

  // Several statements in one simple query; array rows; named prepared statement.
  const several = await client.query('select 1 as a; select 2 as b, null as c; insert into person (name) values (\'Bob\')');
  assert.deepStrictEqual(several.map((result) => result.command), ['SELECT', 'SELECT', 'INSERT']);
  for (let n = 0; n < 5; n += 1) {
    const result = await client.query({ name: 'by-id', text: 'select name from person where id = $1', values: [1], rowMode: 'array' });
    assert.deepStrictEqual(result.rows, [['Ada']]);
  }

  // Errors carry PostgreSQL's fields, and a failed transaction says so.
  await client.query('begin');
  await assert.rejects(client.query('update person set balance = -1 where id = 1'),
    (error) => error.code === '23514' && error.constraint === 'person_balance_check' && error.table === 'person');
  await assert.rejects(client.query('select 1'), { code: '25P02' });
  await client.query('rollback');
  await assert.rejects(client.query("insert into person (name) values ('a name much longer than twenty')"), { code: '22001' });

  // COPY, cursors, a pool under load.
  await client.query('create table line (n int, text text)');
  const rows = Array.from({ length: 5000 }, (_, n) => `${n}\tline ${n}\n`);
  await pipeline(Readable.from(rows), client.query(copyFrom('copy line from stdin')));
  const cursor = client.query(new Cursor('select n from line order by n desc limit $1', [250]));
  let seen = 0;
  for (let batch = await cursor.read(100); batch.length > 0; batch = await cursor.read(100)) seen += batch.length;
  await cursor.close();
  assert.strictEqual(seen, 250);
  const pool = new Pool({ max: 8 });
  await Promise.all(Array.from({ length: 200 }, () => pool.query('update person set balance = balance + 1 where id = $1', [1])));
  assert.strictEqual((await pool.query('select balance from person where id = 1')).rows[0].balance, '210.50');
  const when = await pool.query("select timestamptz '2026-01-02 03:04:05+00' as t, interval '1 day 2 hours' as i, true as b, 'x'::bytea as r");
  assert.strictEqual(when.rows[0].t.toISOString(), '2026-01-02T03:04:05.000Z');
  assert.strictEqual(when.rows[0].i.days, 1);
  assert.ok(Buffer.isBuffer(when.rows[0].r));

  // LISTEN.
  const told = [];
  const heard = new Promise((resolve) => client.on('notification', (message) => {
    told.push([message.channel, message.payload]);
    if (told.length === 2) resolve();
  }));
  await client.query('listen news');
  await pool.query("notify news, 'from elsewhere'");
  await client.query("select pg_notify('news', 'from myself')");
  await heard;
  assert.deepStrictEqual(told, [['news', 'from elsewhere'], ['news', 'from myself']]);
  await pool.end();
  await client.end();
  console.log('node-postgres: passed');
}

main().catch((error) => { console.error(error); process.exit(1); });
