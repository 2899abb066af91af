//! COPY FROM STDIN and COPY TO STDOUT (manual, COPY). Files and programs on the server are refused.

pub mod options;
pub mod read;
pub mod write;

use std::sync::Arc;

use cairn_analyze::Parameters;
use cairn_analyze::privileges::{RelationAccess, RequiredAccess};
use cairn_catalog::acl;
use cairn_catalog::{Relation, RelationKind};
use cairn_exec::dml::Loader;
use cairn_types::{Datum, Error, Oid, Result, err, io};
use pg_query::protobuf::{self, node::Node as NodeEnum};

use crate::client::{Client, Format};
use crate::core::Core;
use crate::statement::{CatalogExpressions, Compiled};
use crate::utility::{Invocation, Outcome};
use options::{CopyFormat, CopyOptions, Header};
use read::Reader;
use write::Writer;

pub fn run(invocation: &mut Invocation<'_>, statement: &protobuf::CopyStmt) -> Result<Outcome> {
    let options = CopyOptions::parse(&statement.options, statement.is_from)?;
    if statement.is_program || !statement.filename.is_empty() {
        return Err(Error::unsupported("COPY to or from a file or program on the server is")
            .hint("Use COPY FROM STDIN or COPY TO STDOUT, or psql's \\copy."));
    }
    let core = std::rc::Rc::clone(invocation.core);
    core.ensure_transaction()?;
    let count = if statement.is_from {
        from_stdin(&core, invocation, statement, &options)?
    } else {
        to_stdout(&core, invocation, statement, &options)?
    };
    Ok(Outcome::tag(format!("COPY {count}")))
}

/// The columns that a statement names, or all that are not generated.
fn columns(relation: &Relation, names: &[String], from: bool) -> Result<Vec<usize>> {
    if names.is_empty() {
        let wanted = |index: &usize| {
            let column = &relation.columns[*index];
            !column.dropped && !column.generated
        };
        return Ok((0..relation.columns.len()).filter(wanted).collect());
    }
    let mut chosen: Vec<usize> = Vec::with_capacity(names.len());
    for name in names {
        let index = column(relation, name)?;
        if relation.columns[index].generated && from {
            return Err(err!(INVALID_COLUMN_REFERENCE, "column \"{name}\" is a generated column")
                .detail("Generated columns cannot be used in COPY."));
        }
        if chosen.contains(&index) {
            return Err(err!(DUPLICATE_COLUMN, "column \"{name}\" specified more than once"));
        }
        chosen.push(index);
    }
    Ok(chosen)
}

fn column(relation: &Relation, name: &str) -> Result<usize> {
    relation.columns.iter().position(|column| !column.dropped && *column.name == *name).ok_or_else(|| {
        err!(UNDEFINED_COLUMN, "column \"{name}\" of relation \"{}\" does not exist", relation.name)
    })
}

fn no_client() -> Error {
    Error::unsupported("COPY to or from the client in a function is")
}

fn wire_format(options: &CopyOptions) -> Format {
    if options.format == CopyFormat::Binary { Format::Binary } else { Format::Text }
}

