-- The setting timezone: by name, number, interval and POSIX rule; the same rules as words in values.
create table moments (t timestamptz);
insert into moments values ('2020-01-01 00:00Z'), ('2020-03-20 00:00Z'), ('2020-07-01 00:00Z');
set time zone 3; show timezone; select t, t::timestamp at time zone 'UTC' as utc from moments order by t;
set time zone -8.5; show timezone; select t from moments order by t;
set time zone interval '2:00' hour to minute; show timezone; select t from moments order by t;
set time zone interval '2' hour; show timezone;
set time zone interval '-08:00'; show timezone;
set time zone interval '0:00:07'; show timezone; select t from moments order by t;
set timezone = 'interval ''5:00'''; show timezone;
set time zone 'UTC+3'; show timezone; select t from moments order by t;
set time zone '+02:00'; show timezone; select t from moments order by t;
set time zone '<+03>-03'; show timezone; select t from moments order by t;
set time zone 'CET-1CEST,M3.5.0,M10.5.0/3'; show timezone; select t from moments order by t;
set time zone 'cet-1cest'; show timezone; select t from moments order by t;
set time zone 'xyz3abc2,J60/1:30,300/-2'; show timezone; select t from moments order by t;
set time zone 'xyz30'; select t from moments order by t;
set time zone '12abc'; show timezone;
set time zone 'Europe/Berlin'; show timezone; select t from moments order by t;
set time zone 'europe/BERLIN'; show timezone;
set time zone local; show timezone;
set datestyle = 'SQL';
set time zone '<+03>-03'; select t from moments order by t;
set time zone 'CET-1CEST,M3.5.0,M10.5.0/3'; select t, to_char(t, 'TZ OF TZH:TZM') from moments order by t;
set datestyle = 'Postgres';
set time zone 'a1'; select t from moments order by t;
set time zone '+02:00'; select t from moments order by t;
set datestyle = 'ISO';
-- Hours that summer time skips and repeats.
set time zone 'CET-1CEST,M3.5.0,M10.5.0/3';
select timestamptz '2020-03-29 02:30', timestamptz '2020-10-25 02:30', timestamptz '2020-03-29 01:00Z';
select timestamptz '2020-07-01 00:00' - timestamptz '2020-01-01 00:00', date_trunc('day', timestamptz '2020-07-01 00:00Z');
-- Refused.
set time zone 'foo';
set time zone ' utc';
set time zone '';
set time zone 200;
set time zone -168;
set time zone 'xyz168';
set time zone 'XYZ3,';
set time zone 'XYZ3ABC,M13.1.0,M1.1.0';
set time zone '<a>';
set time zone interval '1 month';
set time zone interval '1 day 2h';
set timezone = 'interval 5';
set timezone = 'interval ''x''';
set time zone 'a3:30:15';
show timezone;
select set_config('timezone', '5.5', false), current_setting('timezone');
select set_config('timezone', 'nowhere', false);
set time zone 'UTC';
select name, setting, reset_val from pg_settings where name = 'TimeZone';
-- In values and functions.
select timestamp '2020-01-01' at time zone 'a1', timestamp '2020-01-01' at time zone '<q>-4', timestamptz '2020-07-01 00:00Z' at time zone 'cet-1cest';
select timestamptz '2020-01-01 00:00Z' at time zone '+02:00', timezone('-03', timestamptz '2020-01-01 00:00Z');
select '2020-01-01 00:00 ab3'::timestamptz, '2020-01-01 00:00 XYZ+3'::timestamptz, '2020-07-01 00:00 CET-1CEST'::timestamptz, '2020-01-01 00:00 +02:00'::timestamptz;
select '2020-01-01 00:00 <+03>-3'::timestamptz;
select '2020-01-01 00:00 nowhere'::timestamptz;
select make_timestamptz(2020, 1, 1, 0, 0, 0, 'a1'), make_timestamptz(2020, 1, 1, 0, 0, 0, '<+03>-3');
select make_timestamptz(2020, 1, 1, 0, 0, 0, '');
select timestamp '2020-01-01' at time zone '';
-- Of functions, roles and transactions.
create function shown(timestamptz) returns text language sql stable set timezone = 'UTC+3' as 'select $1::text';
select shown('2020-01-01 00:00Z'), current_setting('timezone');
begin; set local time zone 5; select t from moments order by t limit 1; rollback; show timezone;
create role zone_role login; alter role zone_role set timezone = '<+03>-03';
select rolconfig from pg_roles where rolname = 'zone_role';
\c - zone_role
show timezone; set timezone = 'UTC'; reset timezone; show timezone;
\c - postgres
drop role zone_role;
