//! GROUP BY and aggregates.

use std::sync::Arc;

use cairn_analyze::query::{AggregateCall, Expr, Query, Var};
use cairn_functions::AggregateRow;
use cairn_types::key::ColumnOrder;
use cairn_types::{Datum, Error, Result};

use super::Planner;
use super::estimate::clamp_rows;
use super::join::is_blank_padded;
use super::path::OrderKey;
use super::select::{Stream, target_of};
use crate::expr::equal::{same, same_aggregates};
use crate::nodes::aggregate::{AggregateSpec, Aggregation, Strategy};
use cairn_analyze::expr_type;
use cairn_analyze::walk;

impl Planner<'_> {
    /// An aggregate of the catalog, ready to run.
    pub(crate) fn aggregate_spec(&mut self, call: &AggregateCall) -> Result<AggregateSpec> {
        let catalog = self.catalog();
        let Some(row) = catalog.aggregate(call.function) else {
            return Err(Error::internal(format!("function {} is no aggregate", call.function)));
        };
        let transition =
            catalog.proc(row.transition).ok_or_else(|| Error::internal("no transition function"))?;
        let final_function = catalog.proc(row.final_function);
        let initial = match &row.initial {
            Some(text) if row.transition_type != cairn_types::types::INTERNAL => {
                cairn_types::io::input(text, row.transition_type, -1, self.cx.env)?
            }
            _ => Datum::Null,
        };
        let internal = |proc: &cairn_catalog::Proc| {
            matches!(proc.language, cairn_types::oid::languages::INTERNAL | cairn_types::oid::languages::C)
        };
        if !internal(transition) || final_function.is_some_and(|function| !internal(function)) {
            return Err(Error::unsupported("aggregates over SQL functions are"));
        }
        let mut columns = Vec::new();
        for key in &call.order {
            let blank_padded = is_blank_padded(self, &key.expr);
            columns.push(ColumnOrder { desc: key.descending, nulls_first: key.nulls_first, blank_padded });
        }
        let described = AggregateRow {
            transition: &transition.source,
            transition_strict: transition.strict,
            final_function: final_function.map(|function| &*function.source),
            final_strict: final_function.is_some_and(|function| function.strict),
            initial,
            order: &columns,
        };
        let Some(aggregate) = cairn_functions::aggregate(&described) else {
            let name = catalog.proc(call.function).map_or_else(String::new, |proc| proc.name.to_string());
            let types: Vec<String> =
                call.args.iter().map(|arg| self.cx.env.format_type(expr_type(arg).oid, -1)).collect();
            return Err(cairn_functions::missing(&format!("{name}({})", types.join(", "))));
        };
        // A hypothetical-set or ordered-set aggregate sorts its own arguments.
        let within_group = row.kind != b'n';
        let mut order = Vec::new();
        for (key, column) in call.order.iter().zip(&columns) {
            order.push((self.compile(&key.expr)?, *column));
        }
        let args = if within_group && call.args.is_empty() {
            call.order.iter().map(|key| key.expr.clone()).collect()
        } else {
            call.args.clone()
        };
        Ok(AggregateSpec {
            aggregate: Arc::from(aggregate),
            direct: Vec::new(),
            filter: call.filter.as_ref().map(|filter| self.compile(filter)).transpose()?,
            distinct: call.distinct,
            order,
            blank_padded: args.iter().map(|arg| is_blank_padded(self, arg)).collect(),
            arg_types: args.iter().map(|arg| expr_type(arg).oid).collect(),
            result_type: call.ty.oid,
            collation: call.collation,
            variadic: call.variadic,
            args: self.compile_all(&args)?,
        })
    }

    pub(crate) fn plan_aggregation(&mut self, stream: Stream, query: &Arc<Query>) -> Result<Stream> {
        let mut keys = Vec::new();
        let mut references = Vec::new();
        for clause in &query.group {
            keys.push(target_of(query, clause)?.expr.clone());
            references.push(clause.target);
        }
        let mut calls: Vec<AggregateCall> = Vec::new();
        let mut vars: Vec<Var> = Vec::new();
        for expr in query.targets.iter().map(|target| &target.expr).chain(query.having.iter()) {
            collect(expr, 0, &keys, &mut calls, &mut vars);
        }
        // Ordering and framing of windows belongs to the step above, too.
        for window in &query.windows {
            for bound in [&window.frame.start, &window.frame.end] {
                use cairn_analyze::query::FrameBound::{Following, Preceding};
                if let Preceding(expr) | Following(expr) = bound {
                    collect(expr, 0, &keys, &mut calls, &mut vars);
                }
            }
        }
        let known_groups = self.known_groups(&keys, stream.tree.rows);
        let key_codes = self.compile_all(&keys)?;
        let key_registers: Vec<usize> = keys.iter().map(|_| self.register()).collect();
        let blank_padded = keys.iter().map(|key| is_blank_padded(self, key)).collect();
        let mut computed: Vec<(Expr, usize)> =
            keys.iter().cloned().zip(key_registers.iter().copied()).collect();
        let mut carried = Vec::new();
        for var in vars {
            let register = self.register();
            if var.attno == 0 {
                // A whole row: all of its columns are kept, and it is put together above.
                let rel = self.rel(var.varno).clone();
                for attno in &rel.used {
                    let own = Var { attno: *attno, ..var.clone() };
                    if !computed.iter().any(|(expr, _)| same(expr, &Expr::Var(own.clone()))) {
                        carried.push((rel.register(*attno), rel.register(*attno)));
                    }
                }
                continue;
            }
            let crate::expr::Code::Register(from) = self.compile(&Expr::Var(var.clone()))? else { continue };
            carried.push((from, register));
            computed.push((Expr::Var(var), register));
        }
        let mut aggregates: Vec<AggregateSpec> = Vec::new();
        let mut aggregate_registers = Vec::new();
        let mut direct_args = Vec::new();
        for call in calls {
            direct_args.push(call.direct_args.clone());
            aggregates.push(self.aggregate_spec(&call)?);
            let register = self.register();
            aggregate_registers.push(register);
            computed.push((Expr::Aggregate(Box::new(call)), register));
        }
        let sets: Vec<Vec<usize>> = query
            .grouping_sets
            .iter()
            .map(|set| {
                set.iter()
                    .filter_map(|wanted| references.iter().position(|reference| reference == wanted))
                    .collect()
            })
            .collect();
        let set_register = (!sets.is_empty()).then(|| self.register());
        let in_order = sets.is_empty()
            && stream.order.len() >= keys.len()
            && keys.iter().all(|key| {
                stream.order[..keys.len()]
                    .iter()
                    .any(|given| same(super::estimate::strip(&given.expr), super::estimate::strip(key)))
            });
        let strategy = if keys.is_empty() && sets.is_empty() {
            Strategy::Plain
        } else if in_order {
            Strategy::Sorted
        } else {
            Strategy::Hashed
        };
        let order: Vec<OrderKey> =
            if strategy == Strategy::Sorted { stream.order[..keys.len()].to_vec() } else { Vec::new() };
        let mut key_texts = Vec::new();
        for key in &keys {
            let text = self.text(key);
            if !text.is_empty() {
                key_texts.push(text);
            }
        }
        let stage = &mut self.level_mut().stage;
        stage.computed = computed;
        stage.closed = true;
        stage.grouping = set_register.map(|register| (register, query.grouping_sets.clone()));
        // Direct arguments see the group, not its rows.
        for (spec, direct_args) in aggregates.iter_mut().zip(&direct_args) {
            spec.direct = self.compile_all(direct_args)?;
        }
        let (filter, filter_text) = match &query.having {
            Some(having) => {
                let text = self.text(having);
                (Some(self.compile(having)?), text)
            }
            None => (None, String::new()),
        };
        let mut live = key_registers.clone();
        live.extend(carried.iter().map(|(_, to)| *to));
        live.extend(&aggregate_registers);
        live.extend(set_register);
        live.sort_unstable();
        live.dedup();
        let (input_rows, input_cost, input_startup) =
            (stream.tree.rows, stream.tree.total_cost, stream.tree.startup_cost);
        let count = aggregates.len() as f64;
        let mut tree = self.node(
            Aggregation {
                strategy,
                keys: key_codes,
                blank_padded,
                key_registers,
                carried,
                aggregates,
                aggregate_registers,
                sets,
                set_register,
                input_registers: stream.live.clone(),
                filter,
                key_texts,
                filter_text,
            },
            vec![stream.tree],
        );
        let groups = match strategy {
            Strategy::Plain => 1.0,
            _ => match known_groups {
                Some(groups) => groups,
                None => clamp_rows(input_rows.min(200.0f64.powi(keys.len().min(4) as i32))),
            },
        };
        tree.rows = if query.having.is_some() { clamp_rows(groups / 3.0) } else { groups };
        tree.total_cost = input_cost + input_rows * 0.0025 * (count + keys.len() as f64) + groups * 0.01;
        tree.startup_cost =
            if strategy == Strategy::Sorted { input_startup } else { tree.total_cost - groups * 0.01 };
        Ok(Stream { tree, live, order, constants: stream.constants })
    }

    /// `min(x)` and `max(x)` over one table as the first row of an index: `(select x from t where x is not null order by x
    /// limit 1)`.
    pub(crate) fn min_max_by_index(&self, query: &Query) -> Result<Option<Query>> {
        use cairn_analyze::query::{
            CommandType, JoinTree, RangeTableKind, SortGroupClause, SubLink, SubLinkKind, TargetEntry,
        };
        let [JoinTree::Range(range)] = query.from.as_slice() else { return Ok(None) };
        if !query.has_aggregates
            || query.command != CommandType::Select
            || !query.group.is_empty()
            || !query.grouping_sets.is_empty()
            || query.has_window_functions
            || query.has_target_srfs
            || !query.row_marks.is_empty()
            || !query.ctes.is_empty()
            || query.set_operation.is_some()
            || query.filter.as_ref().is_some_and(|filter| self.is_volatile(filter))
        {
            return Ok(None);
        }
        let RangeTableKind::Relation { relation, sample: None } = &query.range_table[*range].kind else {
            return Ok(None);
        };
        if relation.storage == 0 || query.range_table.len() != 1 {
            return Ok(None);
        }
        let mut calls = Vec::new();
        let mut vars = Vec::new();
        for expr in query.targets.iter().map(|target| &target.expr).chain(query.having.iter()) {
            collect(expr, 0, &[], &mut calls, &mut vars);
        }
        if calls.is_empty() || !vars.is_empty() {
            return Ok(None);
        }
        let mut replaced: Vec<(AggregateCall, Expr)> = Vec::new();
        for call in calls {
            let Some(aggregate) = self.catalog().aggregate(call.function) else { return Ok(None) };
            let ([arg], 0) = (call.args.as_slice(), call.direct_args.len()) else { return Ok(None) };
            if aggregate.sort_operator == 0 || call.filter.is_some() || !call.order.is_empty() {
                return Ok(None);
            }
            let Some(member) = self.catalog().operator_memberships(aggregate.sort_operator).first() else {
                return Ok(None);
            };
            let descending = member.strategy == cairn_catalog::BtreeStrategy::Greater;
            // An index must begin with the column, behind columns that WHERE binds.
            let mut conditions = Vec::new();
            if let Some(filter) = query.filter.clone() {
                super::conditions::conjuncts(filter, &mut conditions);
            }
            let refs: Vec<&Expr> = conditions.iter().collect();
            let mut useful = false;
            for index in relation.indexes.iter().filter(|index| self.may_read(relation, index)) {
                if !self.implies_predicate(relation, index, &refs, *range)? {
                    continue;
                }
                let key = self.match_key(relation, &index.keys, &refs, *range)?;
                let bound = key
                    .columns
                    .iter()
                    .take_while(|column| matches!(column, super::indexes::ColumnMatch::Equal(_)))
                    .count();
                if let Some(column) = index.keys.get(bound) {
                    let expr = self.key_expression(relation, column, *range)?;
                    useful |= same(super::estimate::strip(&expr), super::estimate::strip(arg));
                }
            }
            if !useful {
                return Ok(None);
            }
            let mut subquery = query.clone();
            subquery.has_aggregates = false;
            subquery.having = None;
            subquery.sort.clear();
            subquery.distinct = cairn_analyze::query::Distinct::None;
            subquery.offset = None;
            // What the query refers to outside is one level farther away.
            walk::query_expressions_mut(&mut subquery, &mut |expr| {
                walk::deep_mut(expr, 0, &mut |expr, level| match expr {
                    Expr::Var(var) if var.levels_up > level => var.levels_up += 1,
                    Expr::Aggregate(call) if call.levels_up > level => call.levels_up += 1,
                    _ => {}
                });
            });
            let mut arg = arg.clone();
            walk::deep_mut(&mut arg, 0, &mut |expr, level| {
                if let Expr::Var(var) = expr
                    && var.levels_up > level
                {
                    var.levels_up += 1;
                }
            });
            let mut conditions = Vec::new();
            if let Some(filter) = subquery.filter.take() {
                super::conditions::conjuncts(filter, &mut conditions);
            }
            conditions.push(Expr::NullTest {
                arg: Box::new(arg.clone()),
                is_null: false,
                row_type: false,
                location: -1,
            });
            subquery.filter = super::prepare::conjunction(conditions);
            subquery.targets = vec![TargetEntry {
                expr: arg,
                resno: 1,
                name: "m".into(),
                sort_group_ref: 1,
                junk: false,
                origin_table: 0,
                origin_column: 0,
            }];
            subquery.sort = vec![SortGroupClause {
                target: 1,
                equality: 0,
                sort_operator: aggregate.sort_operator,
                descending,
                // As the key has it, wherever its nulls are: there are none.
                nulls_first: descending,
            }];
            subquery.limit = Some(Expr::Const {
                value: Datum::Int8(1),
                ty: cairn_catalog::TypeRef { oid: cairn_types::types::INT8, typmod: -1, collation: 0 },
                location: -1,
            });
            let link = Expr::SubLink(Box::new(SubLink {
                kind: SubLinkKind::Expr,
                query: subquery,
                ty: call.ty,
                location: call.location,
            }));
            replaced.push((call, link));
        }
        let mut rewritten = query.clone();
        rewritten.has_aggregates = false;
        rewritten.from.clear();
        rewritten.filter = None;
        rewritten.range_table.clear();
        let substitute = |expr: &mut Expr| substitute_aggregates(expr, &replaced);
        for target in &mut rewritten.targets {
            substitute(&mut target.expr);
        }
        if let Some(mut having) = rewritten.having.take() {
            substitute(&mut having);
            rewritten.filter = Some(having);
        }
        Ok(Some(rewritten))
    }
}

