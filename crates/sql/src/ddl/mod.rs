//! Data definition: one file for each family of statements.
//!
//! A command works in steps. Each step writes catalog rows through [`DdlContext::change`], which leaves the context (and
//! the session) with the picture that has them, so the next step looks up what the last one made. The transaction makes
//! the whole atomic; the locks that a command takes on objects and names keep others from seeing half of it.
//!
//! Read [`context`] first, then [`relation`] and [`depend`].

mod alter_table;
mod alter_type;
mod comment;
mod constraint;
mod context;
pub mod data;
mod database;
mod default_privileges;
pub mod depend;
mod drop;
mod entries;
mod extension;
mod function;
mod grant;
mod index;
mod names;
mod node;
mod owned;
mod relation;
mod reloptions;
mod rename;
mod role;
mod row_types;
mod rows;
mod schema;
mod sequence;
mod table;
mod table_as;
pub mod text;
mod truncate;
mod types;
mod view;

pub use context::{DdlContext, DdlHost, OnCommit, RowSink};
pub use sequence::sequence_options;
pub use table_as::{create_table_as, refresh};
pub use truncate::truncate_tables;

use cairn_analyze::RawStatement;
use cairn_types::{Error, Result};
use pg_query::protobuf::{ObjectType, node::Node};

/// Runs a DDL statement; its command tag. `None`: the statement is none of these.
pub fn execute(cx: &mut DdlContext<'_>, statement: &RawStatement) -> Result<Option<String>> {
    run(cx, &statement.node, statement)
}

fn run(cx: &mut DdlContext<'_>, node: &Node, raw: &RawStatement) -> Result<Option<String>> {
    let tag = match node {
        Node::CreateStmt(statement) => {
            table::create(cx, statement, &raw.key_orders)?;
            "CREATE TABLE".to_owned()
        }
        Node::AlterTableStmt(statement) => {
            alter_table::alter(cx, statement, &raw.key_orders)?;
            format!("ALTER {}", object_tag(statement.objtype()))
        }
        Node::IndexStmt(statement) => {
            index::create(cx, statement, &raw.key_orders)?;
            "CREATE INDEX".to_owned()
        }
        Node::ReindexStmt(statement) => {
            index::reindex(cx, statement)?;
            "REINDEX".to_owned()
        }
        Node::CreateSeqStmt(statement) => {
            sequence::create(cx, statement)?;
            "CREATE SEQUENCE".to_owned()
        }
        Node::AlterSeqStmt(statement) => {
            sequence::alter(cx, statement)?;
            "ALTER SEQUENCE".to_owned()
        }
        Node::DropStmt(statement) => {
            drop::drop(cx, statement)?;
            format!("DROP {}", object_tag(statement.remove_type()))
        }
        Node::TruncateStmt(statement) => {
            truncate::truncate(cx, statement)?;
            "TRUNCATE TABLE".to_owned()
        }
        Node::ViewStmt(statement) => {
            view::create(cx, statement, raw)?;
            "CREATE VIEW".to_owned()
        }
        Node::CreateSchemaStmt(statement) => {
            schema::create(cx, statement, raw)?;
            "CREATE SCHEMA".to_owned()
        }
        Node::CreateEnumStmt(statement) => {
            types::create_enum(cx, statement)?;
            "CREATE TYPE".to_owned()
        }
        Node::AlterEnumStmt(statement) => {
            types::alter_enum(cx, statement)?;
            "ALTER TYPE".to_owned()
        }
        Node::CompositeTypeStmt(statement) => {
            types::create_composite(cx, statement)?;
            "CREATE TYPE".to_owned()
        }
        Node::CreateDomainStmt(statement) => {
            types::create_domain(cx, statement)?;
            "CREATE DOMAIN".to_owned()
        }
        Node::CreateFunctionStmt(statement) => {
            function::create(cx, statement)?;
            if statement.is_procedure { "CREATE PROCEDURE" } else { "CREATE FUNCTION" }.to_owned()
        }
        Node::AlterFunctionStmt(statement) => {
            function::alter(cx, statement)?;
            format!("ALTER {}", object_tag(statement.objtype()))
        }
        Node::CreateExtensionStmt(statement) => {
            extension::create(cx, statement)?;
            "CREATE EXTENSION".to_owned()
        }
        Node::CommentStmt(statement) => {
            comment::comment(cx, statement)?;
            "COMMENT".to_owned()
        }
        Node::RenameStmt(statement) => {
            rename::rename(cx, statement)?;
            format!("ALTER {}", object_tag(rename::tag_kind(statement)))
        }
        Node::AlterObjectSchemaStmt(statement) => {
            rename::set_schema(cx, statement)?;
            format!("ALTER {}", object_tag(statement.object_type()))
        }
        Node::AlterOwnerStmt(statement) => {
            rename::set_owner(cx, statement)?;
            format!("ALTER {}", object_tag(statement.object_type()))
        }
        Node::CreatedbStmt(statement) => {
            database::create(cx, statement)?;
            "CREATE DATABASE".to_owned()
        }
        Node::DropdbStmt(statement) => {
            database::drop(cx, statement)?;
            "DROP DATABASE".to_owned()
        }
        Node::AlterDatabaseStmt(statement) => {
            database::alter(cx, statement)?;
            "ALTER DATABASE".to_owned()
        }
        Node::AlterDatabaseSetStmt(statement) => {
            role::set_for_database(cx, statement)?;
            "ALTER DATABASE".to_owned()
        }
        Node::CreateRoleStmt(statement) => {
            role::create(cx, statement)?;
            "CREATE ROLE".to_owned()
        }
        Node::AlterRoleStmt(statement) => {
            role::alter(cx, statement)?;
            "ALTER ROLE".to_owned()
        }
        Node::AlterRoleSetStmt(statement) => {
            role::set(cx, statement)?;
            "ALTER ROLE".to_owned()
        }
        Node::DropRoleStmt(statement) => {
            role::drop(cx, statement)?;
            "DROP ROLE".to_owned()
        }
        Node::DropOwnedStmt(statement) => {
            owned::drop(cx, statement)?;
            "DROP OWNED".to_owned()
        }
        Node::ReassignOwnedStmt(statement) => {
            owned::reassign(cx, statement)?;
            "REASSIGN OWNED".to_owned()
        }
        Node::GrantRoleStmt(statement) => {
            role::grant(cx, statement)?;
            if statement.is_grant { "GRANT ROLE" } else { "REVOKE ROLE" }.to_owned()
        }
        Node::GrantStmt(statement) => {
            grant::grant(cx, statement)?;
            if statement.is_grant { "GRANT" } else { "REVOKE" }.to_owned()
        }
        Node::AlterDefaultPrivilegesStmt(statement) => {
            default_privileges::alter(cx, statement)?;
            "ALTER DEFAULT PRIVILEGES".to_owned()
        }
        Node::RefreshMatViewStmt(statement) => {
            table_as::refresh(cx, statement)?;
            "REFRESH MATERIALIZED VIEW".to_owned()
        }
        other => return refuse(other),
    };
    Ok(Some(tag))
}

