//! The tree of a PL/pgSQL body (manual, chapter 43).
//!
//! SQL inside it stays text: a [`Fragment`] is analyzed when it first runs, with the variables of its
//! [`Scope`] visible, and then kept as a plan.

use std::collections::HashMap;

/// Index of a variable in the function's frame.
pub type Slot = usize;
pub type ScopeId = usize;

/// A parsed body. The first slots are the function's parameters, in order; then comes `found`.
#[derive(Debug)]
pub struct Function {
    pub block: Block,
    pub variables: Vec<Variable>,
    pub scopes: Vec<Scope>,
    /// Slot of the variable `found`.
    pub found: Slot,
    /// How many fragments there are: each has a number, under which its plan is kept.
    pub fragment_count: usize,
    pub conflict: VariableConflict,
    /// `#print_strict_params`, where it is written.
    pub print_strict_params: Option<bool>,
}

/// What a function returns, as far as its RETURN statements depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// SETOF and TABLE; `outputs`: the columns are OUT parameters.
    Set {
        outputs: bool,
    },
    Procedure,
    Void,
    /// OUT parameters.
    Outputs,
    Value,
}

/// `#variable_conflict`: what a name means that is a variable and a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableConflict {
    Error,
    UseVariable,
    UseColumn,
}

/// Names visible at one place, innermost first through `parent`.
#[derive(Debug, Default)]
pub struct Scope {
    pub parent: Option<ScopeId>,
    /// Label of the block (or the function's name), by which its names can be qualified.
    pub label: Option<String>,
    pub names: HashMap<String, Slot>,
}

#[derive(Debug)]
pub struct Variable {
    pub name: String,
    pub kind: VariableKind,
    pub constant: bool,
    pub not_null: bool,
    pub line: usize,
}

#[derive(Debug)]
pub enum VariableKind {
    /// A type name as written, `%type` and `%rowtype` included.
    Typed(String),
    /// A record that takes the shape of what is assigned to it.
    Record,
    Cursor(Box<CursorDeclaration>),
    /// Takes the type of the first value assigned (loop variables of `case`).
    Untyped,
    /// `sqlstate`, `sqlerrm` of an exception handler.
    Text,
    Integer,
    Boolean,
}

#[derive(Debug)]
pub struct CursorDeclaration {
    pub scroll: Option<bool>,
    pub args: Vec<(String, Slot)>,
    /// `None`: an unbound `refcursor`.
    pub query: Option<Fragment>,
}

/// A piece of SQL.
#[derive(Clone, Debug)]
pub struct Fragment {
    pub number: usize,
    /// As written; what does not belong to it (an INTO clause) is blanked with spaces, so that positions hold.
    pub text: String,
    /// Place in the body, in bytes.
    pub offset: usize,
    pub line: usize,
    pub scope: ScopeId,
    /// Variables from this slot on are declared behind the fragment, which does not see them.
    pub visible: Slot,
}

#[derive(Debug)]
pub struct Block {
    pub label: Option<String>,
    /// Variables to set on entry, with their defaults.
    pub declared: Vec<(Slot, Option<Fragment>)>,
    pub body: Vec<Statement>,
    pub handlers: Option<Handlers>,
    pub line: usize,
}

#[derive(Debug)]
pub struct Handlers {
    pub sqlstate: Slot,
    pub sqlerrm: Slot,
    pub handlers: Vec<Handler>,
}

#[derive(Debug)]
pub struct Handler {
    pub conditions: Vec<Condition>,
    pub body: Vec<Statement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Others,
    /// A condition name, lower case.
    Name(String),
    SqlState([u8; 5]),
}

#[derive(Debug)]
pub struct Statement {
    pub line: usize,
    pub kind: StatementKind,
}

#[derive(Debug)]
pub enum StatementKind {
    Block(Block),
    Assign {
        target: AssignTarget,
        value: Fragment,
    },
    If {
        branches: Vec<(Fragment, Vec<Statement>)>,
        otherwise: Vec<Statement>,
    },
    Case {
        subject: Option<(Slot, Fragment)>,
        whens: Vec<(Fragment, Vec<Statement>)>,
        otherwise: Option<Vec<Statement>>,
    },
    Loop {
        label: Option<String>,
        body: Vec<Statement>,
    },
    While {
        label: Option<String>,
        condition: Fragment,
        body: Vec<Statement>,
    },
    ForInteger {
        label: Option<String>,
        variable: Slot,
        reverse: bool,
        from: Fragment,
        to: Fragment,
        by: Option<Fragment>,
        body: Vec<Statement>,
    },
    ForQuery {
        label: Option<String>,
        target: Vec<AssignTarget>,
        query: Rows,
        body: Vec<Statement>,
    },
    ForCursor {
        label: Option<String>,
        target: Slot,
        cursor: Slot,
        args: Option<Fragment>,
        body: Vec<Statement>,
    },
    ForEach {
        label: Option<String>,
        target: Vec<AssignTarget>,
        slice: usize,
        array: Fragment,
        body: Vec<Statement>,
    },
    /// EXIT (true) or CONTINUE.
    Exit {
        exit: bool,
        label: Option<String>,
        when: Option<Fragment>,
    },
    Return(Option<Fragment>),
    ReturnNext(Option<Fragment>),
    ReturnQuery(Rows),
    Raise(Raise),
    Assert {
        condition: Fragment,
        message: Option<Fragment>,
    },
    /// A SQL statement, PERFORM, or CALL.
    Sql {
        statement: Fragment,
        perform: bool,
        into: Option<Into>,
    },
    Execute {
        text: Fragment,
        using: Vec<Fragment>,
        into: Option<Into>,
    },
    GetDiagnostics {
        stacked: bool,
        items: Vec<(AssignTarget, String)>,
    },
    Open {
        cursor: Slot,
        scroll: Option<bool>,
        source: OpenSource,
    },
    Fetch {
        cursor: Slot,
        direction: FetchDirection,
        into: Option<Vec<AssignTarget>>,
    },
    Close {
        cursor: Slot,
    },
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Null,
}

/// A query, or text to be run as one.
#[derive(Debug)]
pub enum Rows {
    Static(Fragment),
    Dynamic { text: Fragment, using: Vec<Fragment> },
}

#[derive(Debug)]
pub enum OpenSource {
    /// A declared cursor, with its arguments as one list.
    Bound(Option<Fragment>),
    Rows(Rows),
}

#[derive(Debug)]
pub enum FetchDirection {
    Next,
    Prior,
    First,
    Last,
    Absolute(Fragment),
    Relative(Fragment),
    /// FORWARD / BACKWARD, `None`: ALL.
    Forward(Option<Fragment>),
    Backward(Option<Fragment>),
}

#[derive(Debug)]
pub struct Into {
    pub strict: bool,
    pub targets: Vec<AssignTarget>,
}

/// What is assigned to: a variable, or a place inside it.
#[derive(Clone, Debug)]
pub struct AssignTarget {
    pub slot: Slot,
    pub path: Vec<PathStep>,
    /// As written, for messages.
    pub text: String,
}

#[derive(Clone, Debug)]
pub enum PathStep {
    Field(String),
    Subscript(Fragment),
    Slice(Option<Fragment>, Option<Fragment>),
}

#[derive(Debug)]
pub struct Raise {
    pub level: RaiseLevel,
    /// Neither a message nor a condition: re-raise.
    pub message: Option<String>,
    pub params: Vec<Fragment>,
    pub condition: Option<Condition>,
    pub options: Vec<(String, Fragment)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaiseLevel {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Exception,
}
