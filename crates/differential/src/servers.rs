//! Connections to the two servers.

use freshet_torture::client::{Client, Failure};
use freshet_wire::Param;
use freshet_wire::client::Outcome;

use crate::answer::Answer;

pub struct Servers {
    freshet: u16,
    database: String,
    ours: Client,
    theirs: Option<Client>,
}

impl Servers {
    /// Connects to both servers and creates `database` on each.
    ///
    /// # Errors
    /// When a server is unavailable or rejects a statement.
    pub fn connect(freshet: u16, mariadb: Option<u16>, database: String) -> Result<Self, Failure> {
        let mut ours = Client::connect(freshet)?;
        prepare_ours(&mut ours, &database)?;
        let theirs = mariadb.map(Client::connect).transpose()?;
        let mut servers = Self { freshet, database, ours, theirs };
        if let Some(theirs) = &mut servers.theirs {
            theirs.query(&format!("CREATE OR REPLACE DATABASE {}", servers.database))?;
            theirs.query(&format!("USE {}", servers.database))?;
            theirs.query("SET NAMES utf8mb4 COLLATE utf8mb4_nopad_bin, time_zone = '+00:00'")?;
            // As in MySQL, fractions of seconds are rounded. The other modes are MySQL's defaults
            // except ONLY_FULL_GROUP_BY.
            theirs.query(
                "SET sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,\
                 NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION,TIME_ROUND_FRACTIONAL'",
            )?;
        }
        Ok(servers)
    }

    /// The result of Freshet. Reconnects after a lost connection.
    pub fn ours(&mut self, sql: &str) -> Answer {
        let answer = Answer::from(self.ours.outcome(sql));
        self.restored(answer)
    }

    /// The result of a prepared statement on Freshet.
    pub fn prepared(&mut self, sql: &str, parameters: &[String]) -> Answer {
        let answer = Answer::from(prepared(&mut self.ours, sql, parameters));
        self.restored(answer)
    }

    fn restored(&mut self, answer: Answer) -> Answer {
        if let Answer::Lost(_) = answer
            && let Ok(mut client) = Client::connect(self.freshet)
            && prepare_ours(&mut client, &self.database).is_ok()
        {
            self.ours = client;
        }
        answer
    }

    /// The results of both servers; `None` without MariaDB.
    pub fn both(&mut self, sql: &str) -> Option<(Answer, Answer)> {
        let theirs = Answer::from(self.theirs.as_mut()?.outcome(sql));
        Some((self.ours(sql), theirs))
    }

    /// Runs a statement that must succeed on both servers.
    ///
    /// # Errors
    /// When one of them rejects it.
    pub fn must(&mut self, sql: &str) -> Result<(), String> {
        self.must_ours(sql)?;
        match &mut self.theirs {
            Some(theirs) => theirs.query(sql).map(drop).map_err(|e| refused("mariadb", sql, &e)),
            None => Ok(()),
        }
    }

    /// Runs a statement that must succeed on Freshet.
    ///
    /// # Errors
    /// When it is rejected.
    pub fn must_ours(&mut self, sql: &str) -> Result<(), String> {
        self.ours.query(sql).map(drop).map_err(|e| refused("freshet", sql, &e))
    }
}

fn refused(name: &str, sql: &str, failure: &Failure) -> String {
    format!("{name} does not take `{sql}`: {failure}")
}

fn prepare_ours(client: &mut Client, database: &str) -> Result<(), Failure> {
    // Both compare texts by bytes: of collations by Unicode each server has its own version.
    client.query(&format!("CREATE DATABASE IF NOT EXISTS {database} COLLATE utf8mb4_bin"))?;
    client.query(&format!("USE {database}"))?;
    client.query("SET NAMES utf8mb4")?;
    client.query("SET time_zone = '+00:00'").map(drop)
}

/// Prepares and executes a statement with literals as parameters.
fn prepared(client: &mut Client, sql: &str, parameters: &[String]) -> Result<Outcome, Failure> {
    let mut statement = match client.prepare(sql) {
        Ok(statement) => statement,
        Err(Failure::Refused { errno, message }) => {
            return Ok(Outcome::Err { errno, sqlstate: String::new(), message });
        }
        Err(failure) => return Err(failure),
    };
    let texts: Vec<_> = parameters.iter().map(|literal| unquoted(literal)).collect();
    let params = parameters.iter().zip(&texts).map(|(literal, text)| match literal.parse() {
        Ok(number) => Param::Int(number),
        Err(_) => Param::Bytes(text.as_bytes()),
    });
    let outcome = client.execute_outcome(&mut statement, &params.collect::<Vec<_>>())?;
    client.close(statement)?;
    Ok(outcome)
}

/// The value of a text literal.
fn unquoted(literal: &str) -> String {
    literal.trim_matches('\'').replace("''", "'").replace("\\\\", "\\")
}
