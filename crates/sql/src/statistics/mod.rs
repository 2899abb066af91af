//! ANALYZE: what the planner may know of a table's rows (manual, section 14.2).
//!
//! A sample of the rows is drawn ([`sample`]), the statistics of each column are computed from it ([`column`]), and what is found
//! is written into the catalog in the transaction of the command: pg_statistic for columns and indexed expressions,
//! pg_class.reltuples and relpages. Plans made earlier are made anew, because the catalog has changed.

pub mod automatic;
mod column;
mod sample;
mod width;

use std::sync::Arc;

use cairn_catalog::columns::{pg_attribute, pg_class, pg_statistic};
use cairn_catalog::statistics::{SlotOperators, stored_row};
use cairn_catalog::{
    Catalog, CatalogWriter, ColumnStatistics, Index, IndexKeyColumn, Relation, RowExt, TypeRef,
};
use cairn_exec::TxnResultExt;
use cairn_exec::dml::IndexValues;
use cairn_exec::table::TableLayout;
use cairn_txn::{LockOutcome, LockScope, LockTag, TableLockMode, WaitPolicy};
use cairn_types::oid::catalogs;
use cairn_types::{Datum, Env, Error, Oid, Result, Severity, types};

use crate::core::Core;
use crate::statement::CatalogExpressions;
use column::{Values, statistics_of};
use sample::{Sample, Source, draw};

/// Rows of the sample for each unit of the statistics target: enough that the histogram's parts are not off by more
/// than half of their size, nearly always.
const ROWS_PER_TARGET: usize = 300;
/// Rows that are drawn where no column wants statistics: for the count.
const ROWS_MIN: usize = 100;
/// PostgreSQL's page, in which relpages counts.
const PAGE_BYTES: u64 = 8192;

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Tells what is done.
    pub verbose: bool,
    /// A table that somebody has locked is left out.
    pub skip_locked: bool,
    /// Nobody has asked for it ([`automatic`]).
    pub automatic: bool,
}

/// One list of values that gets statistics: a column, or an expression of an index.
struct Subject {
    /// The table, or the index.
    relation: Oid,
    /// Attribute number, or number of the index's key from 1.
    attribute: i16,
    ty: TypeRef,
    target: usize,
}

/// Gathers a table's statistics: those of `columns` (attribute numbers), or of all columns and indexed expressions where
/// it is empty. Who may do that has been asked.
pub fn analyze_table(core: &Core, table: &Arc<Relation>, columns: &[i16], options: Options) -> Result<()> {
    core.start_implicit();
    let transaction = core.ensure_transaction()?;
    let tag = LockTag::Object { class: catalogs::PG_CLASS, object: table.oid };
    let wait = if options.skip_locked {
        WaitPolicy::Skip
    } else {
        WaitPolicy::Block { timeout: core.hot(|hot| hot.lock_timeout) }
    };
    let lock = transaction
        .lock_object(tag, TableLockMode::ShareUpdateExclusive, LockScope::Transaction, wait)
        .sql()?;
    if lock == LockOutcome::Skipped {
        if options.automatic {
            return Ok(());
        }
        let message = format!("skipping analyze of \"{}\" --- lock not available", table.name);
        core.notice(Error::warning(cairn_types::sqlstate::LOCK_NOT_AVAILABLE, message));
        return Ok(());
    }
    let catalog = core.catalog()?;
    // Somebody may have dropped it while we waited.
    let Some(table) = catalog.relation(table.oid).cloned() else { return Ok(()) };
    if table.storage == 0 {
        return Ok(());
    }
    let namespace = catalog.namespace_name(table.namespace);
    tell(core, options, format!("analyzing \"{namespace}.{}\"", table.name));

    let subjects = subjects(core, &catalog, &table, columns);
    let target = subjects.iter().map(|subject| subject.target).max().unwrap_or(0);
    let changes = automatic::changes(&*core.database.store, table.oid);
    let source = Source {
        store: &*core.database.store,
        transaction: &*transaction,
        snapshot: transaction.snapshot().sql()?,
        storage: table.storage,
        random: &|| core.random(),
        check_interrupts: &|| core.check_interrupts(),
    };
    let sample = draw(&source, (target * ROWS_PER_TARGET).max(ROWS_MIN));
    transaction.release_snapshot(&source.snapshot);
    let sample = sample?;
    let found = compute(core, &catalog, &table, &subjects, &sample)?;
    let pages = pages(core, table.storage)?;
    write(core, &catalog, &table, &sample, pages, &found)?;
    core.database.analyzed.note(table.oid, changes, options.automatic);
    tell(
        core,
        options,
        format!(
            "\"{}\": scanned {} of {pages} pages, containing {:.0} live rows and 0 dead rows; {} rows in sample, {:.0} estimated total rows",
            table.name,
            if sample.whole { pages } else { pages.min(sample.rows.len() as u64) },
            if sample.whole { sample.total_rows } else { sample.rows.len() as f64 },
            sample.rows.len(),
            sample.total_rows,
        ),
    );
    Ok(())
}

