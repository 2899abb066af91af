//! Schema `cairn`: what the storage does and keeps ([`cairn_catalog`] has the relations' columns).

use cairn_catalog::{Relation, RelationKind};
use cairn_exec::TxnResultExt;
use cairn_txn::{PinInfo, PinKind};
use cairn_types::{Datum, Interval, Oid, Result};

use super::{Arguments, System, optional_text};
use crate::clock;

pub(super) fn call(system: &System<'_>, _: &Arguments<'_>) -> Result<Option<Datum>> {
    Ok(Some(match system.name {
        "cairn_storage_counters" => {
            let totals = system.host.store().read_totals();
            let reads = totals.reads;
            let counters = [
                totals.transactions,
                reads.requests,
                reads.seeks,
                reads.nexts,
                reads.hidden_deletes,
                reads.hidden_keys(),
                reads.keys_found,
                reads.versions_skipped,
                reads.tombstones_skipped,
                reads.ranges_skipped,
                reads.bytes_read,
            ];
            system.rows([counters.into_iter().map(bigint).collect()])
        }
        "cairn_pins" => {
            let mut pins = system.host.store().pins();
            pins.sort_by_key(|pin| pin.time);
            let rows = pins.iter().map(|pin| {
                let [time, age, pid, kind] = system.pin(Some(pin));
                vec![time, age, pid, kind, Datum::Bool(pin.open)]
            });
            system.rows(rows.collect::<Vec<_>>())
        }
        "cairn_tables" => system.rows(system.tables()?),
        _ => return Ok(None),
    }))
}

fn bigint(number: u64) -> Datum {
    Datum::Int8(i64::try_from(number).unwrap_or(i64::MAX))
}

impl System<'_> {
    /// Time, age, pid and kind of a pin.
    fn pin(&self, pin: Option<&PinInfo>) -> [Datum; 4] {
        let Some(pin) = pin else { return [Datum::Null, Datum::Null, Datum::Null, Datum::Null] };
        let store = self.host.store();
        let then = store.wall_clock_us(pin.time);
        let age = store.wall_clock_us(store.now()).saturating_sub(then).max(0);
        [
            Datum::TimestampTz(then.saturating_sub(clock::EPOCH_OFFSET_US)),
            Datum::Interval(Interval { months: 0, days: 0, time_us: age }),
            // 0: the server itself.
            if pin.pid == 0 { Datum::Null } else { Datum::Int4(pin.pid) },
            Datum::text(pin.kind.name()),
        ]
    }

    /// Every key space of a user's table or index.
    fn tables(&self) -> Result<Vec<Vec<Datum>>> {
        let own_pid = self.env.backend_pid();
        // The statement that asks holds nobody up.
        let asking = |pin: &PinInfo| pin.pid == own_pid && pin.kind == PinKind::Statement;
        let pins = self.host.store().pins();
        let oldest = pins.iter().filter(|pin| !asking(pin)).min_by_key(|pin| pin.time);
        let wal_bytes = self.host.store().wal_bytes().sql()?;
        let mut relations: Vec<_> =
            self.catalog.user_relations().filter(|relation| keeps_rows(relation)).collect();
        relations.sort_by_key(|relation| relation.oid);
        let mut rows = Vec::new();
        for relation in relations {
            // The primary key is the table.
            let primary = relation.primary_key.as_ref().map(|key| &*key.name);
            let secondary = relation.indexes.iter().filter(|index| !relation.is_ordered_by(index));
            let spaces = std::iter::once((primary, relation.oid, relation.storage))
                .chain(secondary.map(|index| (Some(&*index.name), index.oid, index.storage)));
            for (index, oid, storage) in spaces {
                rows.push(self.table(relation, index, oid, storage, wal_bytes, oldest)?);
            }
        }
        Ok(rows)
    }

    fn table(
        &self,
        relation: &Relation,
        index: Option<&str>,
        oid: Oid,
        storage: Oid,
        wal_bytes: u64,
        oldest: Option<&PinInfo>,
    ) -> Result<Vec<Datum>> {
        let store = self.host.store();
        let census = store.census(storage).sql()?;
        let usage = store.space_usage(storage).sql()?;
        let mut row = vec![
            Datum::text(&*self.catalog.namespace_name(relation.namespace)),
            Datum::Text(relation.name.clone()),
            optional_text(index),
            Datum::Oid(oid),
            bigint(u64::from(storage)),
            bigint(census.live),
            bigint(census.versions),
            bigint(census.tombstones),
            Datum::Bool(census.estimated),
            bigint(store.dead_ranges(storage)),
            bigint(usage.memtable_bytes),
            bigint(usage.sst_bytes),
            bigint(wal_bytes),
        ];
        row.extend(self.pin(oldest));
        Ok(row)
    }
}

pub(super) fn keeps_rows(relation: &Relation) -> bool {
    matches!(relation.kind, RelationKind::Table | RelationKind::MaterializedView) && relation.storage != 0
}
