//! Command names by parse node, for messages.

use pg_query::protobuf::node::Node;

/// What PostgreSQL calls the statement where it refuses it.
pub fn of(node: &Node) -> &'static str {
    match node {
        Node::CreateStmt(_) => "CREATE TABLE",
        Node::CreateTableAsStmt(_) => "CREATE TABLE AS",
        Node::SelectStmt(_) => "SELECT INTO",
        Node::AlterTableStmt(_) => "ALTER TABLE",
        Node::IndexStmt(_) => "CREATE INDEX",
        Node::CreateSeqStmt(_) => "CREATE SEQUENCE",
        Node::AlterSeqStmt(_) => "ALTER SEQUENCE",
        Node::DropStmt(_) => "DROP",
        Node::TruncateStmt(_) => "TRUNCATE TABLE",
        Node::ViewStmt(_) => "CREATE VIEW",
        Node::CreateSchemaStmt(_) => "CREATE SCHEMA",
        Node::CreateEnumStmt(_) | Node::CompositeTypeStmt(_) | Node::CreateRangeStmt(_) => "CREATE TYPE",
        Node::AlterEnumStmt(_) => "ALTER TYPE",
        Node::CreateDomainStmt(_) => "CREATE DOMAIN",
        Node::CreateFunctionStmt(_) => "CREATE FUNCTION",
        Node::AlterFunctionStmt(_) => "ALTER FUNCTION",
        Node::CreateExtensionStmt(_) => "CREATE EXTENSION",
        Node::CommentStmt(_) => "COMMENT",
        Node::RenameStmt(_) | Node::AlterObjectSchemaStmt(_) | Node::AlterOwnerStmt(_) => "ALTER",
        Node::CreatedbStmt(_) => "CREATE DATABASE",
        Node::DropdbStmt(_) => "DROP DATABASE",
        Node::AlterDatabaseStmt(_) | Node::AlterDatabaseSetStmt(_) => "ALTER DATABASE",
        Node::CreateRoleStmt(_) => "CREATE ROLE",
        Node::AlterRoleStmt(_) | Node::AlterRoleSetStmt(_) => "ALTER ROLE",
        Node::DropRoleStmt(_) => "DROP ROLE",
        Node::GrantStmt(_) | Node::GrantRoleStmt(_) => "GRANT",
        Node::RefreshMatViewStmt(_) => "REFRESH MATERIALIZED VIEW",
        Node::CreateTrigStmt(_) => "CREATE TRIGGER",
        _ => "this statement",
    }
}
