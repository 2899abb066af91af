create table parent (id bigint generated always as identity primary key, name text not null unique, made timestamptz default now());
create table child (id serial, parent_id bigint references parent on delete cascade, kind varchar(20) check (kind in ('a', 'b')), amount numeric(10,2) default 0.00, flag boolean not null default false, primary key (id, kind));
create index child_parent on child (parent_id, amount desc) where flag;
create view children as select c.id, p.name from child c join parent p on p.id = c.parent_id;
\d
\dt
\di
\d parent
\d child
\d children
\d child_parent
\dv
\ds
\dn pub*
\d+ children
\dt nothing
\d nothing
select relname, relkind, relnatts from pg_class where relnamespace = 'public'::regnamespace order by relname;
select attname, atttypid::regtype, attnotnull, atthasdef, attidentity from pg_attribute where attrelid = 'parent'::regclass and attnum > 0 order by attnum;
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid in ('child'::regclass, 'parent'::regclass) order by conname;
select indexrelid::regclass, indisunique, indisprimary, pg_get_indexdef(indexrelid) from pg_index where indrelid = 'child'::regclass order by 1::text;
select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 'child'::regclass order by adnum;
select table_name, column_name, data_type, is_nullable, column_default from information_schema.columns where table_schema = 'public' and table_name = 'child' order by ordinal_position;
select table_name, table_type from information_schema.tables where table_schema = 'public' order by 1;
select constraint_name, constraint_type from information_schema.table_constraints where table_schema = 'public' and constraint_type <> 'CHECK' order by 1;
select typname, typcategory from pg_type where oid in (16, 20, 25, 1700) order by oid;
select format_type(atttypid, atttypmod) from pg_attribute where attrelid = 'child'::regclass and attnum > 0 order by attnum;
select tablename, indexname, indexdef from pg_indexes where schemaname = 'public' order by indexname;
select pg_get_viewdef('children'::regclass, true);
select pg_get_serial_sequence('parent', 'id'), pg_get_serial_sequence('child', 'id');
select nspname from pg_namespace where nspname !~ '^pg_temp' and nspname <> 'cairn' order by 1;
select 'parent'::regclass::oid = (select oid from pg_class where relname = 'parent');
select pg_table_is_visible('parent'::regclass), to_regclass('nothing'), to_regclass('parent');
select setting from pg_settings where name = 'standard_conforming_strings'; select current_setting('server_version_num')::int / 10000; show search_path; show nothing;
set nothing = 1; set datestyle = 'German'; select date '2026-01-02'; set timezone = 'Europe/Oslo'; select timestamptz '2026-07-01 00:00+00'; show timezone; set timezone = 'Nowhere'; set work_mem = 'x'; set statement_timeout = '2min'; show statement_timeout;
select current_setting('work_mem'), current_setting('no.such', true), set_config('my.setting', 'v', false), current_setting('my.setting');