fn from_stdin(
    core: &Core,
    invocation: &mut Invocation<'_>,
    statement: &protobuf::CopyStmt,
    options: &CopyOptions,
) -> Result<u64> {
    let range = statement.relation.as_ref().ok_or_else(|| Error::internal("COPY FROM without a table"))?;
    let relation = crate::names::find_relation(core, range)?;
    match relation.kind {
        RelationKind::Table => {}
        RelationKind::View => {
            return Err(err!(WRONG_OBJECT_TYPE, "cannot copy to view \"{}\"", relation.name)
                .hint("To enable copying to a view, provide an INSTEAD OF INSERT trigger."));
        }
        RelationKind::MaterializedView => {
            return Err(err!(WRONG_OBJECT_TYPE, "cannot copy to materialized view \"{}\"", relation.name));
        }
        RelationKind::Sequence => {
            return Err(err!(WRONG_OBJECT_TYPE, "cannot copy to sequence \"{}\"", relation.name));
        }
        _ => return Err(err!(WRONG_OBJECT_TYPE, "cannot copy to non-table relation \"{}\"", relation.name)),
    }
    let catalog = core.catalog()?;
    if catalog.is_system_catalog(&relation) {
        return Err(err!(
            INSUFFICIENT_PRIVILEGE,
            "permission denied: \"{}\" is a system catalog",
            relation.name
        ));
    }
    if core.block.borrow().read_only && relation.persistence != cairn_catalog::Persistence::Temporary {
        return Err(crate::run::read_only_error("COPY FROM"));
    }
    if statement.where_clause.is_some() {
        return Err(Error::unsupported("COPY FROM with WHERE is"));
    }
    core.lock_relation(&relation, cairn_txn::TableLockMode::RowExclusive)?;
    let relation = crate::names::find_relation(core, range)?;
    let chosen = columns(&relation, &crate::nodes::strings(&statement.attlist), true)?;
    core.check_access(&RequiredAccess {
        relations: vec![RelationAccess {
            relation: relation.oid,
            role: None,
            privileges: acl::INSERT,
            selected: Vec::new(),
            inserted: chosen.iter().map(|index| relation.columns[*index].attnum).collect(),
            updated: Vec::new(),
        }],
        ..RequiredAccess::default()
    })?;
    for name in options.force_not_null.names().iter().chain(options.force_null.names()) {
        let index = column(&relation, name)?;
        if !chosen.contains(&index) {
            return Err(err!(
                INVALID_COLUMN_REFERENCE,
                "FORCE_NOT_NULL column \"{name}\" not referenced by COPY"
            ));
        }
    }
    if options.freeze && !core.transaction()?.can_bulk_load(relation.storage) {
        return Err(err!(
            OBJECT_NOT_IN_PREREQUISITE_STATE,
            "cannot perform COPY FREEZE because the table was not created or truncated in the current subtransaction"
        ));
    }
    let client = invocation.client.as_deref_mut().ok_or_else(no_client)?;
    core.send_notices(client);
    client.copy_in_begin(wire_format(options), chosen.len())?;
    load(core, &relation, &chosen, options, client)
}

/// One column of the table that is read.
struct Input<'a> {
    name: &'a str,
    ty: Oid,
    typmod: i32,
    force_null: bool,
    force_not_null: bool,
}

fn load(
    core: &Core,
    relation: &Arc<Relation>,
    chosen: &[usize],
    options: &CopyOptions,
    client: &mut dyn Client,
) -> Result<u64> {
    let inputs: Vec<Input<'_>> = chosen
        .iter()
        .map(|index| {
            let column = &relation.columns[*index];
            Input {
                name: &column.name,
                ty: column.ty.oid,
                typmod: column.ty.typmod,
                force_null: options.force_null.contains(&column.name),
                force_not_null: options.force_not_null.contains(&column.name),
            }
        })
        .collect();
    let attnums: Vec<i16> = chosen.iter().map(|index| relation.columns[*index].attnum).collect();
    let mut reader = Reader::new(options);
    let mut source = |buffer: &mut Vec<u8>| client.copy_in_read(buffer);
    let catalog = core.catalog()?;
    let transaction = core.transaction()?;
    let count = core.with_exec(|cx| {
        let expressions = CatalogExpressions { core, catalog: &catalog };
        let plan = expressions.plan_context();
        let mut loader = Loader::new(cx, &plan, relation, Some(&attnums))?;
        if options.format == CopyFormat::Binary {
            reader.binary_header(&mut source)?;
        }
        if options.header != Header::None {
            read_header(&mut reader, &mut source, &inputs, options)
                .map_err(|error| in_line(error, relation, &reader))?;
        }
        loop {
            let more = reader.next(&mut source).map_err(|error| match error.report().severity {
                cairn_types::Severity::Fatal => error,
                _ => in_line(error, relation, &reader),
            })?;
            if !more {
                break;
            }
            let values = row(core, relation, &reader, &inputs, options)?;
            loader.insert(cx, values).map_err(|error| match error.sqlstate() {
                // PostgreSQL finds it when it writes a batch of lines, and no longer has the text.
                cairn_types::sqlstate::UNIQUE_VIOLATION => {
                    error.context(format!("COPY {}, line {}", relation.name, reader.line_number))
                }
                _ => in_line(error, relation, &reader),
            })?;
        }
        loader.finish(cx)
    })?;
    transaction.advance_command();
    Ok(count)
}

