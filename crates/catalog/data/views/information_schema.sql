-- The information schema (SQL standard part 11; manual, chapter 37).
--
-- A view lists the columns that it computes; the others of its columns (data/pg_attribute.tsv) are null. Each column is
-- cast to its declared type (sql_identifier, cardinal_number, ...) when the view is built: see src/views.rs.

create view information_schema_catalog_name (catalog_name) as
select current_database();

create view schemata (catalog_name, schema_name, schema_owner) as
select current_database(), n.nspname, u.rolname
from pg_namespace n join pg_authid u on u.oid = n.nspowner
where pg_has_role(n.nspowner, 'USAGE') or has_schema_privilege(n.oid, 'CREATE, USAGE');

create view tables (table_catalog, table_schema, table_name, table_type, is_insertable_into, is_typed) as
select current_database(), n.nspname, c.relname,
       case when n.oid = pg_my_temp_schema() then 'LOCAL TEMPORARY' when c.relkind in ('r', 'p') then 'BASE TABLE'
            when c.relkind = 'v' then 'VIEW' when c.relkind = 'f' then 'FOREIGN' end,
       case when c.relkind in ('r', 'p') or pg_relation_is_updatable(c.oid, false) & 8 = 8 then 'YES' else 'NO' end, 'NO'
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'v', 'f', 'p') and not pg_is_other_temp_schema(n.oid)
  and (pg_has_role(c.relowner, 'USAGE')
       or has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
       or has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE, REFERENCES'));

create view columns (table_catalog, table_schema, table_name, column_name, ordinal_position, column_default, is_nullable,
    data_type, character_maximum_length, character_octet_length, numeric_precision, numeric_precision_radix,
    numeric_scale, datetime_precision, interval_type, collation_catalog,
    collation_schema, collation_name, domain_catalog, domain_schema, domain_name, udt_catalog, udt_schema, udt_name,
    dtd_identifier, is_self_referencing, is_identity, identity_generation, identity_start, identity_increment,
    identity_maximum, identity_minimum, identity_cycle, is_generated, generation_expression, is_updatable) as
select current_database(), n.nspname, c.relname, a.attname, a.attnum,
       case when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end,
       case when a.attnotnull or (t.typtype = 'd' and t.typnotnull) then 'NO' else 'YES' end,
       case when b.typelem <> 0 and b.typlen = -1 then 'ARRAY'
            when nb.nspname = 'pg_catalog' then format_type(b.oid, null) else 'USER-DEFINED' end,
       information_schema._pg_char_max_length(b.oid, case when t.typtype = 'd' then t.typtypmod else a.atttypmod end),
       information_schema._pg_char_octet_length(b.oid, case when t.typtype = 'd' then t.typtypmod else a.atttypmod end),
       information_schema._pg_numeric_precision(b.oid, case when t.typtype = 'd' then t.typtypmod else a.atttypmod end),
       information_schema._pg_numeric_precision_radix(b.oid, case when t.typtype = 'd' then t.typtypmod else a.atttypmod end),
       information_schema._pg_numeric_scale(b.oid, case when t.typtype = 'd' then t.typtypmod else a.atttypmod end),
       information_schema._pg_datetime_precision(b.oid, case when t.typtype = 'd' then t.typtypmod else a.atttypmod end),
       information_schema._pg_interval_type(b.oid, case when t.typtype = 'd' then t.typtypmod else a.atttypmod end),
       case when nl.nspname is not null then current_database() end, nl.nspname, l.collname,
       case when t.typtype = 'd' then current_database() end, case when t.typtype = 'd' then nt.nspname end,
       case when t.typtype = 'd' then t.typname end, current_database(), nb.nspname, b.typname, a.attnum, 'NO',
       case when a.attidentity in ('a', 'd') then 'YES' else 'NO' end,
       case a.attidentity when 'a' then 'ALWAYS' when 'd' then 'BY DEFAULT' end,
       s.seqstart, s.seqincrement, s.seqmax, s.seqmin, case when s.seqcycle then 'YES' else 'NO' end,
       case when a.attgenerated = '' then 'NEVER' else 'ALWAYS' end,
       case when a.attgenerated <> '' then pg_get_expr(d.adbin, d.adrelid) end,
       case when c.relkind in ('r', 'p') or pg_column_is_updatable(c.oid, a.attnum, false) then 'YES' else 'NO' end
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
     join pg_type t on t.oid = a.atttypid join pg_namespace nt on nt.oid = t.typnamespace
     join pg_type b on b.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
     join pg_namespace nb on nb.oid = b.typnamespace
     left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     left join pg_collation l on l.oid = a.attcollation and l.collname <> 'default'
     left join pg_namespace nl on nl.oid = l.collnamespace
     left join pg_depend i on i.refclassid = 1259 and i.refobjid = a.attrelid and i.refobjsubid = a.attnum
          and i.classid = 1259 and i.deptype = 'i'
     left join pg_sequence s on s.seqrelid = i.objid
where a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'v', 'f', 'p') and not pg_is_other_temp_schema(n.oid)
  and (pg_has_role(c.relowner, 'USAGE')
       or has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES'));

create view views (table_catalog, table_schema, table_name, view_definition, check_option, is_updatable,
    is_insertable_into, is_trigger_updatable, is_trigger_deletable, is_trigger_insertable_into) as
select current_database(), n.nspname, c.relname,
       case when pg_has_role(c.relowner, 'USAGE') then pg_get_viewdef(c.oid) end,
       case when 'check_option=cascaded' = any (c.reloptions) then 'CASCADED'
            when 'check_option=local' = any (c.reloptions) then 'LOCAL' else 'NONE' end,
       case when pg_relation_is_updatable(c.oid, false) & 20 = 20 then 'YES' else 'NO' end,
       case when pg_relation_is_updatable(c.oid, false) & 8 = 8 then 'YES' else 'NO' end, 'NO', 'NO', 'NO'
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'v' and not pg_is_other_temp_schema(n.oid)
  and (pg_has_role(c.relowner, 'USAGE')
       or has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
       or has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE, REFERENCES'));

create view table_constraints (constraint_catalog, constraint_schema, constraint_name, table_catalog, table_schema,
    table_name, constraint_type, is_deferrable, initially_deferred, enforced, nulls_distinct) as
select current_database(), nk.nspname, k.conname::text, current_database(), n.nspname, c.relname,
       case k.contype when 'c' then 'CHECK' when 'f' then 'FOREIGN KEY' when 'p' then 'PRIMARY KEY'
                      when 'u' then 'UNIQUE' end,
       case when k.condeferrable then 'YES' else 'NO' end, case when k.condeferred then 'YES' else 'NO' end, 'YES',
       case when k.contype = 'u'
            then (select case when i.indnullsnotdistinct then 'NO' else 'YES' end from pg_index i
                  where i.indexrelid = k.conindid) end
from pg_constraint k join pg_namespace nk on nk.oid = k.connamespace join pg_class c on c.oid = k.conrelid
     join pg_namespace n on n.oid = c.relnamespace
where k.contype in ('c', 'f', 'p', 'u') and c.relkind in ('r', 'p') and not pg_is_other_temp_schema(n.oid)
  and (pg_has_role(c.relowner, 'USAGE')
       or has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
       or has_any_column_privilege(c.oid, 'INSERT, UPDATE, REFERENCES'))
union all
select current_database(), n.nspname, n.oid || '_' || c.oid || '_' || a.attnum || '_not_null', current_database(),
       n.nspname, c.relname, 'CHECK', 'NO', 'NO', 'YES', null
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
where a.attnotnull and a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p')
  and not pg_is_other_temp_schema(n.oid)
  and (pg_has_role(c.relowner, 'USAGE')
       or has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
       or has_any_column_privilege(c.oid, 'INSERT, UPDATE, REFERENCES'));

create view key_column_usage (constraint_catalog, constraint_schema, constraint_name, table_catalog, table_schema,
    table_name, column_name, ordinal_position, position_in_unique_constraint) as
select current_database(), nk.nspname, k.conname, current_database(), n.nspname, c.relname, a.attname, u.position,
       case when k.contype = 'f'
            then (select p.position from pg_index i, unnest(i.indkey) with ordinality p(attnum, position)
                  where i.indexrelid = k.conindid and p.attnum = k.confkey[u.position]) end
from pg_constraint k cross join lateral unnest(k.conkey) with ordinality u(attnum, position)
     join pg_namespace nk on nk.oid = k.connamespace join pg_class c on c.oid = k.conrelid
     join pg_namespace n on n.oid = c.relnamespace
     join pg_attribute a on a.attrelid = k.conrelid and a.attnum = u.attnum
where k.contype in ('p', 'u', 'f') and c.relkind in ('r', 'p') and not pg_is_other_temp_schema(n.oid)
  and (pg_has_role(c.relowner, 'USAGE')
       or has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES'));

create view referential_constraints (constraint_catalog, constraint_schema, constraint_name, unique_constraint_catalog,
    unique_constraint_schema, unique_constraint_name, match_option, update_rule, delete_rule) as
select current_database(), nk.nspname, k.conname, case when p.oid is not null then current_database() end, np.nspname,
       p.conname, case k.confmatchtype when 'f' then 'FULL' when 'p' then 'PARTIAL' when 's' then 'NONE' end,
       case k.confupdtype when 'c' then 'CASCADE' when 'n' then 'SET NULL' when 'd' then 'SET DEFAULT'
                          when 'r' then 'RESTRICT' when 'a' then 'NO ACTION' end,
       case k.confdeltype when 'c' then 'CASCADE' when 'n' then 'SET NULL' when 'd' then 'SET DEFAULT'
                          when 'r' then 'RESTRICT' when 'a' then 'NO ACTION' end
from pg_constraint k join pg_namespace nk on nk.oid = k.connamespace join pg_class c on c.oid = k.conrelid
     left join pg_constraint p on p.conindid = k.conindid and p.conrelid = k.confrelid and p.contype in ('p', 'u')
     left join pg_namespace np on np.oid = p.connamespace
where k.contype = 'f'
  and (pg_has_role(c.relowner, 'USAGE')
       or has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
       or has_any_column_privilege(c.oid, 'INSERT, UPDATE, REFERENCES'));

create view constraint_column_usage (table_catalog, table_schema, table_name, column_name, constraint_catalog,
    constraint_schema, constraint_name) as
select current_database(), n.nspname, c.relname, a.attname, current_database(), nk.nspname, k.conname
from pg_constraint k
     cross join lateral unnest(case when k.contype = 'f' then k.confkey else k.conkey end) u(attnum)
     join pg_class c on c.oid = case when k.contype = 'f' then k.confrelid else k.conrelid end
     join pg_namespace n on n.oid = c.relnamespace join pg_namespace nk on nk.oid = k.connamespace
     join pg_attribute a on a.attrelid = c.oid and a.attnum = u.attnum
where k.contype in ('c', 'p', 'u', 'f') and c.relkind in ('r', 'p') and pg_has_role(c.relowner, 'USAGE');

create view constraint_table_usage (table_catalog, table_schema, table_name, constraint_catalog, constraint_schema,
    constraint_name) as
select current_database(), n.nspname, c.relname, current_database(), nk.nspname, k.conname
from pg_constraint k join pg_class c on c.oid = case when k.contype = 'f' then k.confrelid else k.conrelid end
     join pg_namespace n on n.oid = c.relnamespace join pg_namespace nk on nk.oid = k.connamespace
where k.contype in ('p', 'u', 'f') and c.relkind in ('r', 'p') and pg_has_role(c.relowner, 'USAGE');

create view check_constraints (constraint_catalog, constraint_schema, constraint_name, check_clause) as
select current_database(), nk.nspname, k.conname::text,
       substring(pg_get_constraintdef(k.oid) from 7)
from pg_constraint k join pg_namespace nk on nk.oid = k.connamespace left join pg_class c on c.oid = k.conrelid
     left join pg_type t on t.oid = k.contypid
where k.contype = 'c' and pg_has_role(coalesce(c.relowner, t.typowner), 'USAGE')
union all
select current_database(), n.nspname, n.oid || '_' || c.oid || '_' || a.attnum || '_not_null', a.attname || ' IS NOT NULL'
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
where a.attnotnull and a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p')
  and pg_has_role(c.relowner, 'USAGE');

create view sequences (sequence_catalog, sequence_schema, sequence_name, data_type, numeric_precision,
    numeric_precision_radix, numeric_scale, start_value, minimum_value, maximum_value, increment, cycle_option) as
select current_database(), n.nspname, c.relname, format_type(s.seqtypid, null),
       information_schema._pg_numeric_precision(s.seqtypid, -1), 2, 0, s.seqstart, s.seqmin, s.seqmax, s.seqincrement,
       case when s.seqcycle then 'YES' else 'NO' end
from pg_sequence s join pg_class c on c.oid = s.seqrelid join pg_namespace n on n.oid = c.relnamespace
where not pg_is_other_temp_schema(n.oid)
  and not exists (select 1 from pg_depend d where d.classid = 1259 and d.objid = c.oid and d.deptype = 'i')
  and (pg_has_role(c.relowner, 'USAGE') or has_sequence_privilege(c.oid, 'SELECT, UPDATE, USAGE'));

create view domains (domain_catalog, domain_schema, domain_name, data_type, character_maximum_length, character_octet_length, numeric_precision, numeric_precision_radix,
    numeric_scale, datetime_precision, interval_type,
    collation_catalog, collation_schema, collation_name, domain_default, udt_catalog, udt_schema, udt_name,
    dtd_identifier) as
select current_database(), n.nspname, t.typname, case when b.typelem <> 0 and b.typlen = -1 then 'ARRAY'
            when nb.nspname = 'pg_catalog' then format_type(b.oid, null) else 'USER-DEFINED' end,
       information_schema._pg_char_max_length(t.typbasetype, t.typtypmod),
       information_schema._pg_char_octet_length(t.typbasetype, t.typtypmod),
       information_schema._pg_numeric_precision(t.typbasetype, t.typtypmod),
       information_schema._pg_numeric_precision_radix(t.typbasetype, t.typtypmod),
       information_schema._pg_numeric_scale(t.typbasetype, t.typtypmod),
       information_schema._pg_datetime_precision(t.typbasetype, t.typtypmod),
       information_schema._pg_interval_type(t.typbasetype, t.typtypmod),
       case when nl.nspname is not null then current_database() end, nl.nspname, l.collname, t.typdefault,
       current_database(), nb.nspname, b.typname, 1
from pg_type t join pg_namespace n on n.oid = t.typnamespace join pg_type b on b.oid = t.typbasetype
     join pg_namespace nb on nb.oid = b.typnamespace
     left join pg_collation l on l.oid = t.typcollation and l.collname <> 'default'
     left join pg_namespace nl on nl.oid = l.collnamespace
where t.typtype = 'd' and (pg_has_role(t.typowner, 'USAGE') or has_type_privilege(t.oid, 'USAGE'));

create view domain_constraints (constraint_catalog, constraint_schema, constraint_name, domain_catalog, domain_schema,
    domain_name, is_deferrable, initially_deferred) as
select current_database(), nk.nspname, k.conname, current_database(), n.nspname, t.typname,
       case when k.condeferrable then 'YES' else 'NO' end, case when k.condeferred then 'YES' else 'NO' end
from pg_constraint k join pg_type t on t.oid = k.contypid join pg_namespace n on n.oid = t.typnamespace
     join pg_namespace nk on nk.oid = k.connamespace
where pg_has_role(t.typowner, 'USAGE') or has_type_privilege(t.oid, 'USAGE');

create view domain_udt_usage (udt_catalog, udt_schema, udt_name, domain_catalog, domain_schema, domain_name) as
select current_database(), nb.nspname, b.typname, current_database(), n.nspname, t.typname
from pg_type t join pg_namespace n on n.oid = t.typnamespace join pg_type b on b.oid = t.typbasetype
     join pg_namespace nb on nb.oid = b.typnamespace
where t.typtype = 'd' and pg_has_role(b.typowner, 'USAGE');

create view column_domain_usage (domain_catalog, domain_schema, domain_name, table_catalog, table_schema, table_name,
    column_name) as
select current_database(), nt.nspname, t.typname, current_database(), n.nspname, c.relname, a.attname
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
     join pg_type t on t.oid = a.atttypid join pg_namespace nt on nt.oid = t.typnamespace
where t.typtype = 'd' and a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'v', 'f', 'p')
  and pg_has_role(t.typowner, 'USAGE');

create view column_udt_usage (udt_catalog, udt_schema, udt_name, table_catalog, table_schema, table_name, column_name) as
select current_database(), nb.nspname, b.typname, current_database(), n.nspname, c.relname, a.attname
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
     join pg_type t on t.oid = a.atttypid
     join pg_type b on b.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
     join pg_namespace nb on nb.oid = b.typnamespace
where a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'v', 'f', 'p')
  and pg_has_role(b.typowner, 'USAGE');

create view attributes (udt_catalog, udt_schema, udt_name, attribute_name, ordinal_position, attribute_default,
    is_nullable, data_type, character_maximum_length, character_octet_length, numeric_precision, numeric_precision_radix,
    numeric_scale, datetime_precision, interval_type,
    collation_catalog, collation_schema, collation_name, attribute_udt_catalog, attribute_udt_schema,
    attribute_udt_name, dtd_identifier, is_derived_reference_attribute) as
select current_database(), n.nspname, c.relname, a.attname, a.attnum, null::text,
       case when a.attnotnull or (t.typtype = 'd' and t.typnotnull) then 'NO' else 'YES' end,
       case when t.typelem <> 0 and t.typlen = -1 then 'ARRAY'
            when nt.nspname = 'pg_catalog' then format_type(t.oid, null) else 'USER-DEFINED' end,
       information_schema._pg_char_max_length(t.oid, a.atttypmod),
       information_schema._pg_char_octet_length(t.oid, a.atttypmod),
       information_schema._pg_numeric_precision(t.oid, a.atttypmod),
       information_schema._pg_numeric_precision_radix(t.oid, a.atttypmod),
       information_schema._pg_numeric_scale(t.oid, a.atttypmod),
       information_schema._pg_datetime_precision(t.oid, a.atttypmod),
       information_schema._pg_interval_type(t.oid, a.atttypmod),
       case when nl.nspname is not null then current_database() end, nl.nspname, l.collname, current_database(),
       nt.nspname, t.typname, a.attnum, 'NO'
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
     join pg_type t on t.oid = a.atttypid join pg_namespace nt on nt.oid = t.typnamespace
     left join pg_collation l on l.oid = a.attcollation and l.collname <> 'default'
     left join pg_namespace nl on nl.oid = l.collnamespace
where c.relkind = 'c' and a.attnum > 0 and not a.attisdropped
  and (pg_has_role(c.relowner, 'USAGE') or has_type_privilege(c.reltype, 'USAGE'));

create view user_defined_types (user_defined_type_catalog, user_defined_type_schema, user_defined_type_name,
    user_defined_type_category, is_instantiable) as
select current_database(), n.nspname, c.relname, 'STRUCTURED', 'YES'
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'c' and (pg_has_role(c.relowner, 'USAGE') or has_type_privilege(c.reltype, 'USAGE'));

create view routines (specific_catalog, specific_schema, specific_name, routine_catalog, routine_schema, routine_name,
    routine_type, data_type, type_udt_catalog, type_udt_schema, type_udt_name, dtd_identifier, routine_body,
    routine_definition, external_name, external_language, parameter_style, is_deterministic, sql_data_access,
    is_null_call, schema_level_routine, max_dynamic_result_sets, security_type, as_locator, is_udt_dependent) as
select current_database(), n.nspname, p.proname || '_' || p.oid, current_database(), n.nspname, p.proname,
       case p.prokind when 'f' then 'FUNCTION' when 'p' then 'PROCEDURE' end,
       case when p.prokind <> 'p' then case when t.typelem <> 0 and t.typlen = -1 then 'ARRAY'
            when nt.nspname = 'pg_catalog' then format_type(t.oid, null) else 'USER-DEFINED' end end,
       case when p.prokind <> 'p' then current_database() end, case when p.prokind <> 'p' then nt.nspname end,
       case when p.prokind <> 'p' then t.typname end, case when p.prokind <> 'p' then 0 end,
       case when l.lanname = 'sql' then 'SQL' else 'EXTERNAL' end,
       case when pg_has_role(p.proowner, 'USAGE') then p.prosrc end, case when l.lanname = 'c' then p.prosrc end,
       upper(l.lanname::text), 'GENERAL', case when p.provolatile = 'i' then 'YES' else 'NO' end, 'MODIFIES',
       case when p.prokind <> 'p' then case when p.proisstrict then 'YES' else 'NO' end end, 'YES', 0,
       case when p.prosecdef then 'DEFINER' else 'INVOKER' end, 'NO', 'NO'
from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang
     left join pg_type t on t.oid = p.prorettype left join pg_namespace nt on nt.oid = t.typnamespace
where pg_has_role(p.proowner, 'USAGE') or has_function_privilege(p.oid, 'EXECUTE');

create view parameters (specific_catalog, specific_schema, specific_name, ordinal_position, parameter_mode, is_result,
    as_locator, parameter_name, data_type, udt_catalog, udt_schema, udt_name, dtd_identifier, parameter_default) as
select current_database(), n.nspname, p.proname || '_' || p.oid, g.position,
       case p.proargmodes[g.position] when 'o' then 'OUT' when 'b' then 'INOUT' when 't' then 'OUT' else 'IN' end,
       'NO', 'NO', nullif(p.proargnames[g.position], ''), case when t.typelem <> 0 and t.typlen = -1 then 'ARRAY'
            when nt.nspname = 'pg_catalog' then format_type(t.oid, null) else 'USER-DEFINED' end, current_database(), nt.nspname,
       t.typname, g.position,
       case when pg_has_role(p.proowner, 'USAGE') then pg_get_function_arg_default(p.oid, g.position::int) end
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     cross join lateral unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality g(type_oid, position)
     join pg_type t on t.oid = g.type_oid join pg_namespace nt on nt.oid = t.typnamespace
where pg_has_role(p.proowner, 'USAGE') or has_function_privilege(p.oid, 'EXECUTE');

create view element_types (object_catalog, object_schema, object_name, object_type, collection_type_identifier, data_type,
    udt_catalog, udt_schema, udt_name, dtd_identifier) as
select current_database(), n.nspname, c.relname, case when c.relkind = 'c' then 'USER-DEFINED TYPE' else 'TABLE' end,
       a.attnum, case when e.typelem <> 0 and e.typlen = -1 then 'ARRAY'
            when ne.nspname = 'pg_catalog' then format_type(e.oid, null) else 'USER-DEFINED' end, current_database(), ne.nspname, e.typname, 'a' || a.attnum
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
     join pg_type t on t.oid = a.atttypid
     join pg_type b on b.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
     join pg_type e on e.oid = b.typelem join pg_namespace ne on ne.oid = e.typnamespace
where b.typlen = -1 and a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'v', 'f', 'c', 'p')
  and (pg_has_role(c.relowner, 'USAGE')
       or has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES'));

create view enabled_roles (role_name) as
select a.rolname from pg_authid a where pg_has_role(a.oid, 'USAGE');

create view applicable_roles (grantee, role_name, is_grantable) as
select m.rolname, g.rolname, case when a.admin_option then 'YES' else 'NO' end
from pg_auth_members a join pg_authid m on m.oid = a.member join pg_authid g on g.oid = a.roleid
where pg_has_role(m.oid, 'USAGE');

create view administrable_role_authorizations (grantee, role_name, is_grantable) as
select m.rolname, g.rolname, 'YES'
from pg_auth_members a join pg_authid m on m.oid = a.member join pg_authid g on g.oid = a.roleid
where a.admin_option and pg_has_role(m.oid, 'USAGE');

create view table_privileges (grantor, grantee, table_catalog, table_schema, table_name, privilege_type, is_grantable,
    with_hierarchy) as
select g.rolname, coalesce(r.rolname::text, 'PUBLIC'), current_database(), n.nspname, c.relname, x.privilege_type,
       case when x.is_grantable or x.grantee = c.relowner then 'YES' else 'NO' end,
       case when x.privilege_type = 'SELECT' then 'YES' else 'NO' end
from pg_class c join pg_namespace n on n.oid = c.relnamespace
     cross join lateral aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) x
     join pg_authid g on g.oid = x.grantor left join pg_authid r on r.oid = x.grantee
