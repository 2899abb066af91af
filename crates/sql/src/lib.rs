//! A client's session: transactions, statements, settings; DDL, COPY and whatever else stands between the
//! protocol and the executor.

pub mod client;
pub mod plpgsql;
pub mod settings;
pub mod system_functions;
pub mod values;

pub use client::*;
