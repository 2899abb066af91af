//! The picture of the newest committed state, shared by all sessions of a database.
//!
//! A commit that changed the catalog calls [`CatalogCache::begin_publish`] inside its commit section, before anybody
//! can see its writes, and [`CatalogCache::end_publish`] when everybody can. Two rules follow:
//! - A picture is kept only if no such commit was under way when its snapshot was taken, and none began until it was
//!   loaded: then it is exactly the state of its generation.
//! - Who holds a lock on an object that a DDL command of another session would need exclusively, and then finds
//!   [`CatalogCache::generation`] unchanged, has a picture in which the object is as it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn_txn::{BeginOptions, Isolation, Result, SessionHandle, Store};
use parking_lot::Mutex;

use crate::Catalog;
use crate::shared::SharedCatalogs;

#[derive(Default)]
pub struct CatalogCache {
    shared: Option<Arc<dyn SharedCatalogs>>,
    generation: AtomicU64,
    publishing: AtomicU64,
    newest: Mutex<Option<(u64, Arc<Catalog>)>>,
}

impl CatalogCache {
    /// One for each open database; `shared` has the rows of databases and roles.
    pub fn new(shared: Option<Arc<dyn SharedCatalogs>>) -> Self {
        CatalogCache { shared, ..Self::default() }
    }

    /// Changes with each commit that changed the catalog.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// To be called from `before_visible` of a commit that changed the catalog.
    pub fn begin_publish(&self) {
        self.publishing.fetch_add(1, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// To be called after that commit, whether it succeeded or not, once for each `begin_publish`.
    pub fn end_publish(&self) {
        self.publishing.fetch_sub(1, Ordering::SeqCst);
    }

    /// The newest picture and its generation, loaded if a commit has changed the catalog since it was last asked for.
    pub fn current(&self, store: &dyn Store, session: &Arc<SessionHandle>) -> Result<(u64, Arc<Catalog>)> {
        let generation = self.generation();
        let quiet = self.publishing.load(Ordering::SeqCst) == 0;
        let mut newest = self.newest.lock();
        if let Some((_, catalog)) = newest.as_ref().filter(|(of, _)| quiet && *of == generation) {
            return Ok((generation, catalog.clone()));
        }
        let options = BeginOptions {
            session: session.clone(),
            isolation: Isolation::ReadCommitted,
            read_only: true,
            read_time: None,
        };
        let txn = store.begin(options)?;
        let loaded = Catalog::load(&*txn, &txn.snapshot()?);
        txn.rollback();
        let catalog = Arc::new(loaded?.with_shared(self.shared.clone()));
        if quiet && self.generation() == generation {
            *newest = Some((generation, catalog.clone()));
        }
        Ok((generation, catalog))
    }
}