where c.relkind in ('r', 'v', 'f', 'p') and (x.grantee = 0 or r.oid is not null)
  and (pg_has_role(g.oid, 'USAGE') or x.grantee = 0 or pg_has_role(r.oid, 'USAGE'));

create view role_table_grants (grantor, grantee, table_catalog, table_schema, table_name, privilege_type, is_grantable,
    with_hierarchy) as
select t.grantor, t.grantee, t.table_catalog, t.table_schema, t.table_name, t.privilege_type, t.is_grantable,
       t.with_hierarchy
from information_schema.table_privileges t
where t.grantor in (select e.role_name from information_schema.enabled_roles e)
   or t.grantee in (select e.role_name from information_schema.enabled_roles e);

create view column_privileges (grantor, grantee, table_catalog, table_schema, table_name, column_name, privilege_type,
    is_grantable) as
select g.rolname, coalesce(r.rolname::text, 'PUBLIC'), current_database(), n.nspname, c.relname, a.attname,
       x.privilege_type, case when x.is_grantable or x.grantee = c.relowner then 'YES' else 'NO' end
from pg_class c join pg_namespace n on n.oid = c.relnamespace
     cross join lateral aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) x
     join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     join pg_authid g on g.oid = x.grantor left join pg_authid r on r.oid = x.grantee
