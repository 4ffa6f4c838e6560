//! Records what conversions in expressions lose: text after a number, digits beyond a type's
//! precision, invalid dates, divisions by zero.
//!
//! A SELECT converts values as far as possible and ignores losses. An INSERT rejects values that
//! would not be stored as written, or warns. So conversions report losses here ([`note`]), and the
//! evaluation for an INSERT collects them ([`collecting`]) for each batch, on the evaluating
//! thread. During constant folding a loss is an error, so that the expression remains in the plan:
//! only execution shows whether its value is needed.

use std::cell::{Cell, RefCell};

use arrow::array::StringViewArray;
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use freshet_base::{Error, ErrorCode};

use crate::error::external;
use crate::evaluation::{Evaluation, Losses, OnLoss};

/// Maximum number of characters of a value in a message.
const SHOWN_CHARACTERS_MAX: usize = 64;

thread_local! {
    /// Collects the losses on this thread.
    static LISTENER: RefCell<Option<Listener>> = const { RefCell::new(None) };
    /// Whether losses matter to the statement that this thread is planning.
    static PLANNED: Cell<bool> = const { Cell::new(false) };
}

struct Listener {
    evaluation: Evaluation,
    /// The first loss that must fail.
    refused: Option<Error>,
}

impl Listener {
    fn note(&mut self, code: ErrorCode, message: impl FnOnce() -> String) {
        match self.evaluation.losses().on(code) {
            OnLoss::Ignore => {}
            OnLoss::Warn if self.evaluation.is_running() => self.evaluation.warn(code, message),
            OnLoss::Warn | OnLoss::Refuse => {
                self.refused.get_or_insert_with(|| Error::new(code, message()));
            }
        }
    }
}

/// Restores the thread's previous listener on drop.
struct Listening(Option<Listener>);

impl Listening {
    fn begin(evaluation: Evaluation) -> Self {
        let listener = Listener { evaluation, refused: None };
        Self(LISTENER.replace(Some(listener)))
    }

    /// The first loss that must fail.
    fn end(self) -> Option<Error> {
        LISTENER.with_borrow_mut(|listener| listener.as_mut()?.refused.take())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        LISTENER.set(self.0.take());
    }
}

/// Evaluates and collects losses, if they matter to the statement to which `config` belongs.
///
/// # Errors
/// The first loss, if the statement does not allow it, and errors of evaluation.
pub fn collecting<T>(config: &ConfigOptions, evaluate: impl FnOnce() -> Result<T>) -> Result<T> {
    let evaluation = config.extensions.get::<Evaluation>();
    let Some(evaluation) = evaluation.filter(|evaluation| evaluation.losses().matter()) else {
        return evaluate();
    };
    let listening = Listening::begin(evaluation.clone());
    let values = evaluate()?;
    match listening.end() {
        None => Ok(values),
        Some(error) => Err(external(error)),
    }
}

/// Whether losses are collected, to be asked once per batch before looking for them.
pub fn are_collected() -> bool {
    LISTENER.with_borrow(Option::is_some)
}

/// Converts without collecting losses.
pub fn without_collecting<T>(convert: impl FnOnce() -> T) -> T {
    let listener = LISTENER.take();
    let value = convert();
    LISTENER.set(listener);
    value
}

/// Reports a loss.
pub fn note(code: ErrorCode, message: impl FnOnce() -> String) {
    LISTENER.with_borrow_mut(|listener| {
        if let Some(listener) = listener {
            listener.note(code, message);
        }
    });
}

/// Reports a value that is invalid for this type, or only valid in part.
pub fn note_truncated(ty: &str, value: &str) {
    note(ErrorCode::WrongValue, || format!("Truncated incorrect {ty} value: '{}'", shown(value)));
}

/// Reports an invalid date.
pub fn note_no_date(value: &str) {
    note(ErrorCode::WrongValue, || format!("Incorrect datetime value: '{}'", shown(value)));
}

/// Reports text that is invalid as an argument of a function.
pub fn note_argument(ty: &str, value: &str, function: &str) {
    note(ErrorCode::WrongArgument, || {
        format!("Incorrect {ty} value: '{}' for function {function}", shown(value))
    });
}

/// Reports a value that was clamped to the largest of a DECIMAL.
pub fn note_out_of_range(largest: &str) {
    note(ErrorCode::OutOfRange, || format!("Out of range value for a DECIMAL up to {largest}"));
}

/// Reports a date out of range.
pub fn note_overflow(function: &str) {
    note(ErrorCode::DateOverflow, || format!("Datetime function: {function} field overflow"));
}

/// Reports the logarithm of an argument out of its domain.
pub fn note_no_logarithm() {
    note(ErrorCode::NoLogarithm, || "Invalid argument for logarithm".to_owned());
}

/// Reports a division by zero.
pub fn note_division() {
    note(ErrorCode::DivisionByZero, || "Division by 0".to_owned());
}

/// Reports the texts that are only partly of this type.
pub fn note_texts(texts: &StringViewArray, ty: &str, is_whole: impl Fn(&str) -> bool) {
    if are_collected() {
        let parts = texts.iter().flatten().filter(|text| !is_whole(text));
        parts.for_each(|text| note_truncated(ty, text));
    }
}

fn shown(value: &str) -> String {
    value.chars().take(SHOWN_CHARACTERS_MAX).collect()
}

/// A guard that tells planner passes on this thread whether losses matter to the statement.
pub struct Planning(bool);

impl Planning {
    pub fn of(losses: Losses) -> Self {
        Self(PLANNED.replace(losses.matter()))
    }
}

impl Drop for Planning {
    fn drop(&mut self) {
        PLANNED.set(self.0);
    }
}

/// Whether a literal may be converted during planning: it is completely of the type, or losses do
/// not matter.
pub fn may_fold(is_whole: impl FnOnce() -> bool) -> bool {
    !PLANNED.get() || is_whole()
}
