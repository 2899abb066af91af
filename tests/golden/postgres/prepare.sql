-- Types of parameters: given, inferred, or not to be found.
\set VERBOSITY default
prepare unmentioned as select $2;
prepare unmentioned as select $2::int;
prepare unmentioned (int) as select $2::int;
prepare given (int, unknown) as select $1, $2;
prepare given (int, text) as select $2;
execute given (1, 'a');
prepare untyped as select $1 is null;
prepare plain as select $1;
execute plain ('a');
prepare twice as select $1 + 1, $1 || 'a';
prepare gap as select $1::int, $3::int;
prepare far as select $0;
\set VERBOSITY default
select name, parameter_types, statement from pg_prepared_statements order by name;
execute given;
execute given (1);
execute given (1, 2, 3);
execute given ('x', 'y');
execute nothing;
deallocate given;
deallocate given;
prepare given as insert into nothing values ($1);
create table nothing (a int, b text);
prepare given as insert into nothing values ($1, $2) returning *;
execute given (1, 'x');
execute given ('2', 3);
execute given ('two', 3);
prepare given as select 1;
alter table nothing add column c int default 7;
execute given (4, 'y');
deallocate all;
select count(*) from pg_prepared_statements;
