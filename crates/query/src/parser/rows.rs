//! TABLE and VALUES as queries. `TABLE t` is `SELECT * FROM t`, which `sqlparser` knows without
//! ORDER BY and LIMIT; the columns of VALUES are `column_0`, `column_1` and so on.

use std::ops::ControlFlow;

use freshet_base::{Error, Result};
use sqlparser::ast::{
    Ident, Query, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
    TableWithJoins, VisitorMut, WildcardAdditionalOptions,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::numbers;
use crate::syntax::select_of;
use crate::visit::walk_mut;

/// Behind these words, or a parenthesis, a query begins.
const BEFORE: [&str; 7] = ["UNION", "ALL", "DISTINCT", "EXCEPT", "INTERSECT", "AS", "EXPLAIN"];

/// The tokens with each `TABLE t` that is a query written as a SELECT; `None` if there is none.
pub fn tables_selected(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let is_word = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word)
        if word.keyword == Keyword::TABLE && word.quote_style.is_none())
    };
    // Statements of many rows are not looked at twice.
    if !tokens.iter().any(is_word) {
        return None;
    }
    let said = (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_)));
    let said = said.collect::<Vec<_>>();
    let word = |at: usize| said.get(at).and_then(|at| word_of(&tokens[*at].token));
    let first = word(0).unwrap_or_default();
    let is_table = |at: &usize| is_word(&tokens[said[*at]]);
    let is_query = |at: usize| {
        let behind_target = match first.as_str() {
            "INSERT" | "REPLACE" => true,
            "CREATE" => (0..at).any(|before| is_table(&before)),
            _ => false,
        };
        let next = said.get(at + 1).map(|next| &tokens[*next].token);
        let begins = match at.checked_sub(1).map(|before| &tokens[said[before]].token) {
            None | Some(Token::LParen) => true,
            Some(Token::RParen) => behind_target || first == "WITH",
            Some(Token::Word(before)) if before.quote_style.is_some() => behind_target,
            Some(Token::Word(before)) => {
                let before = before.value.to_uppercase();
                let goes_on =
                    ["INTO", "OVERWRITE", "IGNORE", "CREATE", "TEMPORARY", "REPLACE", "LIKE"];
                BEFORE.contains(&before.as_str())
                    || behind_target && at > 1 && !goes_on.contains(&before.as_str())
            }
            Some(_) => false,
        };
        matches!(next, Some(Token::Word(_))) && begins
    };
    let found = (0..said.len()).filter(is_table).filter(|at| is_query(*at));
    let found = found.map(|at| said[at]).collect::<Vec<_>>();
    if found.is_empty() {
        return None;
    }
    let mut written = Vec::with_capacity(tokens.len() + 2 * found.len());
    for (at, token) in tokens.iter().enumerate() {
        if !found.contains(&at) {
            written.push(token.clone());
            continue;
        }
        let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
        written.extend(words.map(|word| TokenWithSpan { token: word, span: token.span }));
    }
    Some(written)
}

fn word_of(token: &Token) -> Option<String> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_uppercase()),
        _ => None,
    }
}

/// Names the columns of VALUES, and the tables of functions.
///
/// # Errors
/// Those of [`numbers::named`].
pub fn with_names(mut query: Box<Query>) -> Result<Box<Query>> {
    if let SetExpr::Values(values) = &*query.body {
        let columns = values.rows.first().map_or(0, |row| row.len());
        let apart = Query { body: query.body.clone(), ..select_of(Vec::new()) };
        let factor = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(apart),
            alias: Some(TableAlias {
                explicit: true,
                name: Ident::new("values"),
                columns: named(columns),
                at: None,
            }),
            sample: None,
        };
        let mut outer = select_of(Vec::new());
        if let SetExpr::Select(select) = &mut *outer.body {
            let all = WildcardAdditionalOptions::default();
            select.projection = vec![SelectItem::Wildcard(all)];
            select.from = vec![TableWithJoins { relation: factor, joins: Vec::new() }];
        }
        query.body = outer.body;
    }
    match walk_mut(&mut query, &mut Names) {
        ControlFlow::Continue(()) => Ok(query),
        ControlFlow::Break(error) => Err(error),
    }
}

fn named(columns: usize) -> Vec<TableAliasColumnDef> {
    (0..columns).map(|at| TableAliasColumnDef::from_name(format!("column_{at}"))).collect()
}

struct Names;

impl VisitorMut for Names {
    type Break = Error;

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        if let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor
            && let SetExpr::Values(values) = &*subquery.body
            && alias.columns.is_empty()
        {
            alias.columns = named(values.rows.first().map_or(0, |row| row.len()));
        }
        match numbers::named(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}
