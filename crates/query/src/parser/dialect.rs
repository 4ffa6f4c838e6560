//! MySQL's dialect with its `sql_mode`.

use std::any::TypeId;

use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DateTimeField, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, Interval, ObjectName,
    TrimWhereField, UnaryOperator,
};
use sqlparser::dialect::{Dialect, MySqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Word};

use crate::functions::string::BYTES_OF_CODES;
use crate::session::SqlMode;

const BASE: MySqlDialect = MySqlDialect {};

/// Precedences that differ between `sqlparser` and MySQL; those of `sqlparser` are 5 for OR, 10 for
/// AND, 20 for comparisons, 23 for `&`, 30 for `+` and 40 for `*`.
const ASSIGNMENT: u8 = 2;
const XOR: u8 = 7;
const SHIFT: u8 = 27;
const POWER: u8 = 44;
const SIGN: u8 = 46;
const PATH: u8 = 50;

/// The MySQL dialect of `sqlparser`, with the effects of `sql_mode` and with corrections.
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

/// Whether the word is the operator MOD; if quoted it is a name.
fn is_mod(word: &Word) -> bool {
    word.keyword == Keyword::MOD && word.quote_style.is_none()
}

/// Maximum number of tokens after INTERVAL that are examined to find out whether it is the
/// function.
const ARGUMENT_TOKENS_MAX: usize = 100;

/// Whether the next word is followed by more than one argument in parentheses.
fn has_arguments(parser: &Parser) -> bool {
    let mut depth = 0_u32;
    for at in 1..ARGUMENT_TOKENS_MAX {
        match parser.peek_nth_token_ref(at).token {
            Token::LParen => depth += 1,
            Token::Comma if depth == 1 => return true,
            Token::RParen if depth > 1 => depth -= 1,
            Token::RParen | Token::EOF => return false,
            _ if depth == 0 => return false,
            _ => {}
        }
    }
    false
}

/// A call of a function.
fn call(name: &str, args: Vec<Expr>) -> Expr {
    let argument = |arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.into_iter().map(argument).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// `CHAR(n, .. USING charset)`, which is `CONVERT(CHAR(n, ..) USING charset)`.
fn char_using(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let is_call =
        parser.peek_keyword(Keyword::CHAR) && parser.peek_nth_token_ref(1).token == Token::LParen;
    if !is_call {
        return None;
    }
    // A failed `try_parse` consumes no tokens: without USING it is a plain call.
    let parsed = parser.try_parse(|parser| {
        parser.advance_token();
        parser.advance_token();
        let codes = parser.parse_comma_separated(Parser::parse_expr)?;
        parser.expect_keyword(Keyword::USING)?;
        let charset = parser.parse_object_name(false)?;
        parser.expect_token(&Token::RParen)?;
        Ok((codes, charset))
    });
    let (codes, charset) = parsed.ok()?;
    Some(Ok(Expr::Convert {
        is_try: false,
        expr: Box::new(call(BYTES_OF_CODES, codes)),
        data_type: None,
        charset: Some(charset),
        target_before_value: false,
        styles: Vec::new(),
    }))
}

/// Whether a word and the next one are SOUNDS LIKE.
fn sounds_like(word: &Word, parser: &Parser) -> bool {
    word.quote_style.is_none()
        && word.value.eq_ignore_ascii_case("SOUNDS")
        && matches!(&parser.peek_nth_token_ref(1).token,
            Token::Word(next) if next.keyword == Keyword::LIKE)
}

/// `a SOUNDS LIKE b`, which is `SOUNDEX(a) = SOUNDEX(b)`.
fn sounding(parser: &mut Parser, left: &Expr, precedence: u8) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.advance_token();
    let right = parser.parse_subexpr(precedence)?;
    Ok(Expr::BinaryOp {
        left: Box::new(call("soundex", vec![left.clone()])),
        op: BinaryOperator::Eq,
        right: Box::new(call("soundex", vec![right])),
    })
}

