//! Statements of administrators: KILL and ALTER INSTANCE.

use freshet_base::{Result, bail};
use freshet_meta::{Object, Privilege};

use crate::reply::Reply;
use crate::session::Session;

/// ALTER INSTANCE RELOAD TLS.
///
/// # Errors
/// 1227; keys that cannot be read.
pub async fn reload_tls(session: &Session) -> Result<Reply> {
    session.authorize(Privilege::Super, Object::Server)?;
    let Some(tls) = &session.shared.tls else {
        bail!(NoSecureTransport, "TLS is switched off; start the server with tls = true");
    };
    tls.reload().await?;
    Ok(Reply::done())
}

/// KILL.
///
/// # Errors
/// 1094 and 1095.
pub fn kill(session: &Session, id: u64, whole: bool) -> Result<()> {
    let process = session.shared.processes.require(id)?;
    let own = process.details().account.as_ref() == Some(&session.client.account);
    if !own && session.authorize(Privilege::Super, Object::Server).is_err() {
        bail!(KillDenied, "You are not owner of thread {id}");
    }
    process.kill(whole);
    Ok(())
}