where c.relkind in ('r', 'v', 'f', 'p') and x.privilege_type in ('INSERT', 'SELECT', 'UPDATE', 'REFERENCES')
  and (x.grantee = 0 or r.oid is not null)
  and (pg_has_role(g.oid, 'USAGE') or x.grantee = 0 or pg_has_role(r.oid, 'USAGE'))
union
select g.rolname, coalesce(r.rolname::text, 'PUBLIC'), current_database(), n.nspname, c.relname, a.attname,
       x.privilege_type, case when x.is_grantable or x.grantee = c.relowner then 'YES' else 'NO' end
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
     cross join lateral aclexplode(a.attacl) x
     join pg_authid g on g.oid = x.grantor left join pg_authid r on r.oid = x.grantee
where c.relkind in ('r', 'v', 'f', 'p') and a.attnum > 0 and not a.attisdropped
  and (x.grantee = 0 or r.oid is not null)
  and (pg_has_role(g.oid, 'USAGE') or x.grantee = 0 or pg_has_role(r.oid, 'USAGE'));

create view role_column_grants (grantor, grantee, table_catalog, table_schema, table_name, column_name, privilege_type,
    is_grantable) as
select t.grantor, t.grantee, t.table_catalog, t.table_schema, t.table_name, t.column_name, t.privilege_type,
       t.is_grantable
