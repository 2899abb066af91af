-- Plans that need the values of parameters get them: partial indexes, indexed expressions with constants, LIKE prefixes.
create table job (id int primary key, state text, kind text, body jsonb, name text);
create index job_queued on job (kind) where state = 'queued';
create index job_body on job ((body ->> 'k'));
create index job_name on job (name);
insert into job select i, case when i%10=0 then 'queued' else 'done' end, 'k'||i%7, jsonb_build_object('k', 'v'||i), 'name'||i from generate_series(1,1000) i;
explain (costs off) select id from job where state='queued' and kind='k1';
prepare p(text,text) as select id from job where state=$1 and kind=$2;
explain (costs off) execute p('queued','k1');
explain (costs off) execute p('done','k1');
prepare b(text,text) as select id from job where body ->> $1 = $2;
explain (costs off) execute b('k','v3');
explain (costs off) execute b('j','v3');
execute b('k','v3');
prepare l(text) as select id from job where name like $1;
explain (costs off) execute l('name99%');
execute l('name999%');
execute l('%999');
select id from job where state='queued' and kind='k1' and id<100;
select id from job where state='queued' and kind='k2' and id<100;
select id from job where state='done' and kind='k2' and id<20;
-- In functions too.
create function named(text) returns setof int language sql as 'select id from job where name like $1';
select named('name99_');
do $$ declare n int; s text := 'queued'; begin for i in 1..3 loop select count(*) into n from job where state = s and kind = 'k1'; raise notice '% %', s, n; s := 'done'; end loop; end $$;
create view queued as select * from job where state = 'queued';
prepare v(text) as select id from queued where kind = $1;
explain (costs off) execute v('k1');
-- An index made later is used by what was prepared before.
prepare w(text) as select id from job where body ->> 'other' = $1;
explain (costs off) execute w('x');
select id from job where body ->> 'other' = 'x';
create index job_other on job ((body ->> 'other'));
explain (costs off) execute w('x');
execute w('x');
select id from job where body ->> 'other' = 'x';
