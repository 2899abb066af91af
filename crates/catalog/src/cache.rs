//! The picture of the newest committed state, shared by all sessions of a database.
//!
//! A commit that changed the catalog calls [`CatalogCache::begin_publish`] inside its commit section, before anybody
//! can see its writes, and [`CatalogCache::end_publish`] when everybody can. Two rules follow:
//! - A picture is kept only if no such commit was under way when its snapshot was taken, and none began until it was
//!   loaded: then it is exactly the state of its generation. So is the picture that a commit leaves behind whose changes
//!   were made on the newest picture before it: DDL after DDL reads nothing from the store.
//! - Who holds a lock on an object that a DDL command of another session would need exclusively, and then finds
//!   [`CatalogCache::generation`] unchanged, has a picture in which the object is as it is.
//!
//! A picture that is given out is durable: commits that change the catalog wait for their fsync before they end their publication.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn_txn::{BeginOptions, Isolation, Result, SessionHandle, Store};
use parking_lot::Mutex;

use crate::Catalog;
use crate::shared::SharedCatalogs;

/// A commit that changed the catalog is under way.
#[derive(Clone, Copy, Debug)]
pub struct Publication {
    generation: u64,
    /// The state after it is the newest picture of before and its own changes: no other commit came between.
    exact: bool,
}

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

    /// To be called from `before_visible` of a commit that changed the catalog. `root` is what its changes were made on
    /// ([`Catalog::root`]).
    pub fn begin_publish(&self, root: u64) -> Publication {
        let others = self.publishing.fetch_add(1, Ordering::SeqCst);
        let before = self.generation.fetch_add(1, Ordering::SeqCst);
        // Nobody waits for a picture inside a commit section.
        let on_newest = self.newest.try_lock().is_some_and(|newest| {
            newest.as_ref().is_some_and(|(of, catalog)| *of == before && catalog.version() == root)
        });
        Publication { generation: before + 1, exact: others == 0 && on_newest }
    }

    /// To be called after that commit, once for each `begin_publish`, with the picture that it has made if it succeeded.
    pub fn end_publish(&self, publication: Publication, picture: Option<Arc<Catalog>>) {
        if let Some(picture) = picture.filter(|_| publication.exact) {
            let mut newest = self.newest.lock();
            if self.generation() == publication.generation {
                *newest = Some((publication.generation, Arc::new(picture.committed())));
            }
        }
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
        let seen = txn.settled_at();
        txn.rollback();
        let catalog = Arc::new(loaded?.with_shared(self.shared.clone()));
        if quiet && self.generation() == generation {
            *newest = Some((generation, catalog.clone()));
        }
        drop(newest);
        // A commit under way may be visible before it is durable, and then its tables would be.
        store.wait_durable(seen);
        Ok((generation, catalog))
    }
}
