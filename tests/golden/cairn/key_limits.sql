-- The longest key has 4 MB.
create table k (p text primary key, n int);
create index on k (n, p);
insert into k select repeat('z', 4194303 - 8), 1;
insert into k select repeat('z', 4194304), 2;
update k set n = 3;
select length(p), n from k;
drop table k;
