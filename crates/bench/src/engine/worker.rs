//! A client thread and its connections.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::clock::{Clock, SystemClock};
use mio::{Events, Interest, Poll, Token};

use super::{Connection, Feed, Schedule, Tally};
use crate::reply::Answer;

/// How often a thread checks the clock when there are no events.
const TICK: Duration = Duration::from_millis(100);
/// A request sent later than this after it was due counts as late because no connection was free;
/// waiting for events, which has a resolution of milliseconds, delays it less.
const LATE: Duration = Duration::from_millis(5);

/// Requests that are sent at fixed intervals.
struct Pace {
    interval: Duration,
    due: Duration,
    idle: Vec<usize>,
}

/// A thread's share of the load.
pub(super) struct Worker {
    poll: Poll,
    /// `None` after the connection was lost.
    connections: Vec<Option<Connection>>,
    /// The number of connections with an outstanding request.
    busy: usize,
    feed: Arc<Feed>,
    clock: SystemClock,
    schedule: Schedule,
    pace: Option<Pace>,
    tally: Tally,
}

impl Worker {
    /// Registers the connections; `pace` is in requests per second.
    pub(super) fn new(
        mut connections: Vec<Connection>,
        feed: Arc<Feed>,
        clock: SystemClock,
        schedule: Schedule,
        pace: Option<f64>,
    ) -> Result<Self, String> {
        let poll = Poll::new().map_err(|error| error.to_string())?;
        let interests = Interest::READABLE | Interest::WRITABLE;
        for (index, connection) in connections.iter_mut().enumerate() {
            let registered = poll.registry().register(connection.stream(), Token(index), interests);
            registered.map_err(|error| error.to_string())?;
        }
        let pace = pace.map(|rate| Pace {
            interval: Duration::from_secs_f64(1.0 / rate),
            due: schedule.start,
            idle: (0..connections.len()).collect(),
        });
        let connections = connections.into_iter().map(Some).collect();
        Ok(Self { poll, connections, busy: 0, feed, clock, schedule, pace, tally: Tally::new() })
    }

    /// Sends and receives until the time is over and every answer has arrived.
    pub(super) fn run(mut self) -> Result<Tally, String> {
        let mut events = Events::with_capacity(1024);
        if self.pace.is_none() {
            (0..self.connections.len()).for_each(|index| self.begin(index, self.clock.now()));
        }
        loop {
            let now = self.clock.now();
            self.send_due(now);
            if now >= self.schedule.give_up && self.busy > 0 {
                self.tally.error("no answer within a minute".to_owned());
                return Ok(self.tally);
            }
            let sends_later = self.pace.is_some() && now < self.schedule.send_until;
            if self.busy == 0 && !sends_later {
                return Ok(self.tally);
            }
            self.wait(&mut events, now)?;
            for event in &events {
                self.on_event(event.token().0, event.is_readable(), event.is_writable());
            }
        }
    }

    fn wait(&mut self, events: &mut Events, now: Duration) -> Result<(), String> {
        let due = self.pace.as_ref().map(|pace| pace.due.saturating_sub(now));
        match self.poll.poll(events, Some(due.unwrap_or(TICK).min(TICK))) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    /// Sends the requests that are due; the latency of a late request counts from when it was due.
    fn send_due(&mut self, now: Duration) {
        while let Some(pace) = &mut self.pace {
            if pace.due > now || now >= self.schedule.send_until {
                return;
            }
            let Some(index) = pace.idle.pop() else { return };
            let late = now.saturating_sub(pace.due) > LATE;
            let started = if late { pace.due } else { self.clock.now() };
            pace.due += pace.interval;
            self.begin(index, started);
        }
    }

    fn begin(&mut self, index: usize, started: Duration) {
        let Some(connection) = &mut self.connections[index] else { return };
        match connection.begin(&self.feed, started) {
            Ok(began) => self.busy += usize::from(began),
            Err(error) => {
                self.connections[index] = None;
                self.tally.error(error);
            }
        }
    }

    fn lose(&mut self, index: usize, error: String) {
        let lost = self.connections[index].take();
        self.busy -= usize::from(lost.is_some_and(|connection| connection.is_busy()));
        self.tally.error(error);
    }

    fn on_event(&mut self, index: usize, readable: bool, writable: bool) {
        let Some(connection) = &mut self.connections[index] else { return };
        if writable && let Err(error) = connection.write() {
            return self.lose(index, error);
        }
        if !readable || !connection.is_busy() {
            return;
        }
        match connection.read() {
            Ok(Some((answer, rows, started))) => {
                let now = self.clock.now();
                self.busy -= 1;
                self.count(answer, rows, started, now);
                self.go_on(index, now);
            }
            Ok(None) => {}
            Err(error) => self.lose(index, error),
        }
    }

    fn count(&mut self, answer: Answer, rows: u64, started: Duration, now: Duration) {
        let before = std::mem::replace(&mut self.tally.last_answer, now);
        match answer {
            Answer::Refused(error) => self.tally.error(error),
            Answer::Prepared(txn) => self.tally.error(format!("load {txn} was only prepared")),
            Answer::Done(said) => {
                let rows = said.unwrap_or(rows);
                self.tally.acknowledged_rows += rows;
                if let Some(part) = self.schedule.part(now) {
                    self.tally.rows += rows;
                    let gap = now.saturating_sub(before.max(self.schedule.measure_from));
                    self.tally.gap = self.tally.gap.max(gap);
                    self.tally.part_rows[part] += rows;
                    let nanos = now.saturating_sub(started).as_nanos() as u64;
                    self.tally.latency_nanos.saturating_record(nanos);
                }
            }
        }
    }

    fn go_on(&mut self, index: usize, now: Duration) {
        match &mut self.pace {
            Some(pace) => pace.idle.push(index),
            None if now < self.schedule.send_until => self.begin(index, now),
            None => {}
        }
    }
}