/// `ROW(a, b)`, which is `(a, b)`, and `TRIM(BOTH FROM text)`, which `sqlparser` does not know.
fn row_or_trimmed(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let is_open = parser.peek_nth_token_ref(1).token == Token::LParen;
    if is_open && parser.peek_keyword(Keyword::ROW) {
        parser.advance_token();
        parser.advance_token();
        let parts = parser.parse_comma_separated(Parser::parse_expr).and_then(|parts| {
            parser.expect_token(&Token::RParen)?;
            Ok(Expr::Tuple(parts))
        });
        return Some(parts);
    }
    let is_word = |parser: &Parser, at: usize, keyword: Keyword| {
        matches!(&parser.peek_nth_token_ref(at).token,
            Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
    };
    if !is_open || !is_word(parser, 0, Keyword::TRIM) || !is_word(parser, 3, Keyword::FROM) {
        return None;
    }
    let sides = [
        (Keyword::BOTH, TrimWhereField::Both),
        (Keyword::LEADING, TrimWhereField::Leading),
        (Keyword::TRAILING, TrimWhereField::Trailing),
    ];
    let (_, side) = sides.into_iter().find(|(word, _)| is_word(parser, 2, *word))?;
    (0..4).for_each(|_| parser.advance_token());
    let trimmed = parser.parse_expr().and_then(|expr| {
        parser.expect_token(&Token::RParen)?;
        let (trim_where, expr) = (Some(side), Box::new(expr));
        Ok(Expr::Trim { expr, trim_where, trim_what: None, trim_characters: None })
    });
    Some(trimmed)
}

/// `array(1, 2)` and `struct(1, 2)`, which `sqlparser` takes for something else, and `{'k': 1}` and
/// `{1, 'a'}`, which are calls of MAP and STRUCT.
fn nested_literal(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let next = |parser: &Parser| parser.peek_nth_token_ref(1).token.clone();
    for (word, name) in [(Keyword::ARRAY, "array"), (Keyword::STRUCT, "struct")] {
        if parser.peek_keyword(word) && next(parser) == Token::LParen {
            parser.advance_token();
            return Some(parser.parse_function(ObjectName::from(vec![Ident::new(name)])));
        }
    }
    // A column may be called so.
    if parser.peek_keyword(Keyword::STRUCT) {
        return Some(parser.parse_identifier().map(Expr::Identifier));
    }
    if parser.peek_token_ref().token != Token::LBrace || is_odbc(parser) {
        return None;
    }
    parser.advance_token();
    let literal = parser.try_parse(|parser| {
        let (mut parts, mut is_map) = (Vec::new(), false);
        while !parser.consume_token(&Token::RBrace) {
            if !parts.is_empty() {
                parser.expect_token(&Token::Comma)?;
            }
            let before = parts.len();
            parts.push(parser.parse_expr()?);
            let has_value = parser.consume_token(&Token::Colon);
            if has_value {
                parts.push(parser.parse_expr()?);
            }
            is_map |= has_value;
            if before > 0 && is_map != has_value {
                return parser.expected_ref("a key and a value", parser.peek_token_ref());
            }
        }
        Ok(call(if is_map || parts.is_empty() { "map" } else { "struct" }, parts))
    });
    Some(literal)
}

/// Whether a brace begins `{d '2020-01-01'}` or `{fn now()}`.
fn is_odbc(parser: &Parser) -> bool {
    let Token::Word(word) = &parser.peek_nth_token_ref(1).token else { return false };
    let behind = &parser.peek_nth_token_ref(2).token;
    let is_text = matches!(behind, Token::SingleQuotedString(_) | Token::DoubleQuotedString(_));
    match word.value.to_lowercase().as_str() {
        "d" | "t" | "ts" => is_text,
        "fn" | "oj" => matches!(behind, Token::Word(_)),
        _ => false,
    }
}

/// Parses the part after INTERVAL: an amount and its unit.
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

/// Parses the part after BINARY, which binds more closely than any sign; `sqlparser` takes all that
/// follows, an OR too.
fn binary(parser: &mut Parser) -> Result<Expr, ParserError> {
    let expr = Box::new(parser.parse_subexpr(SIGN)?);
    let data_type = DataType::Binary(None);
    Ok(Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None })
}