fn substitute_aggregates(expr: &mut Expr, replaced: &[(AggregateCall, Expr)]) {
    if let Expr::Aggregate(call) = expr
        && let Some((_, link)) = replaced.iter().find(|(other, _)| same_aggregates(other, call))
    {
        *expr = link.clone();
        return;
    }
    walk::children_mut(expr, &mut |child| substitute_aggregates(child, replaced));
}

/// The aggregates of the query's own level in an expression, and the columns outside of them that are no group keys.
fn collect(expr: &Expr, level: u32, keys: &[Expr], calls: &mut Vec<AggregateCall>, vars: &mut Vec<Var>) {
    if level == 0 && keys.iter().any(|key| same(key, expr)) {
        return;
    }
    match expr {
        Expr::Aggregate(call) if call.levels_up == level => {
            let mut own = (**call).clone();
            own.levels_up = 0;
            if level > 0 {
                lower(&mut own, level);
            }
            if !calls.iter().any(|other| same_aggregates(other, &own)) {
                for arg in &own.direct_args {
                    collect(arg, 0, keys, calls, vars);
                }
                calls.push(own);
            }
            return;
        }
        Expr::Var(var) if var.levels_up == level => {
            let own = Var { levels_up: 0, ..var.clone() };
            let known = keys.iter().any(|key| same(key, &Expr::Var(own.clone())))
                || vars.iter().any(|other| other.varno == own.varno && other.attno == own.attno);
            if !known {
                vars.push(own);
            }
            return;
        }
        _ => {}
    }
    walk::children(expr, &mut |child| collect(child, level, keys, calls, vars));
    if let Expr::SubLink(link) = expr {
        collect_in_query(&link.query, level + 1, keys, calls, vars);
    }
}

fn collect_in_query(
    query: &Query,
    level: u32,
    keys: &[Expr],
    calls: &mut Vec<AggregateCall>,
    vars: &mut Vec<Var>,
) {
    walk::query_expressions(query, &mut |expr| collect(expr, level, keys, calls, vars));
    walk::query_subqueries(query, &mut |query| collect_in_query(query, level + 1, keys, calls, vars));
}

/// The call as its own level sees it.
fn lower(call: &mut AggregateCall, delta: u32) {
    let args = call.args.iter_mut().chain(&mut call.direct_args).chain(call.filter.as_mut());
    for expr in args.chain(call.order.iter_mut().map(|order| &mut order.expr)) {
        walk::deep_mut(expr, 0, &mut |expr, level| {
            if let Expr::Var(var) = expr
                && var.levels_up >= level + delta
            {
                var.levels_up -= delta;
            }
        });
    }
}
