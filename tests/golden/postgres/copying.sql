create table c (a int, b text, d date default '2026-01-01', e numeric(5,2));
copy c (a, b) from stdin;
1	one
2	tab\there
3	\N
4	back\\slash\nline
\.
copy c from stdin with (format csv, header, null 'NULL');
a,b,d,e
5,"quoted, ""text""",2026-02-02,1.5
6,NULL,2026-03-03,NULL
7,"",2026-03-03,2
\.
copy c to stdout;
copy c to stdout (format csv, header, force_quote (b));
copy (select a, upper(b) from c where a < 4 order by a desc) to stdout with delimiter '|' null '~';
copy c (a, b) to stdout csv quote '''' escape '\';
copy c from stdin;
x	y
\.
copy c (a) from stdin;
1	2
\.
copy c (a, b) from stdin;
9
\.
-- From a file: what stands behind a COPY FROM STDIN that was refused is data for psql 15.20 and SQL for those before.
\copy c (a, nope) from '/dev/null'
\copy nowhere from '/dev/null'
copy c (e) from stdin;
1234567
\.
begin; truncate c; copy c from stdin with (freeze on);
1	frozen	2026-01-01	1
\.
commit;
select * from c;
create table k (id int primary key);
copy k from stdin;
1
2
1
\.
select count(*) from k;