from information_schema.column_privileges t
where t.grantor in (select e.role_name from information_schema.enabled_roles e)
   or t.grantee in (select e.role_name from information_schema.enabled_roles e);

create view routine_privileges (grantor, grantee, specific_catalog, specific_schema, specific_name, routine_catalog,
    routine_schema, routine_name, privilege_type, is_grantable) as
select g.rolname, coalesce(r.rolname::text, 'PUBLIC'), current_database(), n.nspname, p.proname || '_' || p.oid,
       current_database(), n.nspname, p.proname, 'EXECUTE',
       case when x.is_grantable or x.grantee = p.proowner then 'YES' else 'NO' end
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
     join pg_authid g on g.oid = x.grantor left join pg_authid r on r.oid = x.grantee
where (x.grantee = 0 or r.oid is not null)
  and (pg_has_role(g.oid, 'USAGE') or x.grantee = 0 or pg_has_role(r.oid, 'USAGE'));

create view role_routine_grants (grantor, grantee, specific_catalog, specific_schema, specific_name, routine_catalog,
    routine_schema, routine_name, privilege_type, is_grantable) as
select t.grantor, t.grantee, t.specific_catalog, t.specific_schema, t.specific_name, t.routine_catalog,
       t.routine_schema, t.routine_name, t.privilege_type, t.is_grantable