/// The line of CONTEXT that PostgreSQL adds.
fn in_line(error: Error, relation: &Relation, reader: &Reader<'_>) -> Error {
    let line = shortened(reader.line());
    let number = reader.line_number;
    error.context(match line.is_empty() {
        true => format!("COPY {}, line {number}", relation.name),
        false => format!("COPY {}, line {number}: \"{line}\"", relation.name),
    })
}

/// The first hundred bytes of what is quoted in a message.
fn shortened(bytes: &[u8]) -> String {
    const LENGTH_MAX: usize = 100;
    let text = String::from_utf8_lossy(bytes);
    if text.len() <= LENGTH_MAX {
        return text.into_owned();
    }
    let end = (0..=LENGTH_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

fn read_header(
    reader: &mut Reader<'_>,
    source: &mut read::Source<'_>,
    inputs: &[Input<'_>],
    options: &CopyOptions,
) -> Result<()> {
    if !reader.next(source)? || options.header != Header::Match {
        return Ok(());
    }
    let fields = reader.fields();
    if fields.len() != inputs.len() {
        return Err(err!(
            BAD_COPY_FILE_FORMAT,
            "wrong number of fields in header line: got {}, expected {}",
            fields.len(),
            inputs.len()
        ));
    }
    for (index, (field, input)) in fields.iter().zip(inputs).enumerate() {
        let mismatch = |got: &str| {
            err!(
                BAD_COPY_FILE_FORMAT,
                "column name mismatch in header line field {}: got {got}, expected \"{}\"",
                index + 1,
                input.name
            )
        };
        if field.null {
            return Err(mismatch(&format!("null value (\"{}\")", options.null)));
        }
        let got = String::from_utf8_lossy(reader.bytes(field));
        if got != input.name {
            return Err(mismatch(&format!("\"{got}\"")));
        }
    }
    Ok(())
}

/// The values of a row.
fn row(
    core: &Core,
    relation: &Relation,
    reader: &Reader<'_>,
    inputs: &[Input<'_>],
    options: &CopyOptions,
) -> Result<Vec<Datum>> {
    let fields = reader.fields();
    if options.format == CopyFormat::Binary && fields.len() != inputs.len() {
        return Err(in_line(
            err!(BAD_COPY_FILE_FORMAT, "row field count is {}, expected {}", fields.len(), inputs.len()),
            relation,
            reader,
        ));
    }
    if fields.len() > inputs.len() {
        return Err(in_line(
            err!(BAD_COPY_FILE_FORMAT, "extra data after last expected column"),
            relation,
            reader,
        ));
    }
    let mut values = Vec::with_capacity(inputs.len());
    for (index, input) in inputs.iter().enumerate() {
        let Some(field) = fields.get(index) else {
            return Err(in_line(
                err!(BAD_COPY_FILE_FORMAT, "missing data for column \"{}\"", input.name),
                relation,
                reader,
            ));
        };
        let bytes = reader.bytes(field);
        let null = if options.format == CopyFormat::Csv {
            field.null && !input.force_not_null
                || input.force_null && field.quoted && bytes == options.null.as_bytes()
        } else {
            field.null
        };
        if null {
            values.push(Datum::Null);
            continue;
        }
        let value = if options.format == CopyFormat::Binary {
            io::recv(bytes, input.ty, input.typmod, core)
        } else {
            text(bytes).and_then(|text| io::input(text, input.ty, input.typmod, core))
        };
        values.push(value.map_err(|error| {
            let place = format!("COPY {}, line {}, column {}", relation.name, reader.line_number, input.name);
            match options.format {
                CopyFormat::Binary => error.context(place),
                _ => error.context(format!("{place}: \"{}\"", shortened(bytes))),
            }
        })?);
    }
    Ok(values)
}

fn text(bytes: &[u8]) -> Result<&str> {
    let invalid = |at: usize| {
        err!(
            CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x{:02x}",
            bytes.get(at).copied().unwrap_or(0)
        )
    };
    let text = std::str::from_utf8(bytes).map_err(|error| invalid(error.valid_up_to()))?;
    match text.bytes().position(|byte| byte == 0) {
        Some(at) => Err(invalid(at)),
        None => Ok(text),
    }
}

fn to_stdout(
    core: &Core,
    invocation: &mut Invocation<'_>,
    statement: &protobuf::CopyStmt,
    options: &CopyOptions,
) -> Result<u64> {
    let raw = match (&statement.relation, &statement.query) {
        (Some(range), _) => {
            let relation = crate::names::find_relation(core, range)?;
            check_source(&relation)?;
            let chosen = columns(&relation, &crate::nodes::strings(&statement.attlist), false)?;
            Arc::new(select_from(core, &relation, &chosen)?)
        }
        (None, query) => {
            let raw = crate::utility::inner_query(invocation.raw, query.as_deref())?;
            if let NodeEnum::SelectStmt(select) = &*raw.node
                && select.into_clause.is_some()
            {
                return Err(err!(FEATURE_NOT_SUPPORTED, "COPY (SELECT INTO) is not supported"));
            }
            raw
        }
    };
    let mut compile = || Ok(std::rc::Rc::new(Compiled::new(core, &raw, Parameters::None)?));
    let compiled = compile()?;
    let compiled = core.prepare_to_run(compiled, &mut compile)?;
    let Some(plan) = compiled.plan() else {
        return Err(err!(FEATURE_NOT_SUPPORTED, "COPY query must not be a utility command"));
    };
    let Some(columns) = &compiled.columns else {
        return Err(err!(FEATURE_NOT_SUPPORTED, "COPY query must have a RETURNING clause"));
    };
    let types: Vec<(&str, Oid)> = columns.iter().map(|column| (&*column.name, column.ty.oid)).collect();
    for name in options.force_quote.names() {
        if !types.iter().any(|(column, _)| column == name) {
            return Err(err!(
                INVALID_COLUMN_REFERENCE,
                "FORCE_QUOTE column \"{name}\" not referenced by COPY"
            ));
        }
    }
    let mut writer = Writer::new(options, &types);
    let client = invocation.client.as_deref_mut().ok_or_else(no_client)?;
    core.send_notices(client);
    client.copy_out_begin(wire_format(options), types.len())?;
    if options.header != Header::None {
        let names: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
        client.copy_out_data(writer.header(&names))?;
    }
    let mut count = 0;
    core.run_plan(plan, Arc::clone(&invocation.params), &mut |row| {
        client.copy_out_data(writer.row(core, row)?)?;
        count += 1;
        if client.wants_flush() {
            core.settle(plan);
            client.flush()?;
        }
        Ok(())
    })?;
    if let Some(trailer) = writer.trailer() {
        client.copy_out_data(trailer)?;
    }
    client.copy_out_end()?;
    core.settle(plan);
    Ok(count)
}

fn check_source(relation: &Relation) -> Result<()> {
    let name = &relation.name;
    match relation.kind {
        RelationKind::Table => Ok(()),
        RelationKind::View => Err(err!(WRONG_OBJECT_TYPE, "cannot copy from view \"{name}\"")
            .hint("Try the COPY (SELECT ...) TO variant.")),
        RelationKind::MaterializedView => {
            Err(err!(WRONG_OBJECT_TYPE, "cannot copy from materialized view \"{name}\"")
                .hint("Try the COPY (SELECT ...) TO variant."))
        }
        RelationKind::Sequence => Err(err!(WRONG_OBJECT_TYPE, "cannot copy from sequence \"{name}\"")),
        RelationKind::PartitionedTable => {
            Err(err!(WRONG_OBJECT_TYPE, "cannot copy from partitioned table \"{name}\"")
                .hint("Try the COPY (SELECT ...) TO variant."))
        }
        _ => Err(err!(WRONG_OBJECT_TYPE, "cannot copy from non-table relation \"{name}\"")),
    }
}

/// `select columns from only table`.
fn select_from(core: &Core, relation: &Relation, chosen: &[usize]) -> Result<cairn_analyze::RawStatement> {
    let quote = crate::names::quote_identifier;
    let columns: Vec<String> = chosen.iter().map(|index| quote(&relation.columns[*index].name)).collect();
    let schema = core.catalog()?.namespace_name(relation.namespace);
    let text =
        format!("select {} from only {}.{}", columns.join(", "), quote(&schema), quote(&relation.name));
    cairn_analyze::parse(&text)?.pop().ok_or_else(|| Error::internal("a constant statement does not parse"))
}
