//! User objects written, read again, read as they were, rolled back.

use std::cell::Cell;
use std::sync::Arc;

use cairn_catalog::columns::*;
use cairn_catalog::{Catalog, CatalogCache, CatalogWriter, ClusterCatalog, RowExt, SharedCatalogs};
use cairn_txn::*;
use cairn_types::Datum;

fn session() -> Arc<SessionHandle> {
    Arc::new(SessionHandle { pid: 1, interrupt: Arc::new(Interrupt::default()) })
}

fn options(session: &Arc<SessionHandle>) -> BeginOptions {
    BeginOptions {
        session: session.clone(),
        isolation: Isolation::ReadCommitted,
        read_only: false,
        read_time: None,
    }
}

fn namespace(oid: u32, name: &str) -> Vec<Datum> {
    vec![Datum::Oid(oid), Datum::text(name), Datum::Oid(10), Datum::Null]
}

#[test]
fn objects_are_versioned_rows() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = Arc::new(Cluster::open(directory.path()).unwrap());
    cluster.create_database_with_oid("postgres", 5, 10, Origin::Empty).unwrap();
    let shared = Arc::new(ClusterCatalog::open(cluster.clone()).unwrap());
    let store = cluster.database("postgres").unwrap();
    let session = session();
    let cache = CatalogCache::new(Some(shared.clone()));
    let (_, before) = cache.current(&store, &session).unwrap();

    let txn = store.begin(options(&session)).unwrap();
    let old = txn.snapshot().unwrap();
    let mut writer = CatalogWriter::new(&*txn, before.clone());
    writer.put(pg_namespace::TABLE, namespace(20000, "s")).unwrap();
    writer.put(pg_namespace::TABLE, namespace(2200, "")).unwrap();
    let own = writer.catalog();
    assert!(own.namespace_by_name("s").is_some() && own.namespace_by_name("public").is_none());
    assert!(before.namespace_by_name("public").is_some());
    txn.advance_command();
    let reloaded = Catalog::load(&*txn, &txn.snapshot().unwrap()).unwrap();
    assert!(reloaded.namespace_by_name("s").is_some());
    let publication = Cell::new(None);
    txn.commit(Durability::Sync, Some(&|| publication.set(Some(cache.begin_publish(own.root()))))).unwrap();
    cache.end_publish(publication.get().unwrap(), Some(own.clone()));

    let (_, after) = cache.current(&store, &session).unwrap();
    assert_eq!(after.version(), own.version(), "nothing was read from the store");
    assert_eq!(after.root(), own.version(), "the next changes are made on it");
    // Changes that were made on an older picture lack what came between.
    cache.end_publish(cache.begin_publish(before.version()), Some(before.clone()));
    let (_, after) = cache.current(&store, &session).unwrap();
    assert!(after.version() != own.version() && after.version() != before.version());
    // Neither is there a picture while another commit is under way.
    let first = cache.begin_publish(after.version());
    let second = cache.begin_publish(after.version());
    cache.end_publish(second, Some(before.clone()));
    cache.end_publish(first, Some(before.clone()));
    let (_, after) = cache.current(&store, &session).unwrap();
    assert_ne!(after.version(), before.version());

    let by_name = 1;
    let found = |name| after.system_rows_by_key(pg_namespace::TABLE, by_name, &[Datum::text(name)]).len();
    assert_eq!((found("s"), found("public"), found("pg_catalog"), found("x")), (1, 0, 1, 0));
    assert_eq!(after.namespace_by_name("s").unwrap().oid, 20000);
    assert_eq!(after.system_rows(pg_namespace::TABLE).len(), before.system_rows(pg_namespace::TABLE).len());
    let txn = store.begin(options(&session)).unwrap();
    assert!(Catalog::load(&*txn, &old).unwrap().namespace_by_name("s").is_none());

    assert_eq!(after.system_rows(pg_database::TABLE).len(), 1);
    assert_eq!(shared.role_name(10).as_deref(), Some("postgres"));
    let mut row = cairn_catalog::shared::role_row(shared.new_role_oid().unwrap(), "bob", true);
    row[pg_authid::ROLPASSWORD] = Datum::text("secret");
    shared.put(pg_authid::TABLE, row.clone()).unwrap();
    assert_eq!(shared.role("bob").unwrap().oid(pg_authid::OID), 16384);
    shared.delete(pg_authid::TABLE, &row).unwrap();
    assert!(shared.role("bob").is_none());
}