from information_schema.routine_privileges t
where t.grantor in (select e.role_name from information_schema.enabled_roles e)
   or t.grantee in (select e.role_name from information_schema.enabled_roles e);

create view usage_privileges (grantor, grantee, object_catalog, object_schema, object_name, object_type, privilege_type,
    is_grantable) as
select g.rolname, coalesce(r.rolname::text, 'PUBLIC'), current_database(), n.nspname, c.relname, 'SEQUENCE', 'USAGE',
       case when x.is_grantable or x.grantee = c.relowner then 'YES' else 'NO' end
from pg_class c join pg_namespace n on n.oid = c.relnamespace
     cross join lateral aclexplode(coalesce(c.relacl, acldefault('s', c.relowner))) x
     join pg_authid g on g.oid = x.grantor left join pg_authid r on r.oid = x.grantee
where c.relkind = 'S' and x.privilege_type = 'USAGE' and (x.grantee = 0 or r.oid is not null)
  and (pg_has_role(g.oid, 'USAGE') or x.grantee = 0 or pg_has_role(r.oid, 'USAGE'));

create view role_usage_grants (grantor, grantee, object_catalog, object_schema, object_name, object_type, privilege_type,
    is_grantable) as
select t.grantor, t.grantee, t.object_catalog, t.object_schema, t.object_name, t.object_type, t.privilege_type,
       t.is_grantable