fn tell(core: &Core, options: Options, message: String) {
    if options.verbose {
        core.notice(Error::notice(message).severity(Severity::Info));
    }
}

/// PostgreSQL's pages that a key space would fill; one that has anything fills one.
fn pages(core: &Core, storage: cairn_txn::StorageId) -> Result<u64> {
    let space = core.database.store.space_usage(storage).sql()?;
    Ok((space.memtable_bytes + space.sst_bytes).div_ceil(PAGE_BYTES))
}

/// What gets statistics, and how detailed; columns with target 0 are left out.
fn subjects(core: &Core, catalog: &Catalog, table: &Relation, columns: &[i16]) -> Vec<Subject> {
    let default = core.setting("default_statistics_target").and_then(|text| text.parse().ok());
    let default: usize = default.unwrap_or(100);
    let target = |relation: Oid, attribute: i16| {
        let row = catalog.row(pg_attribute::TABLE, &[Datum::Oid(relation), Datum::Int2(attribute)]);
        let own = row.map_or(-1, |row| row.int(pg_attribute::ATTSTATTARGET));
        usize::try_from(own).unwrap_or(default)
    };
    let mut subjects: Vec<Subject> = table
        .columns
        .iter()
        .filter(|column| !column.dropped && (columns.is_empty() || columns.contains(&column.attnum)))
        .map(|column| Subject {
            relation: table.oid,
            attribute: column.attnum,
            ty: column.ty,
            target: target(table.oid, column.attnum),
        })
        .collect();
    if columns.is_empty() {
        for index in &table.indexes {
            for (position, key) in index.keys.iter().enumerate() {
                if matches!(key.key, IndexKeyColumn::Expression(_)) {
                    let attribute = position as i16 + 1;
                    let target = target(index.oid, attribute);
                    subjects.push(Subject { relation: index.oid, attribute, ty: key.ty, target });
                }
            }
        }
    }
    subjects.retain(|subject| subject.target > 0);
    subjects
}

/// What was found of one subject.
struct Found<'s> {
    subject: &'s Subject,
    statistics: ColumnStatistics,
    /// Equality and order of the type; `None`: it has none.
    operators: Option<SlotOperators>,
}

/// Rows that the partial indexes of the table have, as parts of all.
type IndexFractions = Vec<(Oid, f64)>;

fn compute<'s>(
    core: &Core,
    catalog: &Arc<Catalog>,
    table: &Arc<Relation>,
    subjects: &'s [Subject],
    sample: &Sample,
) -> Result<(Vec<Found<'s>>, IndexFractions)> {
    let mut found = Vec::new();
    let layout = TableLayout::new(table, catalog)?;
    for subject in subjects.iter().filter(|subject| subject.relation == table.oid) {
        core.check_interrupts()?;
        let at = subject.attribute as usize - 1;
        let mut row = vec![Datum::Null; layout.kinds.len()];
        let mut values = Vec::with_capacity(sample.rows.len());
        for (_, bytes) in &sample.rows {
            layout.decode(bytes, &[at], &mut row)?;
            values.push(std::mem::take(&mut row[at]));
        }
        found.extend(of_values(catalog, subject, &values, sample.total_rows, true));
    }
    let mut fractions = Vec::new();
    for index in &table.indexes {
        let of_index: Vec<&Subject> =
            subjects.iter().filter(|subject| subject.relation == index.oid).collect();
        if of_index.is_empty() && index.predicate.is_none() || index.storage == table.storage {
            continue;
        }
        let rows = index_rows(core, catalog, table, index, sample)?;
        let fraction = rows.len() as f64 / (sample.rows.len() as f64).max(1.0);
        fractions.push((index.oid, fraction));
        for subject in of_index {
            core.check_interrupts()?;
            let at = subject.attribute as usize - 1;
            let values: Vec<Datum> =
                rows.iter().map(|row| row.get(at).cloned().unwrap_or_default()).collect();
            let total = (sample.total_rows * fraction).ceil();
            found.extend(of_values(catalog, subject, &values, total, false));
        }
    }
    Ok((found, fractions))
}

