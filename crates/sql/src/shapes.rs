//! Plans of simple queries, kept by the shape of their text.
//!
//! Clients of the simple protocol write values into the text, so that every text is new. Its shape
//! ([`cairn_analyze::parse::shape`]) is not: the literals have become parameters. What is kept here is a shape's
//! compiled statement; a text that has one skips parser, analyzer and planner. What a statement means may depend on how dates and
//! such are written: after a change of those settings everything is compiled anew.
//!
//! Where anything about a shape goes wrong, the statement takes the long way, which also makes the better error message.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cairn_analyze::parse::shape::{LiteralClass, Shape, shape};
use cairn_analyze::{Parameters, RawStatement};
use cairn_types::{Datum, Error, Oid, Result, io};
use hashbrown::HashMap;

use crate::core::Core;
use crate::statement::Compiled;

/// More shapes than this are forgotten all at once.
const SHAPES_MAX: usize = 2000;

/// Statements of the simple protocol that have been seen before; `None`: a shape that is of no use.
#[derive(Default)]
pub struct ShapeCache {
    entries: HashMap<String, Option<Rc<Entry>>>,
    /// The formats that they were compiled under.
    formats: usize,
}

struct Entry {
    /// The shape's text.
    text: Box<str>,
    /// Types of the literals where the text says them, of the places where they stand else.
    types: RefCell<Vec<Oid>>,
    given: Vec<Oid>,
    compiled: RefCell<Rc<Compiled>>,
}

/// A text that is one statement.
fn parse(text: &str) -> Option<Arc<RawStatement>> {
    let mut statements = cairn_analyze::parse(text).ok()?;
    statements.pop().filter(|_| statements.is_empty()).map(Arc::new)
}

impl Entry {
    fn new(core: &Core, shape: &Shape) -> Option<Self> {
        let raw = parse(shape.text())?;
        let given = shape.parameter_types();
        let types = RefCell::new(given.clone());
        let compiled = Rc::new(Compiled::new(core, &raw, Parameters::Infer(&types)).ok()?);
        if !compiled.is_worth_keeping() {
            return None;
        }
        Some(Entry { text: shape.text().into(), types, given, compiled: RefCell::new(compiled) })
    }

    /// The statement for the catalog as it is.
    fn compiled(&self, core: &Core) -> Result<Rc<Compiled>> {
        let kept = Rc::clone(&self.compiled.borrow());
        if kept.is_current(core)? {
            return Ok(kept);
        }
        let types = RefCell::new(self.given.clone());
        let raw = parse(&self.text).ok_or_else(|| Error::internal("a shape is no statement any more"))?;
        let fresh = Rc::new(Compiled::new(core, &raw, Parameters::Infer(&types))?);
        *self.types.borrow_mut() = types.into_inner();
        *self.compiled.borrow_mut() = Rc::clone(&fresh);
        Ok(fresh)
    }

    /// The literals' values in the types that the statement gives them.
    fn params(&self, core: &Core, shape: &Shape) -> Result<Arc<[Datum]>> {
        let types = self.types.borrow();
        let mut params = Vec::with_capacity(shape.literals.len());
        for (literal, ty) in shape.literals.iter().zip(types.iter()) {
            params.push(match (&literal.value, literal.class) {
                (Datum::Text(text), LiteralClass::Unknown) => io::input(text, *ty, -1, core)
                    .map_err(|error| error.at(i32::try_from(literal.position).unwrap_or(-1)))?,
                (value, _) => value.clone(),
            });
        }
        Ok(params.into())
    }
}

/// A statement from the cache with the values that its text carries.
pub struct Cached {
    pub compiled: Rc<Compiled>,
    pub params: Arc<[Datum]>,
    entry: Rc<Entry>,
}

impl Cached {
    /// Makes the statement anew after a change of the catalog.
    pub fn recompile(&self, core: &Core) -> Result<Rc<Compiled>> {
        self.entry.compiled(core)
    }

    /// The error as the client is to see it: positions inside the shape's text mean nothing where that is not the client's.
    pub fn for_client(&self, mut error: Error) -> Error {
        if !self.entry.given.is_empty() && error.report().internal_query.is_none() {
            error.report_mut().location = None;
        }
        error
    }
}

impl ShapeCache {
    /// The statement ready to run; `None` sends it the long way.
    pub fn get(&mut self, core: &Core, text: &str) -> Result<Option<Cached>> {
        let Some(shape) = shape(text) else { return Ok(None) };
        if self.formats != core.formats_number() {
            self.entries.clear();
            self.formats = core.formats_number();
        }
        let entry = match self.entries.get(shape.key()) {
            Some(entry) => entry.clone(),
            None => {
                let entry = Entry::new(core, &shape).map(Rc::new);
                if self.entries.len() >= SHAPES_MAX {
                    self.entries.clear();
                }
                self.entries.insert(shape.key().to_owned(), entry.clone());
                entry
            }
        };
        let Some(entry) = entry else { return Ok(None) };
        // The table may be gone: the long way says so, with the position.
        let Ok(compiled) = entry.compiled(core) else {
            self.entries.remove(shape.key());
            return Ok(None);
        };
        // A literal that its type refuses: the original says so as PostgreSQL would, in its order and with its position.
        let Ok(params) = entry.params(core, &shape) else { return Ok(None) };
        Ok(Some(Cached { compiled, params, entry }))
    }
}
