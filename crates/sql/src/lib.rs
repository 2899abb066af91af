//! A client's session: transactions, statements, settings; DDL, COPY and whatever else stands between the
//! protocol and the executor.
//!
//! Read in this order: [`client`] (what the protocol asks for), [`session`] (what its messages do), [`transaction`] (blocks),
//! [`statement`] and [`run`] (from text to rows), [`portal`], [`utility`] (everything that is no query).

pub mod client;
mod clock;
mod copy;
pub mod core;
mod cursors;
pub mod ddl;
mod debt;
mod definition;
mod domains;
mod explain;
mod host;
mod instance;
mod maintenance;
mod names;
mod nodes;
mod notices;
mod notify;
pub mod password;
pub mod plpgsql;
mod portal;
mod read_time;
pub mod rights;
mod routines;
mod run;
mod session;
pub mod settings;
mod shapes;
mod statement;
mod statistics;
pub mod system_functions;
mod tags;
mod temporary;
mod transaction;
mod utility;
pub mod values;
mod variables;

pub use crate::core::{Core, User};
pub use cairn_txn::Answer;
pub use cairn_txn::{EngineOptions, Recovery, Resources};
pub use client::*;
pub use debt::Debt;
pub use instance::{Activity, Instance, InstanceBackend, OpenDatabase, SessionEntry};
pub use session::{PreparedStatement, Session};
pub use statistics::automatic::Automatic;