/// The keys that an index has for the rows of the sample.
fn index_rows(
    core: &Core,
    catalog: &Arc<Catalog>,
    table: &Arc<Relation>,
    index: &Arc<Index>,
    sample: &Sample,
) -> Result<Vec<Vec<Datum>>> {
    let expressions = CatalogExpressions { core, catalog };
    let plan = expressions.plan_context();
    core.with_exec(|cx| {
        let mut values = IndexValues::new(cx, &plan, table, index)?;
        let mut rows = Vec::new();
        for (at, (_, row)) in sample.rows.iter().enumerate() {
            if at & 0xFF == 0 {
                core.check_interrupts()?;
            }
            rows.extend(values.of_row(cx, row)?);
        }
        Ok(rows)
    })
}

fn of_values<'s>(
    catalog: &Catalog,
    subject: &'s Subject,
    values: &[Datum],
    total_rows: f64,
    stored: bool,
) -> Option<Found<'s>> {
    let base = catalog.base_type(subject.ty.oid);
    let operators = catalog.sort_operators(subject.ty.oid).map(|operators| SlotOperators {
        equal: operators.equal,
        less: operators.less,
        collation: subject.ty.collation,
    });
    let length = catalog.type_by_oid(subject.ty.oid).map_or(-1, |object| object.length);
    let statistics = statistics_of(&Values {
        values,
        total_rows,
        target: subject.target,
        fixed_width: usize::try_from(length).ok(),
        stored,
        ordered: operators.is_some(),
        blank_padded: base == types::BPCHAR,
    })?;
    Some(Found { subject, statistics, operators })
}

fn write(
    core: &Core,
    catalog: &Arc<Catalog>,
    table: &Relation,
    sample: &Sample,
    pages: u64,
    (found, fractions): &(Vec<Found<'_>>, IndexFractions),
) -> Result<()> {
    let transaction = core.ensure_transaction()?;
    let mut writer = CatalogWriter::new(&*transaction, Arc::clone(catalog));
    for Found { subject, statistics, operators } in found {
        let none = SlotOperators { equal: 0, less: 0, collation: 0 };
        let row = stored_row(
            subject.relation,
            subject.attribute,
            statistics,
            subject.ty.oid,
            operators.unwrap_or(none),
        );
        writer.put(pg_statistic::TABLE, row).sql()?;
    }
    let mut sizes = vec![(table.oid, sample.total_rows, pages)];
    for index in &table.indexes {
        let fraction =
            fractions.iter().find(|(oid, _)| *oid == index.oid).map_or(1.0, |(_, fraction)| *fraction);
        let rows = (sample.total_rows * fraction).ceil();
        let pages = if index.storage == table.storage { pages } else { self::pages(core, index.storage)? };
        sizes.push((index.oid, rows, pages));
    }
    for (oid, rows, pages) in sizes {
        writer
            .update_where(
                pg_class::TABLE,
                |row| row.oid(pg_class::OID) == oid,
                |row| {
                    row[pg_class::RELTUPLES] = Datum::Float4(rows as f32);
                    row[pg_class::RELPAGES] = Datum::Int4(i32::try_from(pages).unwrap_or(i32::MAX));
                },
            )
            .sql()?;
    }
    core.set_own_catalog(writer.catalog());
    transaction.advance_command();
    Ok(())
}

/// Forgets what is known of a column or, with attribute 0, of a whole table or index.
pub fn forget(writer: &mut CatalogWriter<'_>, relation: Oid, attribute: i16) -> Result<()> {
    writer
        .delete_where(pg_statistic::TABLE, |row| {
            row.oid(pg_statistic::STARELID) == relation
                && (attribute == 0 || row.int(pg_statistic::STAATTNUM) == i64::from(attribute))
        })
        .sql()?;
    Ok(())
}