/// Parses the part after CAST, which may name a character set behind the type; `sqlparser` knows
/// none there.
fn cast(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let expr = Box::new(parser.parse_expr()?);
    parser.expect_keyword(Keyword::AS)?;
    let data_type = parser.parse_data_type()?;
    let is_charset = parser.parse_keywords(&[Keyword::CHARACTER, Keyword::SET])
        || parser.parse_keyword(Keyword::CHARSET);
    let charset = is_charset.then(|| parser.parse_object_name(false)).transpose()?;
    let array = parser.parse_keyword(Keyword::ARRAY);
    parser.expect_token(&Token::RParen)?;
    let cast = Expr::Cast { kind: CastKind::Cast, expr, data_type, array, format: None };
    Ok(match charset {
        None => cast,
        Some(_) => Expr::Convert {
            is_try: false,
            expr: Box::new(cast),
            data_type: None,
            charset,
            target_before_value: false,
            styles: Vec::new(),
        },
    })
}

/// ``@`name` `` and `@'name'`, whose quotes are a token of their own.
fn quoted_variable(parser: &mut Parser) -> Option<Expr> {
    if parser.peek_token_ref().token != Token::AtSign {
        return None;
    }
    let name = match &parser.peek_nth_token_ref(1).token {
        Token::Word(word) if word.quote_style.is_some() => &word.value,
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => text,
        _ => return None,
    };
    let name = Ident::new(format!("@{name}"));
    parser.advance_token();
    parser.advance_token();
    Some(Expr::Identifier(name))
}

/// `IN ((SELECT ..), 2)`: if the first of several items is in parentheses, `sqlparser` takes it for
/// the subquery of IN.
fn in_list(parser: &mut Parser, expr: &Expr) -> Option<Result<Expr, ParserError>> {
    let negated = parser.peek_keyword(Keyword::NOT);
    let at = usize::from(negated);
    let is_in = matches!(
        &parser.peek_nth_token_ref(at).token,
        Token::Word(word) if word.keyword == Keyword::IN
    );
    let is_open = |at| parser.peek_nth_token_ref(at).token == Token::LParen;
    if !(is_in && is_open(at + 1) && is_open(at + 2) && is_followed_by_comma(parser, at + 2)) {
        return None;
    }
    (0..at + 2).for_each(|_| parser.advance_token());
    let list = parser.parse_comma_separated(Parser::parse_expr).and_then(|list| {
        parser.expect_token(&Token::RParen)?;
        Ok(Expr::InList { expr: Box::new(expr.clone()), list, negated })
    });
    Some(list)
}

/// Whether the parentheses that open at this token are followed by a comma.
fn is_followed_by_comma(parser: &mut Parser, at: usize) -> bool {
    let mut depth = 0_u32;
    let mut comma = false;
    // A failed `try_parse` consumes no tokens, and this one always fails.
    let _ = parser.try_parse(|parser| {
        (0..at).for_each(|_| parser.advance_token());
        loop {
            parser.advance_token();
            match parser.get_current_token().token {
                Token::LParen => depth += 1,
                Token::RParen if depth > 1 => depth -= 1,
                Token::RParen | Token::EOF => break,
                _ => {}
            }
        }
        comma = parser.peek_token_ref().token == Token::Comma;
        Err::<(), _>(ParserError::ParserError(String::new()))
    });
    comma
}

impl Dialect for MySql {
    // The parser compares the type of its dialect in many places.
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

    // CAST(.. AS MAP<..>).
    fn supports_map_literal_with_angle_brackets(&self) -> bool {
        true
    }

