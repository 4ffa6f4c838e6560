//! What values lose where expressions convert them: a text behind its number, digits above a type,
//! a date that is none, a quotient of zero.
//!
//! A SELECT converts as well as it can and says nothing. An INSERT refuses what it would store
//! otherwise than it was written, or warns of it. So what converts a value says here what was lost
//! ([`note`]), and who evaluates for an INSERT hears it ([`heard`]), batch by batch, on the thread
//! that evaluates. While constants are folded into a plan a loss is an error, which leaves the
//! expression in the plan: whether its value is wanted is known only when it runs.

use std::cell::{Cell, RefCell};

use arrow::array::StringViewArray;
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use freshet_base::{Error, ErrorCode};

use crate::error::external;
use crate::evaluation::{Evaluation, Losses, OnLoss};

/// Characters of a value that a message shows.
const SHOWN_CHARACTERS_MAX: usize = 64;

thread_local! {
    /// Who hears of losses on this thread.
    static LISTENER: RefCell<Option<Listener>> = const { RefCell::new(None) };
    /// Whether losses matter to the statement that is planned on this thread.
    static PLANNED: Cell<bool> = const { Cell::new(false) };
}

struct Listener {
    evaluation: Evaluation,
    /// The first loss that is not taken.
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

/// Gives the thread back to who listened before.
struct Listening(Option<Listener>);

impl Listening {
    fn begin(evaluation: Evaluation) -> Self {
        let listener = Listener { evaluation, refused: None };
        Self(LISTENER.replace(Some(listener)))
    }

    /// The first loss that was not taken.
    fn end(self) -> Option<Error> {
        LISTENER.with_borrow_mut(|listener| listener.as_mut()?.refused.take())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        LISTENER.set(self.0.take());
    }
}

/// Evaluates, and hears of what is lost if that matters to the statement that `config` is of.
///
/// # Errors
/// The first loss, where the statement does not take it; those of evaluating.
pub fn heard<T>(config: &ConfigOptions, evaluate: impl FnOnce() -> Result<T>) -> Result<T> {
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

/// Whether anybody hears of losses: whoever would look for some asks once a batch.
pub fn are_heard() -> bool {
    LISTENER.with_borrow(Option::is_some)
}

/// Converts where what is lost is noted elsewhere, or belongs to nobody.
pub fn unheard<T>(convert: impl FnOnce() -> T) -> T {
    let listener = LISTENER.take();
    let value = convert();
    LISTENER.set(listener);
    value
}

/// Something was lost.
pub fn note(code: ErrorCode, message: impl FnOnce() -> String) {
    LISTENER.with_borrow_mut(|listener| {
        if let Some(listener) = listener {
            listener.note(code, message);
        }
    });
}

/// A value was not one of this type, or not as a whole.
pub fn note_truncated(ty: &str, value: &str) {
    note(ErrorCode::WrongValue, || format!("Truncated incorrect {ty} value: '{}'", shown(value)));
}

/// A value that is no date.
pub fn note_no_date(value: &str) {
    note(ErrorCode::WrongValue, || format!("Incorrect datetime value: '{}'", shown(value)));
}

/// A text that a function does not read as a value of this type.
pub fn note_argument(ty: &str, value: &str, function: &str) {
    note(ErrorCode::WrongArgument, || {
        format!("Incorrect {ty} value: '{}' for function {function}", shown(value))
    });
}

/// A value beyond the largest of a DECIMAL, which is taken for it.
pub fn note_out_of_range(largest: &str) {
    note(ErrorCode::OutOfRange, || format!("Out of range value for a DECIMAL up to {largest}"));
}

/// A function came to a date that there is not.
pub fn note_overflow(function: &str) {
    note(ErrorCode::DateOverflow, || format!("Datetime function: {function} field overflow"));
}

/// A logarithm of what has none.
pub fn note_no_logarithm() {
    note(ErrorCode::NoLogarithm, || "Invalid argument for logarithm".to_owned());
}

/// A quotient whose divisor is zero.
pub fn note_division() {
    note(ErrorCode::DivisionByZero, || "Division by 0".to_owned());
}

/// Notes those texts that are of this type in part only.
pub fn note_texts(texts: &StringViewArray, ty: &str, is_whole: impl Fn(&str) -> bool) {
    if are_heard() {
        let parts = texts.iter().flatten().filter(|text| !is_whole(text));
        parts.for_each(|text| note_truncated(ty, text));
    }
}

fn shown(value: &str) -> String {
    value.chars().take(SHOWN_CHARACTERS_MAX).collect()
}

/// Tells the passes over a plan, as long as it lives, whether losses matter to its statement.
pub struct Planning(bool);

impl Planning {
    /// From now on.
    pub fn of(losses: Losses) -> Self {
        Self(PLANNED.replace(losses.matter()))
    }
}

impl Drop for Planning {
    fn drop(&mut self) {
        PLANNED.set(self.0);
    }
}

/// Whether a literal may be converted while it is planned: where it is of the type as a whole, or
/// nobody wants to know.
pub fn may_fold(is_whole: impl FnOnce() -> bool) -> bool {
    !PLANNED.get() || is_whole()
}
