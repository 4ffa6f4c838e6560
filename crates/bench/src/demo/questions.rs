//! A few queries on the loaded rows, with their results as tables.

use freshet_base::clock::{Clock, SystemClock};

use crate::session::{Session, TextRows};

/// A query: its meaning in words, the names of its columns, its SQL.
struct Question {
    words: &'static str,
    columns: &'static [&'static str],
    sql: &'static str,
}

const QUESTIONS: [Question; 5] = [
    Question {
        words: "What was sold, by state of the order line (query 1 of TPC-H)",
        columns: &["flag", "status", "quantity", "revenue", "average price", "lines"],
        sql: "SELECT l_returnflag, l_linestatus, SUM(l_quantity), \
              ROUND(SUM(l_extendedprice * (1 - l_discount)), 2), ROUND(AVG(l_extendedprice), 2), \
              COUNT(*) FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL 90 DAY \
              GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
    },
    Question {
        words: "What no discount would have brought in (query 6 of TPC-H)",
        columns: &["revenue"],
        sql: "SELECT ROUND(SUM(l_extendedprice * l_discount), 2) FROM lineitem \
              WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' \
              AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    },
    Question {
        words: "How goods travel, and how late they come",
        columns: &["mode", "lines", "late", "days on the way"],
        sql: "SELECT l_shipmode, COUNT(*), SUM(l_receiptdate > l_commitdate), \
              ROUND(AVG(DATEDIFF(l_receiptdate, l_shipdate)), 1) FROM lineitem \
              GROUP BY l_shipmode ORDER BY 2 DESC",
    },
    Question {
        words: "What the web server answered",
        columns: &["status", "requests", "MB", "clients"],
        sql: "SELECT status, COUNT(*), ROUND(SUM(size) / 1000000, 1), COUNT(DISTINCT clientip) \
              FROM httplogs GROUP BY status ORDER BY 2 DESC",
    },
    Question {
        words: "The pages that fail most often",
        columns: &["page", "failures", "last seen"],
        sql: "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(request, '?', 1), ' ', -1) AS page, \
              COUNT(*) AS failures, MAX(ts) FROM httplogs WHERE status = 404 \
              GROUP BY page ORDER BY failures DESC, page LIMIT 5",
    },
];

/// Runs all queries.
pub fn ask(session: &mut Session) -> Result<(), String> {
    let clock = SystemClock::new();
    for question in &QUESTIONS {
        let asked = clock.now();
        let rows = session.query(question.sql)?;
        let seconds = (clock.now() - asked).as_secs_f64();
        println!("\n{}", question.words);
        print!("{}", drawn(question.columns, &rows));
        println!("{} rows in {seconds:.2} s", rows.len());
    }
    Ok(())
}

/// Formats a table with borders.
fn drawn(columns: &[&str], rows: &TextRows) -> String {
    let cells = |column: usize| rows.iter().map(move |row| row[column].as_str());
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(column, name)| cells(column).map(str::len).fold(name.len(), usize::max))
        .collect();
    let rule: String = widths.iter().map(|width| format!("+{}", "-".repeat(width + 2))).collect();
    let mut out = format!("{rule}+\n");
    for (column, width) in widths.iter().enumerate() {
        out.push_str(&format!("| {:width$} ", columns[column]));
    }
    out.push_str(&format!("|\n{rule}+\n"));
    for row in rows {
        for (cell, width) in row.iter().zip(&widths) {
            let is_number = cell.parse::<f64>().is_ok();
            let padded = match is_number {
                true => format!("| {cell:>width$} "),
                false => format!("| {cell:width$} "),
            };
            out.push_str(&padded);
        }
        out.push_str("|\n");
    }
    out.push_str(&rule);
    out.push_str("+\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_text_left() {
        let rows = vec![vec!["ab".to_owned(), "7".to_owned()]];
        let wanted = "\
            +------+----+\n\
            | name | no |\n\
            +------+----+\n\
            | ab   |  7 |\n\
            +------+----+\n";
        assert_eq!(drawn(&["name", "no"], &rows), wanted);
    }
}