    /// For the type; calls of STRUCT are parsed as such before.
    fn supports_struct_literal(&self) -> bool {
        true
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

    // Unary operators: `sqlparser` gives signs the precedence of `*` and `!` that of NOT, while in
    // MySQL they bind more closely than `^`. BINARY; and INTERVAL, for which it lacks compound
    // units such as DAY_SECOND.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let op = match parser.peek_token_ref().token {
            Token::Minus => Some(UnaryOperator::Minus),
            Token::Plus => Some(UnaryOperator::Plus),
            Token::Tilde => Some(UnaryOperator::BitwiseNot),
            Token::ExclamationMark => Some(UnaryOperator::BangNot),
            _ => None,
        };
        if let Some(name) = quoted_variable(parser) {
            return Some(Ok(name));
        }
        if let Some(op) = op {
            parser.advance_token();
            let operand = parser.parse_subexpr(SIGN);
            return Some(operand.map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }));
        }
        if let Some(converted) = char_using(parser) {
            return Some(converted);
        }
        if parser.parse_keyword(Keyword::BINARY) {
            return Some(binary(parser));
        }
        if parser.peek_keyword(Keyword::CAST) && parser.peek_nth_token_ref(1).token == Token::LParen
        {
            parser.advance_token();
            return Some(cast(parser));
        }
        if let Some(found) = row_or_trimmed(parser).or_else(|| nested_literal(parser)) {
            return Some(found);
        }
        if !parser.peek_keyword(Keyword::INTERVAL) {
            return None;
        }
        let function = has_arguments(parser);
        parser.advance_token();
        if function {
            let name = ObjectName::from(vec![Ident::new("interval")]);
            return Some(parser.parse_function(name));
        }
        Some(interval(parser))
    }

    fn is_select_item_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser) -> bool {
        // ON DUPLICATE KEY UPDATE and FOR UPDATE may follow a select list.
        let is_word = matches!(kw, Keyword::ON | Keyword::FOR);
        explicit || (!is_word && BASE.is_select_item_alias(explicit, kw, parser))
    }

    fn is_table_factor_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser) -> bool {
        BASE.is_table_factor_alias(explicit, kw, parser)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        let mul = self.prec_value(Precedence::MulDivModOp);
        Some(Ok(match &parser.peek_token_ref().token {
            Token::StringConcat if !self.mode.pipes_as_concat => self.prec_value(Precedence::Or),
            // `sqlparser` lets `&&` bind as closely as its operators of ranges do.
            Token::Overlap => self.prec_value(Precedence::And),
            Token::Arrow | Token::LongArrow => PATH,
            // It stands behind the keys of a MAP, and is no operator.
            Token::Colon => 0,
            Token::Caret => POWER,
            Token::ShiftLeft | Token::ShiftRight => SHIFT,
            Token::Word(word) if word.keyword == Keyword::XOR => XOR,
            Token::Assignment => ASSIGNMENT,
            Token::Word(word) if is_mod(word) => mul,
            Token::Word(word) if sounds_like(word, parser) => self.prec_value(Precedence::Like),
            _ => return None,
        }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let (op, precedence) = match &parser.peek_token_ref().token {
            Token::Word(word) if word.keyword == Keyword::DIV => {
                (BinaryOperator::MyIntegerDivide, precedence)
            }
            Token::Word(word) if is_mod(word) => (BinaryOperator::Modulo, precedence),
            // From right to left.
            Token::Assignment => (BinaryOperator::Assignment, ASSIGNMENT - 1),
            Token::Word(word) if sounds_like(word, parser) => {
                return Some(sounding(parser, expr, precedence));
            }
            _ => return in_list(parser, expr),
        };
        parser.advance_token();
        Some(parser.parse_subexpr(precedence).map(|right| Expr::BinaryOp {
            left: Box::new(expr.clone()),
            op,
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