/// Names what Cairn does not have; statements of other families are not ours to refuse.
fn refuse(node: &Node) -> Result<Option<String>> {
    let what = match node {
        Node::CreateTrigStmt(_) => "CREATE TRIGGER is",
        Node::RuleStmt(_) => "CREATE RULE is",
        Node::CreatePolicyStmt(_) | Node::AlterPolicyStmt(_) => "row-level security policies are",
        Node::CreatePublicationStmt(_) | Node::AlterPublicationStmt(_) => "publications are",
        Node::CreateSubscriptionStmt(_) | Node::AlterSubscriptionStmt(_) | Node::DropSubscriptionStmt(_) => {
            "subscriptions are"
        }
        Node::CreateForeignTableStmt(_) | Node::ImportForeignSchemaStmt(_) => "foreign tables are",
        Node::CreateFdwStmt(_) | Node::AlterFdwStmt(_) => "foreign-data wrappers are",
        Node::CreateForeignServerStmt(_) | Node::AlterForeignServerStmt(_) => "foreign servers are",
        Node::CreateUserMappingStmt(_) | Node::AlterUserMappingStmt(_) | Node::DropUserMappingStmt(_) => {
            "user mappings are"
        }
        Node::CreateTableSpaceStmt(_) | Node::DropTableSpaceStmt(_) | Node::AlterTableSpaceOptionsStmt(_) => {
            "tablespaces are"
        }
        Node::CreateRangeStmt(_) => "CREATE TYPE ... AS RANGE is",
        Node::DefineStmt(statement) => match statement.kind() {
            ObjectType::ObjectAggregate => "CREATE AGGREGATE is",
            ObjectType::ObjectOperator => "CREATE OPERATOR is",
            ObjectType::ObjectType => "CREATE TYPE of a base type is",
            ObjectType::ObjectCollation => "CREATE COLLATION is",
            _ => "this kind of object is",
        },
        Node::CreateCastStmt(_) => "CREATE CAST is",
        Node::CreateOpClassStmt(_) | Node::CreateOpFamilyStmt(_) | Node::AlterOpFamilyStmt(_) => {
            "operator classes and families of users are"
        }
        Node::CreateConversionStmt(_) => "CREATE CONVERSION is",
        Node::CreatePlangStmt(_) => "CREATE LANGUAGE is",
        Node::CreateTransformStmt(_) => "CREATE TRANSFORM is",
        Node::CreateEventTrigStmt(_) | Node::AlterEventTrigStmt(_) => "event triggers are",
        Node::CreateStatsStmt(_) | Node::AlterStatsStmt(_) => "extended statistics are",
        Node::CreateAmStmt(_) => "CREATE ACCESS METHOD is",
        Node::AlterDomainStmt(_) => "ALTER DOMAIN is",
        Node::AlterTypeStmt(_) => "ALTER TYPE of a base type is",
        Node::AlterOperatorStmt(_) => "ALTER OPERATOR is",
        Node::AlterExtensionStmt(_) | Node::AlterExtensionContentsStmt(_) => "ALTER EXTENSION is",
        Node::AlterTableMoveAllStmt(_) => "moving tables between tablespaces is",
        Node::AlterObjectDependsStmt(_) => "DEPENDS ON EXTENSION is",
        Node::AlterSystemStmt(_) => "ALTER SYSTEM is",
        Node::SecLabelStmt(_) => "SECURITY LABEL is",
        _ => return Ok(None),
    };
    Err(Error::unsupported(what))
}

