//! NOT NULL and CHECK of the row in a table's row block, and generated columns.

use cairn_types::{Datum, Error, Result, err};

use super::target::Target;
use crate::context::{ExecContext, Frame};

/// So many bytes of a column are shown in a message.
const SHOWN_MAX: usize = 64;

impl Target {
    /// Computes the generated columns. They come last: they read the others.
    pub(super) fn generate(&self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        for (column, code) in &self.generated {
            let value = code.eval(cx, frame)?;
            frame.registers[self.first + column] = value;
        }
        Ok(())
    }

    /// 23502 or 23514 if the row breaks a constraint.
    pub(super) fn check_row(&self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        for &column in &self.not_null {
            if frame.registers[self.first + column].is_null() {
                return Err(self.null_violation(cx, frame, column));
            }
        }
        for check in &self.checks {
            // Unknown passes.
            if matches!(check.code.eval(cx, frame)?, Datum::Bool(false)) {
                return Err(self.check_violation(cx, frame, &check.name));
            }
        }
        Ok(())
    }

    #[cold]
    fn null_violation(&self, cx: &ExecContext<'_>, frame: &Frame, column: usize) -> Error {
        let relation = self.relation();
        let name = &relation.columns[column].name;
        err!(
            NOT_NULL_VIOLATION,
            "null value in column \"{name}\" of relation \"{}\" violates not-null constraint",
            relation.name
        )
        .detail(self.failing_row(cx, frame))
        .table(cx.catalog.namespace_name(relation.namespace).to_string(), relation.name.to_string())
        .column(name.to_string())
    }

    #[cold]
    fn check_violation(&self, cx: &ExecContext<'_>, frame: &Frame, constraint: &str) -> Error {
        let relation = self.relation();
        err!(
            CHECK_VIOLATION,
            "new row for relation \"{}\" violates check constraint \"{constraint}\"",
            relation.name
        )
        .detail(self.failing_row(cx, frame))
        .table(cx.catalog.namespace_name(relation.namespace).to_string(), relation.name.to_string())
        .constraint(constraint)
    }

    fn failing_row(&self, cx: &ExecContext<'_>, frame: &Frame) -> String {
        let row = self.row(frame);
        let texts: Vec<String> = self
            .live
            .iter()
            .map(|&column| {
                let value = &row[column];
                if value.is_null() {
                    return "null".to_owned();
                }
                let type_oid = self.relation().columns[column].ty.oid;
                let text = cairn_types::io::output_string(value, type_oid, cx.env)
                    .unwrap_or_else(|_| "?".to_owned());
                shortened(text)
            })
            .collect();
        format!("Failing row contains ({}).", texts.join(", "))
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > SHOWN_MAX {
        let mut end = SHOWN_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(super::shortened("a".repeat(64)), "a".repeat(64));
        assert_eq!(super::shortened("a".repeat(65)), format!("{}...", "a".repeat(64)));
        assert_eq!(super::shortened(format!("{}ä", "a".repeat(63))), format!("{}...", "a".repeat(63)));
    }
}
