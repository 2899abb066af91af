-- The empty name is a schema that does not exist; a list that is none is refused when it is set.
set search_path = '';
show search_path;
select current_schemas(true), current_schemas(false), current_schema;
select count(*) > 0 from pg_class;
create table nowhere (a int);
set search_path = '', public;
show search_path;
create table somewhere (a int);
drop table somewhere;
reset search_path;
show search_path;
select set_config('search_path', 'a,,b', false);
select set_config('search_path', 'a b', false);
select set_config('search_path', '"a', false);
select set_config('search_path', '""', false);
select set_config('search_path', '', false);
show search_path;
reset search_path;
-- A function's own path, as restored dumps have it.
create function own_path() returns text language sql set search_path = '' as 'select current_setting(''search_path'')';
select own_path();
show search_path;