from information_schema.usage_privileges t
where t.grantor in (select e.role_name from information_schema.enabled_roles e)
   or t.grantee in (select e.role_name from information_schema.enabled_roles e);

create view view_table_usage (view_catalog, view_schema, view_name, table_catalog, table_schema, table_name) as
select distinct current_database(), nv.nspname, v.relname, current_database(), n.nspname, c.relname
from pg_class v join pg_namespace nv on nv.oid = v.relnamespace join pg_rewrite r on r.ev_class = v.oid
     join pg_depend d on d.classid = 2618 and d.objid = r.oid and d.refclassid = 1259 and d.refobjid <> v.oid
     join pg_class c on c.oid = d.refobjid join pg_namespace n on n.oid = c.relnamespace
where v.relkind = 'v' and c.relkind in ('r', 'v', 'f', 'p') and pg_has_role(c.relowner, 'USAGE');

create view view_column_usage (view_catalog, view_schema, view_name, table_catalog, table_schema, table_name,
    column_name) as
select distinct current_database(), nv.nspname, v.relname, current_database(), n.nspname, c.relname, a.attname
from pg_class v join pg_namespace nv on nv.oid = v.relnamespace join pg_rewrite r on r.ev_class = v.oid
     join pg_depend d on d.classid = 2618 and d.objid = r.oid and d.refclassid = 1259 and d.refobjid <> v.oid
     join pg_class c on c.oid = d.refobjid join pg_namespace n on n.oid = c.relnamespace
     join pg_attribute a on a.attrelid = c.oid and a.attnum = d.refobjsubid
where v.relkind = 'v' and c.relkind in ('r', 'v', 'f', 'p') and pg_has_role(c.relowner, 'USAGE');

create view triggers (trigger_catalog, trigger_schema, trigger_name, event_object_catalog, event_object_schema,
    event_object_table) as
select current_database(), n.nspname, t.tgname, current_database(), n.nspname, c.relname
from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
where not t.tgisinternal and pg_has_role(c.relowner, 'USAGE');

create view character_sets (character_set_name, character_repertoire, form_of_use, default_collate_catalog,
    default_collate_schema, default_collate_name) as
select 'UTF8', 'UCS', 'UTF8', current_database(), 'pg_catalog', 'ucs_basic';

create view collations (collation_catalog, collation_schema, collation_name, pad_attribute) as
select current_database(), n.nspname, l.collname, 'NO PAD'
from pg_collation l join pg_namespace n on n.oid = l.collnamespace
where l.collencoding in (-1, 6);

create view collation_character_set_applicability (collation_catalog, collation_schema, collation_name,
    character_set_name) as
select current_database(), n.nspname, l.collname, 'UTF8'
from pg_collation l join pg_namespace n on n.oid = l.collnamespace
where l.collencoding in (-1, 6);
