-- What a transaction begins with: default_transaction_* by every way in which they can be set.
show transaction_isolation; show transaction_deferrable;
set default_transaction_isolation = 'serializable';
show transaction_isolation;
begin; show transaction_isolation; commit;
begin isolation level read committed; show transaction_isolation; commit;
reset default_transaction_isolation;
begin; show transaction_isolation; commit;
set session characteristics as transaction isolation level serializable, read only, deferrable;
show default_transaction_isolation; show default_transaction_read_only; show default_transaction_deferrable;
show transaction_deferrable;
begin; show transaction_isolation; show transaction_read_only; show transaction_deferrable; commit;
begin read write not deferrable; show transaction_isolation; show transaction_read_only; show transaction_deferrable; commit and chain;
show transaction_isolation; show transaction_read_only; show transaction_deferrable; commit;
reset all;
begin; show transaction_isolation; show transaction_read_only; show transaction_deferrable; commit;
set default_transaction_isolation = 'repeatable read'; set default_transaction_deferrable = on;
begin; show transaction_isolation; show transaction_deferrable; rollback;
begin; set local default_transaction_isolation = 'serializable'; commit;
begin; show transaction_isolation; commit;
select set_config('default_transaction_isolation', 'SERIALIZABLE', false);
begin; show transaction_isolation; commit;
set default_transaction_isolation = 'snapshot';
reset all;
-- Of a role, of a database, of both, and of the connection.
create role defaults_role login;
alter role defaults_role set default_transaction_isolation = 'serializable';
alter role defaults_role set default_transaction_deferrable = on;
select current_database() as here \gset
\c - defaults_role
begin; show transaction_isolation; show transaction_read_only; show transaction_deferrable; commit;
\c - postgres
alter role defaults_role reset all;
alter database :here set default_transaction_isolation = 'serializable';
alter database :here set default_transaction_read_only = on;
\c - defaults_role
begin; show transaction_isolation; show transaction_read_only; show transaction_deferrable; commit;
reset default_transaction_isolation; show default_transaction_isolation;
create table refused (a int);
\c - postgres
set default_transaction_read_only = off;
alter database :here reset all;
alter role defaults_role in database :here set default_transaction_isolation = 'serializable';
\c - defaults_role
begin; show transaction_isolation; commit;
\c "dbname=postgres options='-c default_transaction_isolation=serializable -c default_transaction_deferrable=on'"
begin; show transaction_isolation; show transaction_deferrable; commit;
\c :here postgres
drop role defaults_role;
