//! WITH: queries by name, recursive and data-modifying ones too.

use cairn_types::{Error, Result, Text, err};
use pg_query::protobuf::{self, node::Node as NodeEnum};

use super::{
    Analyzer,
    from::query_columns,
    names::{inner, inner_box, string_value},
    scope::{CteProgress, CteState},
};
use crate::query::*;

impl Analyzer<'_> {
    /// Analyzes a WITH clause into the current level.
    pub(crate) fn with_clause(&mut self, with: &protobuf::WithClause) -> Result<()> {
        let level_index = self.levels().len() - 1;
        let mut seen: Vec<&str> = Vec::new();
        for node in &with.ctes {
            let NodeEnum::CommonTableExpr(cte) = inner(node)? else {
                return Err(Error::internal("unrecognized WITH item"));
            };
            if seen.contains(&cte.ctename.as_str()) {
                return Err(err!(
                    DUPLICATE_ALIAS,
                    "WITH query name \"{}\" specified more than once",
                    cte.ctename
                )
                .at(cte.location));
            }
            seen.push(&cte.ctename);
            let modifying = !matches!(inner_box(&cte.ctequery)?, NodeEnum::SelectStmt(_));
            if modifying && level_index > 0 {
                return Err(err!(
                    FEATURE_NOT_SUPPORTED,
                    "WITH clause containing a data-modifying statement must be at the top level"
                )
                .at(cte.location));
            }
            let names: Vec<RangeColumn> = cte
                .aliascolnames
                .iter()
                .map(|name| RangeColumn {
                    name: string_value(name).into(),
                    ty: self.lookup.type_ref(cairn_types::types::UNKNOWN),
                })
                .collect();
            let state = CteState {
                cte: Cte {
                    name: cte.ctename.as_str().into(),
                    columns: names,
                    query: Box::new(super::select::new_query(CommandType::Select)),
                    materialized: match protobuf::CteMaterialize::try_from(cte.ctematerialized) {
                        Ok(protobuf::CteMaterialize::Always) => Materialize::Always,
                        Ok(protobuf::CteMaterialize::Never) => Materialize::Never,
                        _ => Materialize::Default,
                    },
                    recursive: false,
                    references: 0,
                },
                progress: CteProgress::Pending,
                location: cte.location,
            };
            // WITH RECURSIVE sees all its names from the start, a plain WITH only the earlier ones.
            self.level().ctes.push(state);
        }
        self.level().recursive = with.recursive;
        for (index, node) in with.ctes.iter().enumerate() {
            let NodeEnum::CommonTableExpr(cte) = inner(node)? else { continue };
            self.with_query(cte, level_index, index)?;
        }
        Ok(())
    }

    fn with_query(&mut self, cte: &protobuf::CommonTableExpr, level: usize, index: usize) -> Result<()> {
        if cte.search_clause.is_some() {
            return Err(Error::unsupported("SEARCH clauses of WITH queries are").at(cte.location));
        }
        if cte.cycle_clause.is_some() {
            return Err(Error::unsupported("CYCLE clauses of WITH queries are").at(cte.location));
        }
        let node = inner_box(&cte.ctequery)?;
        self.levels_mut()[level].ctes[index].progress =
            if self.levels()[level].recursive { CteProgress::NotRecursive } else { CteProgress::Pending };
        self.enter()?;
        self.push_level();
        if self.levels()[level].recursive {
            self.level().parent_cte = Some((level, index));
        }
        let result = stacker::maybe_grow(256 << 10, 4 << 20, || self.query_statement(node));
        self.pop_level();
        self.leave();
        let query = result?;
        let mut columns = query_columns(&query);
        let state = &mut self.levels_mut()[level].ctes[index];
        if state.cte.recursive {
            if !query.sort.is_empty() {
                return Err(err!(FEATURE_NOT_SUPPORTED, "ORDER BY in a recursive query is not implemented"));
            }
            if query.offset.is_some() {
                return Err(err!(FEATURE_NOT_SUPPORTED, "OFFSET in a recursive query is not implemented"));
            }
            if query.limit.is_some() {
                return Err(err!(FEATURE_NOT_SUPPORTED, "LIMIT in a recursive query is not implemented"));
            }
            if !query.row_marks.is_empty() {
                return Err(err!(
                    FEATURE_NOT_SUPPORTED,
                    "FOR UPDATE/SHARE in a recursive query is not implemented"
                ));
            }
        }
        if cte.aliascolnames.len() > columns.len() {
            return Err(err!(
                INVALID_COLUMN_REFERENCE,
                "WITH query \"{}\" has {} columns available but {} columns specified",
                cte.ctename,
                columns.len(),
                cte.aliascolnames.len()
            )
            .at(cte.location));
        }
        for (column, name) in columns.iter_mut().zip(&cte.aliascolnames) {
            column.name = string_value(name).into();
        }
        let state = &mut self.levels_mut()[level].ctes[index];
        state.cte.columns = columns;
        *state.cte.query = query;
        state.progress = CteProgress::Done;
        Ok(())
    }

    /// A range variable without a schema that means a WITH query.
    pub(crate) fn cte_reference(&mut self, range: &protobuf::RangeVar) -> Result<Option<RangeTableEntry>> {
        let mut found: Option<(usize, usize)> = None;
        'levels: for level in (0..self.levels().len()).rev() {
            for (index, state) in self.levels()[level].ctes.iter().enumerate() {
                if *state.cte.name != *range.relname {
                    continue;
                }
                // A plain WITH does not see itself nor later ones.
                if state.progress == CteProgress::Pending {
                    if self.levels()[level].recursive {
                        return Err(Error::unsupported(format!(
                            "forward references between WITH RECURSIVE items (to \"{}\") are",
                            range.relname
                        ))
                        .at(range.location));
                    }
                    continue;
                }
                found = Some((level, index));
                break 'levels;
            }
        }
        let Some((level, index)) = found else { return Ok(None) };
        let name: Text = range.relname.as_str().into();
        let progress = self.levels()[level].ctes[index].progress;
        let self_reference = progress != CteProgress::Done;
        if self_reference {
            self.check_recursive_reference(&name, level, index, progress, range.location)?;
            self.levels_mut()[level].ctes[index].cte.recursive = true;
        }
        let state = &mut self.levels_mut()[level].ctes[index];
        state.cte.references += 1;
        if !self_reference
            && state.cte.query.command != CommandType::Select
            && state.cte.query.returning.is_empty()
        {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "WITH query \"{name}\" does not have a RETURNING clause"
            )
            .at(range.location));
        }
        let columns = state.cte.columns.clone();
        let levels_up = u32::try_from(self.levels().len() - 1 - level).unwrap_or(u32::MAX);
        let mut entry = RangeTableEntry {
            alias: range.alias.as_ref().map_or_else(|| name.clone(), |alias| alias.aliasname.as_str().into()),
            columns,
            kind: RangeTableKind::Cte { name, levels_up, self_reference },
            lateral: false,
            in_from: true,
        };
        if let Some(alias) = &range.alias {
            super::from::rename_columns(&mut entry, &alias.colnames)?;
        }
        Ok(Some(entry))
    }

    fn check_recursive_reference(
        &self,
        name: &str,
        level: usize,
        index: usize,
        progress: CteProgress,
        location: Location,
    ) -> Result<()> {
        let state = &self.levels()[level].ctes[index];
        match progress {
            CteProgress::NotRecursive => {
                return Err(err!(
                    INVALID_RECURSION,
                    "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
                )
                .at(state.location));
            }
            CteProgress::FirstTerm => {
                return Err(err!(
                    INVALID_RECURSION,
                    "recursive reference to query \"{name}\" must not appear within its non-recursive term"
                )
                .at(location));
            }
            _ => {}
        }
        // From the reference outwards to the WITH query's own level.
        for inner_level in &self.levels()[level + 1..] {
            if inner_level.is_sublink {
                return Err(err!(
                    INVALID_RECURSION,
                    "recursive reference to query \"{name}\" must not appear within a subquery"
                )
                .at(location));
            }
            if inner_level.outer_join_depth > 0 {
                return Err(err!(
                    INVALID_RECURSION,
                    "recursive reference to query \"{name}\" must not appear within an outer join"
                )
                .at(location));
            }
        }
        if state.cte.recursive {
            return Err(err!(
                INVALID_RECURSION,
                "recursive reference to query \"{name}\" must not appear more than once"
            )
            .at(location));
        }
        Ok(())
    }
}
