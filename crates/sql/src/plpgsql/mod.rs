//! PL/pgSQL: functions, procedures and DO blocks (manual, chapter 43).

pub mod ast;
pub mod interpreter;
pub mod parse;
mod session;
pub mod spi;
