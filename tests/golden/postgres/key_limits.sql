-- Keys that are too long are refused, wherever they would be written. Long texts that compress well are not.
\set VERBOSITY sqlstate
create table k (p text primary key, u text unique, n int);
insert into k select repeat('z', 200000), null, 1;
insert into k select 'u', repeat('z', 200000), 2;
insert into k select repeat('z', 20000000), null, 3;
insert into k select 'v', repeat('z', 20000000), 3;
insert into k select repeat('z', 20000000), null, 3 on conflict (p) do update set n = 4;
insert into k select 'v', repeat('z', 20000000), 3 on conflict (u) do nothing;
update k set p = repeat('y', 20000000) where n = 1;
update k set u = repeat('y', 20000000) where n = 1;
select length(p), length(u), n from k order by n;
select count(*) from k where p >= repeat('z', 20000000);
select count(*) from k where p = repeat('z', 20000000) or u = repeat('z', 20000000);
create table h (id int, p text);
insert into h select 1, repeat('z', 20000000);
create index on h (p);
create unique index on h (id, p);
create index on h ((p || 'x'));
alter table h add primary key (p);
alter table h add unique (p);
create index on h (md5(p));
create index part on h (p) where id > 1;
insert into h select 2, repeat('z', 20000000);
update h set id = 2;
select id, length(p) from h order by id;
drop table k, h;
