//! Which loads share a group.

use freshet_base::{DbId, ErrorCode, Result, bail};
use freshet_ingest::{Destination, OwnRows};
use freshet_meta::{Claim, LabelKind};
use freshet_schema::GroupCommitMode;

use super::Target;
use crate::session::Session;
use crate::settings::Settings;

/// Which loads an INSERT shares its commit group with.
pub enum Grouping {
    /// Those that the session's group commit mode allows.
    Shared,
    /// None, regardless of the mode: the mode excludes this statement.
    Alone,
    /// It has a label given by the client.
    Labelled {
        claim: Claim,
        /// Whether it shares a group nevertheless.
        shares: bool,
    },
    /// None, and outside of any transaction: the rows of CREATE TABLE AS SELECT and INSERT
    /// OVERWRITE, in a table that nobody else knows yet.
    OfNewTable,
}

impl Grouping {
    /// Claims the label that the client gave for an INSERT of literals.
    ///
    /// # Errors
    /// When the label is invalid or already used.
    pub async fn labelled(session: &Session, target: &Target, label: &str) -> Result<Self> {
        let shares = session.settings.group_labels;
        Ok(Self::Labelled { claim: claimed(session, target.into.db(), label).await?, shares })
    }

    /// The same for an INSERT of computed rows, which never shares a group.
    ///
    /// # Errors
    /// As [`Self::labelled`].
    pub async fn labelled_alone(session: &Session, target: &Target, label: &str) -> Result<Self> {
        Ok(Self::Labelled {
            claim: claimed(session, target.into.db(), label).await?,
            shares: false,
        })
    }

    /// Why a statement does not share a group although its mode would have it.
    pub fn why_alone(&self, in_transaction: bool, target: &Target) -> Option<&'static str> {
        match self {
            Self::OfNewTable => None,
            _ if in_transaction => Some("it is in a transaction"),
            Self::Alone => Some("its rows are computed"),
            Self::Labelled { shares: false, .. } => Some("it has a label (group_commit_labels)"),
            _ if target.partial.is_some() => Some("it is a partial update"),
            Self::Labelled { shares: true, .. } | Self::Shared => {
                (!target.groups).then_some("its table has light_schema_change = false")
            }
        }
    }

    /// That of a load that is tried again; `None` where it has used up a label.
    pub fn again(&self) -> Option<Self> {
        match self {
            Self::Shared => Some(Self::Shared),
            Self::Alone => Some(Self::Alone),
            Self::Labelled { .. } | Self::OfNewTable => None,
        }
    }

    /// The destination of the rows, in a transaction or without one.
    ///
    /// # Errors
    /// A label that differs from that of the open transaction.
    pub fn destination<'a>(
        self,
        transaction: Option<&'a OwnRows>,
        settings: &Settings,
        target: &Target,
    ) -> Result<Destination<'a>> {
        let mode = match target.groups {
            true => settings.group_mode(target.into.table()),
            false => GroupCommitMode::Off,
        };
        Ok(match (self, transaction) {
            (Self::Labelled { claim, .. }, Some(own)) if Some(claim.label()) != own.label() => {
                match own.label() {
                    Some(label) => bail!(InTransaction, "Transaction insert expect label {label}"),
                    None => bail!(InTransaction, "Transaction insert expect no label"),
                }
            }
            (_, Some(own)) => Destination::Transaction(own),
            (Self::Shared, None) => Destination::Group(mode),
            (Self::Labelled { claim, shares: true }, None) => Destination::Label(claim, mode),
            (Self::Labelled { claim, .. }, None) => Destination::Label(claim, GroupCommitMode::Off),
            (_, None) => Destination::Group(GroupCommitMode::Off),
        })
    }
}

/// Claims the label of a statement in a database.
///
/// # Errors
/// When the label is invalid or already used.
pub async fn claimed(session: &Session, db: DbId, label: &str) -> Result<Claim> {
    let engine = &session.shared.engine;
    engine.claim_label(db, label, LabelKind::Statement).await?.or_refuse()
}

/// Tells the client that a statement does not share a group, where it should by the mode.
pub fn note_alone(session: &mut Session, target: &Target, why: Option<&'static str>) {
    let mode = session.settings.group_mode(target.into.table());
    if let (Some(why), true) = (why, mode != GroupCommitMode::Off) {
        let message = format!("{} has no effect on this statement: {why}", mode.name());
        session.diagnostics.push("Note", ErrorCode::Unknown.errno(), message);
    }
}
