//! A function that was found when the query was planned.

use std::fmt;
use std::sync::Arc;

use cairn_catalog::Proc;
use cairn_functions::{Call, RowStream, ScalarFn, SetFn};
use cairn_types::{CallInfo, Datum, Error, Oid, RecordField, Result};

use crate::context::ExecContext;

#[derive(Clone)]
pub enum Body {
    Scalar(ScalarFn),
    Set(SetFn),
    /// Language sql or plpgsql: runs in crate `sql`.
    Runner,
}

/// Body, strictness and the types of one call.
#[derive(Clone)]
pub struct Function {
    pub proc: Arc<Proc>,
    pub body: Body,
    pub strict: bool,
    pub arg_types: Box<[Oid]>,
    pub result_type: Oid,
    pub collation: Oid,
    /// Columns of a record-returning call.
    pub columns: Box<[RecordField]>,
    pub variadic: bool,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:?})", self.proc.name, self.arg_types)
    }
}

impl Function {
    pub fn info(&self) -> CallInfo<'_> {
        CallInfo {
            arg_types: &self.arg_types,
            result_type: self.result_type,
            collation: self.collation,
            columns: &self.columns,
            variadic: self.variadic,
        }
    }

    /// One value.
    #[inline]
    pub fn call(&self, cx: &ExecContext<'_>, args: &[Datum]) -> Result<Datum> {
        if self.strict && args.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        match self.body {
            Body::Scalar(body) => body(&Call { env: cx.env, info: self.info() }, args),
            Body::Runner => {
                crate::stack::check()?;
                cx.runner.call(cx, &self.proc, args, &self.info())
            }
            Body::Set(_) => Err(Error::internal(format!("{} called as a scalar function", self.proc.name))),
        }
    }

    /// The rows of a set-returning function. A function that returns one value gives one row of it.
    pub fn call_set(&self, cx: &ExecContext<'_>, args: &[Datum]) -> Result<Option<Box<dyn RowStream>>> {
        if self.strict && args.iter().any(Datum::is_null) {
            return if self.proc.returns_set { Ok(None) } else { Ok(Some(single(Datum::Null))) };
        }
        match self.body {
            Body::Set(body) => body(&Call { env: cx.env, info: self.info() }, args).map(Some),
            Body::Scalar(body) => Ok(Some(single(body(&Call { env: cx.env, info: self.info() }, args)?))),
            Body::Runner => {
                crate::stack::check()?;
                if self.proc.returns_set {
                    cx.runner.call_set(cx, &self.proc, args, &self.info()).map(Some)
                } else {
                    Ok(Some(single(cx.runner.call(cx, &self.proc, args, &self.info())?)))
                }
            }
        }
    }
}

fn single(value: Datum) -> Box<dyn RowStream> {
    cairn_functions::Rows::boxed(vec![vec![value]])
}
