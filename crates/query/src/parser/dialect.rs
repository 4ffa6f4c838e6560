//! MySQL's dialect under a `sql_mode`.

use std::any::TypeId;

use sqlparser::ast::{BinaryOperator, DateTimeField, Expr, Interval};
use sqlparser::dialect::{Dialect, MySqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use crate::session::SqlMode;

const BASE: MySqlDialect = MySqlDialect {};

/// MySQL's dialect, with what its `sql_mode` changes and what `sqlparser` gets wrong.
#[derive(Debug)]
pub struct MySql {
    pub mode: SqlMode,
}

macro_rules! as_mysql {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool {
            BASE.$name()
        })*
    };
}

/// What stands behind INTERVAL: an amount and its unit.
fn interval(parser: &mut Parser) -> Result<Expr, ParserError> {
    let value = Box::new(parser.parse_expr()?);
    let unit = parser.parse_identifier()?;
    let precision = parser.parse_optional_precision()?;
    Ok(Expr::Interval(Interval {
        value,
        leading_field: Some(DateTimeField::Custom(unit)),
        leading_precision: precision,
        last_field: None,
        fractional_seconds_precision: None,
    }))
}

impl Dialect for MySql {
    // The parser asks for the type of its dialect in many places.
    fn dialect(&self) -> TypeId {
        BASE.dialect()
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        BASE.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        BASE.is_identifier_part(ch)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`' || (ch == '"' && self.mode.ansi_quotes)
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        BASE.identifier_quote_style(identifier)
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        !self.mode.no_backslash_escapes
    }

    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    fn supports_bang_not_operator(&self) -> bool {
        true
    }

    fn allow_extract_custom(&self) -> bool {
        true
    }

    // `sqlparser` knows no units of two parts, such as DAY_SECOND.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let function = parser.peek_nth_token_ref(1).token == Token::LParen
            && parser.peek_nth_token_ref(3).token == Token::Comma;
        if function || !parser.parse_keyword(Keyword::INTERVAL) {
            return None;
        }
        Some(interval(parser))
    }

    fn is_table_factor_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser) -> bool {
        BASE.is_table_factor_alias(explicit, kw, parser)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        let or = !self.mode.pipes_as_concat && parser.peek_token_ref().token == Token::StringConcat;
        or.then(|| Ok(self.prec_value(Precedence::Or)))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if !parser.parse_keyword(Keyword::DIV) {
            return None;
        }
        Some(parser.parse_subexpr(precedence).map(|right| Expr::BinaryOp {
            left: Box::new(expr.clone()),
            op: BinaryOperator::MyIntegerDivide,
            right: Box::new(right),
        }))
    }

    as_mysql!(
        supports_string_literal_concatenation,
        ignores_wildcard_escapes,
        supports_numeric_prefix,
        supports_bitwise_shift_operators,
        supports_multiline_comment_hints,
        require_interval_qualifier,
        supports_limit_comma,
        supports_create_table_select,
        supports_insert_set,
        supports_user_host_grantee,
        supports_table_hints,
        requires_single_line_comment_whitespace,
        supports_match_against,
        supports_select_modifiers,
        supports_set_names,
        supports_comma_separated_set_assignments,
        supports_update_order_by,
        supports_data_type_signed_suffix,
        supports_cross_join_constraint,
        supports_double_ampersand_operator,
        supports_binary_kw_as_cast,
        supports_comment_optimizer_hint,
        supports_constraint_keyword_without_name,
        supports_key_column_option,
    );
}
