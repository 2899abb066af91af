//! Compiled expressions: functions resolved, columns turned into register numbers, casts prepared.
//!
//! [`Code`] is a tree that [`Code::eval`] walks; nothing is looked up while it runs. What is cheap stays cheap: a
//! comparison of two registers or constants looks at them in place, arithmetic on numbers allocates nothing.
//! Its depth is bounded when it is compiled (54001).

pub mod compile;
pub mod constant;
pub mod equal;
mod eval;
pub mod function;
pub mod subscript;

use std::sync::Arc;

use cairn_analyze::query::{BooleanTest, SqlValueFunction};
use cairn_catalog::BtreeStrategy;
use cairn_types::{Datum, Oid, RecordField, Text};

pub use eval::{collect_array, eval_all, whole_row};
pub use function::{Body, Function};

/// An expression over the registers of a frame.
#[derive(Clone, Debug)]
pub enum Code {
    Const(Datum),
    Register(usize),
    /// `$n`, from 0.
    Param(usize),
    Call {
        function: Box<Function>,
        args: Box<[Code]>,
    },
    Call1 {
        function: Box<Function>,
        arg: Box<Code>,
    },
    Call2 {
        function: Box<Function>,
        args: Box<[Code; 2]>,
    },
    /// A comparison operator of a btree operator class whose order is that of [`cairn_types::compare`].
    Compare {
        test: CompareTest,
        blank_padded: bool,
        args: Box<[Code; 2]>,
    },
    DistinctFrom {
        equal: Box<Function>,
        args: Box<[Code; 2]>,
    },
    NullIf {
        equal: Box<Function>,
        args: Box<[Code; 2]>,
    },
    And(Box<[Code]>),
    Or(Box<[Code]>),
    Not(Box<Code>),
    /// A binary-coercible cast between integer and oid: the same bits in another form.
    Int4AsOid(Box<Code>),
    OidAsInt4(Box<Code>),
    ArrayOperator {
        function: Box<Function>,
        any: bool,
        left: Box<Code>,
        array: Box<Code>,
    },
    /// Field of a composite value, from 0.
    Field {
        record: Box<Code>,
        index: usize,
    },
    ViaIo {
        arg: Box<Code>,
        source: Oid,
        target: Oid,
        typmod: i32,
    },
    /// Evaluates `element` for each element, which it finds in `register`.
    ArrayCoerce {
        arg: Box<Code>,
        element: Box<Code>,
        register: usize,
        element_type: Oid,
    },
    ConvertRow {
        arg: Box<Code>,
        type_oid: Oid,
        fields: Arc<[RecordField]>,
    },
    Domain(Box<DomainCheck>),
    Case {
        subject: Option<(Box<Code>, usize)>,
        whens: Box<[(Code, Code)]>,
        default: Box<Code>,
    },
    Array {
        elements: Box<[Code]>,
        element_type: Oid,
        multidimensional: bool,
    },
    Row {
        fields: Box<[Code]>,
        type_oid: Oid,
        shape: Arc<[RecordField]>,
    },
    /// The whole row of a table or subquery; null if the row was null-extended by an outer join.
    WholeRow {
        registers: Box<[usize]>,
        type_oid: Oid,
        shape: Arc<[RecordField]>,
    },
    RowCompare {
        strategy: BtreeStrategy,
        equals: Box<[(Function, Function)]>,
        left: Box<[Code]>,
        right: Box<[Code]>,
    },
    Coalesce(Box<[Code]>),
    MinMax {
        greatest: bool,
        blank_padded: bool,
        args: Box<[Code]>,
    },
    SqlValue {
        function: SqlValueFunction,
        typmod: i32,
    },
    NullTest {
        arg: Box<Code>,
        is_null: bool,
        row: bool,
    },
    BooleanTest {
        arg: Box<Code>,
        test: BooleanTest,
    },
    NextValue {
        sequence: Oid,
        ty: Oid,
    },
    Subscript(Box<Subscript>),
    /// A subquery used as an expression, by its number in the plan.
    SubPlan(usize),
    /// Its answer for this row, once more.
    SubPlanAgain(usize),
    /// `where current of`: whether the row whose key is in the register is the cursor's.
    CurrentOf {
        cursor: Text,
        table: Oid,
        key: usize,
    },
    /// GROUPING(...): for each grouping set the answer, chosen by the register that holds the set's number.
    Grouping {
        register: usize,
        answers: Box<[i32]>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareTest {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl CompareTest {
    #[inline]
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            CompareTest::Equal => order.is_eq(),
            CompareTest::NotEqual => order.is_ne(),
            CompareTest::Less => order.is_lt(),
            CompareTest::LessEqual => order.is_le(),
            CompareTest::Greater => order.is_gt(),
            CompareTest::GreaterEqual => order.is_ge(),
        }
    }
}

/// A cast to a domain: its NOT NULL and its checks over the value in `register`.
#[derive(Clone, Debug)]
pub struct DomainCheck {
    pub arg: Code,
    pub domain: Oid,
    pub name: Text,
    pub not_null: bool,
    pub checks: Vec<(Text, Code)>,
    pub register: usize,
}

#[derive(Clone, Debug)]
pub struct Subscript {
    pub container: Code,
    pub container_type: Oid,
    pub element_type: Oid,
    pub upper: Vec<Option<Code>>,
    pub lower: Vec<Option<Code>>,
    pub slice: bool,
    pub assignment: Option<Code>,
    /// jsonb is subscripted by text and integers, arrays by integers.
    pub jsonb: bool,
}

impl Code {
    pub const TRUE: Code = Code::Const(Datum::Bool(true));

    pub fn null() -> Code {
        Code::Const(Datum::Null)
    }

    pub fn as_const(&self) -> Option<&Datum> {
        match self {
            Code::Const(value) => Some(value),
            _ => None,
        }
    }
}