/// The kind of object in command tags.
fn object_tag(kind: ObjectType) -> &'static str {
    match kind {
        ObjectType::ObjectIndex => "INDEX",
        ObjectType::ObjectSequence => "SEQUENCE",
        ObjectType::ObjectView => "VIEW",
        ObjectType::ObjectMatview => "MATERIALIZED VIEW",
        ObjectType::ObjectType | ObjectType::ObjectAttribute => "TYPE",
        ObjectType::ObjectDomain | ObjectType::ObjectDomconstraint => "DOMAIN",
        ObjectType::ObjectSchema => "SCHEMA",
        ObjectType::ObjectFunction => "FUNCTION",
        ObjectType::ObjectProcedure => "PROCEDURE",
        ObjectType::ObjectRoutine => "ROUTINE",
        ObjectType::ObjectAggregate => "AGGREGATE",
        ObjectType::ObjectExtension => "EXTENSION",
        ObjectType::ObjectDatabase => "DATABASE",
        ObjectType::ObjectRole => "ROLE",
        ObjectType::ObjectTrigger => "TRIGGER",
        ObjectType::ObjectRule => "RULE",
        ObjectType::ObjectPolicy => "POLICY",
        ObjectType::ObjectForeignTable => "FOREIGN TABLE",
        ObjectType::ObjectStatisticExt => "STATISTICS",
        ObjectType::ObjectCollation => "COLLATION",
        ObjectType::ObjectPublication => "PUBLICATION",
        ObjectType::ObjectEventTrigger => "EVENT TRIGGER",
        ObjectType::ObjectLanguage => "LANGUAGE",
        ObjectType::ObjectForeignServer => "SERVER",
        ObjectType::ObjectFdw => "FOREIGN DATA WRAPPER",
        ObjectType::ObjectCast => "CAST",
        ObjectType::ObjectOperator => "OPERATOR",
        _ => "TABLE",
    }
}

/// Runs a statement that stands inside of another one (`create schema ... create table ...`).
fn run_element(cx: &mut DdlContext<'_>, node: &Node, raw: &RawStatement) -> Result<()> {
    match run(cx, node, raw)? {
        Some(_) => Ok(()),
        None => Err(Error::unsupported("this schema element is")),
    }
}

/// The retention of its own that a table's options ask for.
pub(crate) fn table_retention(relation: &cairn_catalog::Relation) -> Result<Option<cairn_txn::Retention>> {
    reloptions::retention(&relation.options)
}
