//! The type of an analyzed expression.

use cairn_analyze::query::{Expr, SubLinkKind};
use cairn_catalog::TypeRef;
use cairn_types::types;

const BOOL: TypeRef = TypeRef { oid: types::BOOL, typmod: -1, collation: 0 };
const INT4: TypeRef = TypeRef { oid: types::INT4, typmod: -1, collation: 0 };

pub fn type_of(expr: &Expr) -> TypeRef {
    match expr {
        Expr::Const { ty, .. }
        | Expr::Param { ty, .. }
        | Expr::Field { ty, .. }
        | Expr::Relabel { ty, .. }
        | Expr::CoerceViaIo { ty, .. }
        | Expr::ArrayCoerce { ty, .. }
        | Expr::ConvertRow { ty, .. }
        | Expr::TestValue { ty }
        | Expr::CoerceToDomain { ty, .. }
        | Expr::Array { ty, .. }
        | Expr::Row { ty, .. }
        | Expr::Coalesce { ty, .. }
        | Expr::MinMax { ty, .. }
        | Expr::SqlValue { ty, .. }
        | Expr::Default { ty, .. }
        | Expr::NextValue { ty, .. } => *ty,
        Expr::Var(var) => var.ty,
        Expr::Function(call) => call.ty,
        Expr::Operator(call) => call.ty,
        Expr::NullIf(call) => call.args.first().map_or(call.ty, type_of),
        Expr::Collate { arg, collation, .. } => TypeRef { collation: *collation, ..type_of(arg) },
        Expr::SubLink(link) => match link.kind {
            SubLinkKind::Exists | SubLinkKind::Any(_) | SubLinkKind::All(_) => BOOL,
            SubLinkKind::Expr | SubLinkKind::Row | SubLinkKind::RowSource | SubLinkKind::Array => link.ty,
        },
        Expr::Aggregate(call) => call.ty,
        Expr::Window(call) => call.ty,
        Expr::Grouping { .. } => INT4,
        Expr::Subscript(subscript) => subscript.ty,
        Expr::Case(case) => case.ty,
        Expr::DistinctFrom(_)
        | Expr::ArrayOperator(_)
        | Expr::And(_)
        | Expr::Or(_)
        | Expr::Not(_)
        | Expr::RowCompare { .. }
        | Expr::NullTest { .. }
        | Expr::BooleanTest { .. }
        | Expr::CurrentOf { .. } => BOOL,
    }
}
