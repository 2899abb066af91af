//! Checking values of domains that come as text or in binary: literals, parameters, COPY, elements, columns, JSON.
//!
//! Casts to a domain are part of a plan (`CoerceToDomain`); what a type's input reads has none, so that the same cast is planned
//! here, over a parameter, and kept for as long as the catalog is the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use cairn_analyze::query::{CallForm, Expr};
use cairn_catalog::{Catalog, TypeKind};
use cairn_exec::Plan;
use cairn_types::{Datum, Oid, Result};

use crate::core::Core;
use crate::statement::Purpose;

/// The casts to domains that a session has planned, under one version of the catalog.
#[derive(Default)]
pub struct DomainChecks(RefCell<Kept>);

#[derive(Default)]
struct Kept {
    version: Option<u64>,
    /// `None`: the domain refuses nothing.
    plans: HashMap<Oid, Option<Arc<Plan>>>,
}

/// 23502 or 23514 if the domain refuses the value, which is of its base type.
pub fn check(core: &Core, domain: Oid, value: &Datum) -> Result<()> {
    let Some(plan) = plan(core, domain)? else { return Ok(()) };
    let params: Arc<[Datum]> = Arc::from([value.clone()]);
    let snapshot = core.snapshots.borrow().last().copied();
    match snapshot {
        // A statement is running, and the check is a part of it.
        Some(snapshot) => core.run_plan_at(&plan, params, snapshot, &mut |_| Ok(()))?,
        None => {
            core.start_implicit();
            core.run_plan(&plan, params, &mut |_| Ok(()))?
        }
    };
    Ok(())
}

fn plan(core: &Core, domain: Oid) -> Result<Option<Arc<Plan>>> {
    let catalog = core.catalog()?;
    {
        let mut kept = core.domain_checks.0.borrow_mut();
        if kept.version != Some(catalog.version()) {
            *kept = Kept { version: Some(catalog.version()), plans: HashMap::new() };
        }
        if let Some(plan) = kept.plans.get(&domain) {
            return Ok(plan.clone());
        }
    }
    let plan = if is_constrained(&catalog, domain) {
        let arg = Expr::Param { number: 1, ty: core.type_ref(catalog.base_type(domain), -1), location: -1 };
        let ty = core.type_ref(domain, -1);
        let form = CallForm::ImplicitCast;
        let cast = Expr::CoerceToDomain { arg: Box::new(arg), ty, form, location: -1 };
        Some(Arc::new(crate::utility::plan_of(core, vec![cast], Purpose::Prepared)?))
    } else {
        None
    };
    core.domain_checks.0.borrow_mut().plans.insert(domain, plan.clone());
    Ok(plan)
}

/// Whether the domain, or one that it is made of, has a constraint.
fn is_constrained(catalog: &Catalog, mut oid: Oid) -> bool {
    while let Some(domain) = catalog.type_by_oid(oid).filter(|object| object.kind == TypeKind::Domain) {
        if domain.not_null || !domain.checks.is_empty() {
            return true;
        }
        oid = domain.base;
    }
    false
}
