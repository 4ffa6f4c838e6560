//! The plan of a query as EXPLAIN shows it.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use serde_json::{Map, Value, json};

use crate::policies::VisibleRowsExec;
use crate::scan::{ScanExec, Scanned};

/// An operator of a plan and those that it reads from.
#[derive(Clone, PartialEq, Debug)]
pub struct Operator {
    /// Its name and what it does.
    pub text: String,
    /// What it scans.
    pub scanned: Option<Scanned>,
    pub inputs: Vec<Operator>,
}

impl Operator {
    /// The operators of a plan.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        Self::shown(plan, DisplayableExecutionPlan::new)
    }

    /// The operators of a plan that was executed, with what each of them has counted.
    pub fn measured(plan: &Arc<dyn ExecutionPlan>) -> Self {
        Self::shown(plan, DisplayableExecutionPlan::with_metrics)
    }

    /// What stands below [`VisibleRowsExec`] is left out: it tells of rows that are hidden.
    fn shown<'a>(
        plan: &'a Arc<dyn ExecutionPlan>,
        form: fn(&'a dyn ExecutionPlan) -> DisplayableExecutionPlan<'a>,
    ) -> Self {
        let text = form(plan.as_ref()).one_line().to_string();
        let (scanned, inputs) = match plan.downcast_ref::<VisibleRowsExec>() {
            Some(visible) => (Some(Scanned::hidden(visible.table())), Vec::new()),
            None => (plan.downcast_ref::<ScanExec>().map(ScanExec::scanned), plan.children()),
        };
        Self {
            text: text.trim().to_owned(),
            scanned,
            inputs: inputs.into_iter().map(|input| Self::shown(input, form)).collect(),
        }
    }

    /// An operator that reads from no other.
    pub fn alone(text: String) -> Self {
        Self { text, scanned: None, inputs: Vec::new() }
    }

    /// A line for each operator, indented below the one that reads from it.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.add_lines("", "", &mut lines);
        lines
    }

    /// The text of FORMAT=TREE.
    pub fn tree(&self) -> String {
        let mut lines = Vec::new();
        self.add_lines("", "-> ", &mut lines);
        lines.join("\n") + "\n"
    }

    fn add_lines(&self, indent: &str, mark: &str, lines: &mut Vec<String>) {
        lines.push(format!("{indent}{mark}{}", self.text));
        // A level is four columns wide behind arrows, and two otherwise.
        let deeper = if mark.is_empty() { "  " } else { "    " };
        let indent = format!("{indent}{deeper}");
        self.inputs.iter().for_each(|input| input.add_lines(&indent, mark, lines));
    }

    /// The tables that are scanned, in the order of the plan.
    pub fn scanned(&self) -> Vec<&Scanned> {
        let inner = self.inputs.iter().flat_map(Self::scanned);
        self.scanned.iter().chain(inner).collect()
    }

    /// The document of FORMAT=JSON: what MySQL has in it of tables, and the operators.
    pub fn json(&self) -> String {
        let tables = self.scanned().into_iter().map(|scanned| {
            let name = scanned.table.rsplit_once('.').map_or(&*scanned.table, |(_, name)| name);
            let mut table = json!({
                "table_name": name,
                "access_type": scanned.access(),
                "filtered": "100.00",
            });
            if let Some(rows) = scanned.rows {
                table["rows_examined_per_scan"] = json!(rows);
            }
            if let Some(possible) = &scanned.index.possible {
                table["possible_keys"] = possible.split(',').collect();
            }
            if let Some(used) = &scanned.index.used {
                table["key"] = json!(used);
            }
            table
        });
        let mut tables = tables.collect::<Vec<_>>();
        let mut block = Map::new();
        block.insert("select_id".to_owned(), json!(1));
        match tables.len() {
            0 => block.insert("message".to_owned(), json!("No tables used")),
            1 => block.insert("table".to_owned(), tables.remove(0)),
            _ => {
                let tables = tables.into_iter().map(|table| json!({ "table": table }));
                block.insert("nested_loop".to_owned(), Value::Array(tables.collect()))
            }
        };
        block.insert("plan".to_owned(), self.node());
        let document = json!({ "query_block": block });
        format!("{document:#}")
    }

    fn node(&self) -> Value {
        let mut node = Map::new();
        node.insert("operation".to_owned(), json!(self.text));
        if !self.inputs.is_empty() {
            let inputs = self.inputs.iter().map(Self::node).collect();
            node.insert("inputs".to_owned(), Value::Array(inputs));
        }
        Value::Object(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::indexes::IndexUse;

    fn plan() -> Operator {
        let scan = |table: &str, rows| Operator {
            text: format!("Scan {table}"),
            scanned: Some(Scanned {
                partitions: None,
                index: IndexUse::default(),
                table: table.to_owned(),
                rows: Some(rows),
            }),
            inputs: Vec::new(),
        };
        let inputs = vec![scan("d.t", 3), scan("d.u", 0)];
        Operator { text: "Join".to_owned(), scanned: None, inputs }
    }

    #[test]
    fn operators_are_indented_below_their_reader() {
        assert_eq!(plan().lines(), ["Join", "  Scan d.t", "  Scan d.u"]);
        assert_eq!(plan().tree(), "-> Join\n    -> Scan d.t\n    -> Scan d.u\n");
    }

    #[test]
    fn a_document_has_the_tables_and_the_operators() {
        let document: Value = serde_json::from_str(&plan().json()).unwrap();
        let block = &document["query_block"];
        assert_eq!(block["nested_loop"][0]["table"]["table_name"], "t");
        assert_eq!(block["nested_loop"][0]["table"]["rows_examined_per_scan"], 3);
        assert_eq!(block["plan"]["inputs"][1]["operation"], "Scan d.u");
        let alone = serde_json::from_str::<Value>(&Operator::alone("x".to_owned()).json());
        assert_eq!(alone.unwrap()["query_block"]["message"], "No tables used");
    }
}
