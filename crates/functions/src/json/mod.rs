//! Functions and operators on json and jsonb (manual, section 9.16). The values themselves, their text and their
//! edits are in [`cairn_types::json`]; here is what binds them to SQL: conversion from other types, building,
//! taking apart into rows, records.

pub(crate) mod access;
pub(crate) mod build;
pub(crate) mod convert;
pub(crate) mod edit;
pub(crate) mod path;
pub(crate) mod populate;
pub(crate) mod rows;

use std::sync::Arc;

use cairn_types::{Datum, Error, Jsonb, err};

fn jsonb(value: Jsonb) -> Datum {
    Datum::Jsonb(Arc::new(value))
}

fn invalid(message: impl Into<String>) -> Error {
    err!(INVALID_PARAMETER_VALUE, "{}", message.into())
}
