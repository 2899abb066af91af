-- An extension whose functions are not there is refused: who asks for it would miss them later.
create extension pgcrypto;
create extension if not exists "uuid-ossp";
create extension if not exists pg_trgm with schema public cascade;
create extension nonsense;
create extension if not exists plpgsql;
create extension orafce;
create extension orafce;
select extname from pg_extension where extname <> 'cairn' order by 1;
select name, default_version, installed_version from pg_available_extensions order by 1;
drop extension orafce;
select extname from pg_extension where extname <> 'cairn' order by 1;
