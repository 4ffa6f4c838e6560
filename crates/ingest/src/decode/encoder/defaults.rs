//! The values of columns that a row omits, or has DEFAULT for.

use freshet_schema::row::Put;
use freshet_schema::{Literal, Rules};

use super::super::plan::Filler;
use super::super::warnings::Warnings;
use super::{Fault, RowEncoder};
use crate::decode::ids::RowId;
use crate::decode::plan::InsertPlan;

impl RowEncoder<'_> {
    /// Writes the default of the next column.
    #[inline]
    pub(super) fn fill(&mut self) -> Result<(), Box<Fault>> {
        let (plan, at) = (self.plan, self.writer.column());
        match (&plan.fillers[at], &plan.ids) {
            (Filler::Cell(cell), _) => self.writer.put_encoded(cell),
            (Filler::Null, _) => self.writer.put_null(),
            (Filler::Id, Some(ids)) => {
                self.ids.row = RowId::Place(self.writer.offset());
                self.writer.put_encoded(ids.place());
            }
            (Filler::Computed, _) => {
                let number = self.row_number();
                let (rules, warnings) = (&self.rules, &mut self.warnings);
                return self.writer.cell(|out| computed(plan, (at, number), rules, warnings, out));
            }
            (filler, _) => return Err(Box::new(no_filler(filler, at))),
        }
        Ok(())
    }

    /// Writes the default of the column that a value is for.
    ///
    /// # Errors
    /// When it has none, or one that the column does not take.
    pub fn put_default(&mut self) -> Result<(), Box<Fault>> {
        let Some(&at) = self.plan.columns.get(self.position) else {
            return Err(Box::new(Fault::Count { expected: self.plan.width() }));
        };
        if self.plan.generates(at) {
            self.position += 1;
            return self.leave_place(at);
        }
        let plan = self.plan;
        let Some(filler) = plan.fillers.get(at) else {
            // Rows delete where they say so.
            self.position += 1;
            return Ok(());
        };
        match filler {
            Filler::Cell(cell) => self.put(Literal::Null, |_, _, out| {
                out.extend_from_slice(cell);
                Ok(Put::Value)
            }),
            // Of the AUTO_INCREMENT column it stands for the next id.
            Filler::Null | Filler::Id => self.put_null(),
            Filler::Computed => {
                let (number, mut cell) = (self.row_number(), Vec::new());
                let (rules, warnings) = (&self.rules, &mut self.warnings);
                match computed(plan, (at, number), rules, warnings, &mut cell) {
                    Ok(Put::Null) => self.put_null(),
                    Ok(Put::Value) => self.put(Literal::Null, |_, _, out| {
                        out.extend_from_slice(&cell);
                        Ok(Put::Value)
                    }),
                    Err(fault) => {
                        self.position += 1;
                        self.filter(Err(fault))
                    }
                }
            }
            filler => {
                self.position += 1;
                self.filter(Err(Box::new(no_filler(filler, at))))
            }
        }
    }
}

/// Appends the value of a default that is an expression.
#[cold]
fn computed(
    plan: &InsertPlan,
    (column, number): (usize, u64),
    rules: &Rules,
    warnings: &mut Warnings,
    out: &mut Vec<u8>,
) -> Result<Put, Box<Fault>> {
    let Some(defaults) = &plan.defaults else { return Err(Box::new(Fault::Missing { column })) };
    let put = defaults.compute(column, number, rules, warnings, out);
    put.map_err(|error| {
        Box::new(Fault::Check { code: error.code(), message: error.message().to_owned() })
    })
}

fn no_filler(filler: &Filler, column: usize) -> Fault {
    match filler {
        Filler::Bad(bad) => Fault::Value { column, bad: bad.clone(), value: b"DEFAULT".to_vec() },
        _ => Fault::Missing { column },
    }
}
