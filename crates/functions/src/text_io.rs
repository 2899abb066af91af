//! The input and output functions of types, called by name: `int4in('5')`, `textout(x)`. Casts do not come here;
//! the executor calls [`cairn_types::io`] itself.

use cairn_types::{Datum, Oid, Result, io, types};

use crate::{Args, Call, ScalarFn};

/// `in(cstring [, element or type oid, modifier])`
fn input(call: &Call<'_>, args: &[Datum], type_oid: Oid) -> Result<Datum> {
    let typmod = if args.len() > 2 && !args.is_null(2) { args.int4(2)? } else { -1 };
    io::input(args.str(0)?, type_oid, typmod, call.env)
}

fn output(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let type_oid = call.info.arg_types.first().copied().unwrap_or(types::UNKNOWN);
    Ok(Datum::text(io::output_string(args.any(0), type_oid, call.env)?))
}

macro_rules! text_io {
    ($($input:literal, $output:literal, $type_oid:expr;)*) => {
        &[$(
            ($input, |call, a| input(call, a, $type_oid)),
            ($output, |call, a| output(call, a)),
        )*]
    };
}

pub const BODIES: &[(&str, ScalarFn)] = text_io! {
    "boolin", "boolout", types::BOOL;
    "bpcharin", "bpcharout", types::BPCHAR;
    "byteain", "byteaout", types::BYTEA;
    "charin", "charout", types::CHAR;
    "cidin", "cidout", types::CID;
    "cstring_in", "cstring_out", types::CSTRING;
    "date_in", "date_out", types::DATE;
    "float4in", "float4out", types::FLOAT4;
    "float8in", "float8out", types::FLOAT8;
    "int2in", "int2out", types::INT2;
    "int2vectorin", "int2vectorout", types::INT2VECTOR;
    "int4in", "int4out", types::INT4;
    "int8in", "int8out", types::INT8;
    "interval_in", "interval_out", types::INTERVAL;
    "json_in", "json_out", types::JSON;
    "jsonb_in", "jsonb_out", types::JSONB;
    "namein", "nameout", types::NAME;
    "numeric_in", "numeric_out", types::NUMERIC;
    "oidin", "oidout", types::OID;
    "oidvectorin", "oidvectorout", types::OIDVECTOR;
    "pg_lsn_in", "pg_lsn_out", types::PG_LSN;
    "regclassin", "regclassout", types::REGCLASS;
    "regcollationin", "regcollationout", types::REGCOLLATION;
    "regnamespacein", "regnamespaceout", types::REGNAMESPACE;
    "regoperatorin", "regoperatorout", types::REGOPERATOR;
    "regoperin", "regoperout", types::REGOPER;
    "regprocedurein", "regprocedureout", types::REGPROCEDURE;
    "regprocin", "regprocout", types::REGPROC;
    "regrolein", "regroleout", types::REGROLE;
    "regtypein", "regtypeout", types::REGTYPE;
    "textin", "textout", types::TEXT;
    "tidin", "tidout", types::TID;
    "time_in", "time_out", types::TIME;
    "timestamp_in", "timestamp_out", types::TIMESTAMP;
    "timestamptz_in", "timestamptz_out", types::TIMESTAMPTZ;
    "timetz_in", "timetz_out", types::TIMETZ;
    "unknownin", "unknownout", types::UNKNOWN;
    "uuid_in", "uuid_out", types::UUID;
    "varcharin", "varcharout", types::VARCHAR;
    "void_in", "void_out", types::VOID;
    "xid8in", "xid8out", types::XID8;
    "xidin", "xidout", types::XID;
};

/// Those whose type is an argument.
pub const GENERIC: &[(&str, ScalarFn)] = &[
    ("array_out", |call, a| output(call, a)),
    ("anyarray_out", |call, a| output(call, a)),
    ("enum_out", |call, a| output(call, a)),
    ("anyenum_out", |call, a| output(call, a)),
    ("record_out", |call, a| output(call, a)),
    ("enum_in", |call, a| io::input(a.str(0)?, a.oid(1)?, -1, call.env)),
    ("record_in", |call, a| {
        let type_oid = a.oid(1)?;
        input(call, a, type_oid)
    }),
    // regclass(text), which nextval('name'::text) calls.
    ("text_regclass", |call, a| io::input(a.str(0)?, types::REGCLASS, -1, call.env)),
];
