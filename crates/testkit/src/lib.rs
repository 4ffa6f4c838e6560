//! What the tests of several crates share: a simulated disk that loses and tears unsynced data.
//!
//! It is: a file system in memory ([`SimFs`]) that distinguishes durable from merely written data.
//! A power failure keeps any subset of what was never synced: each sector, file length and name
//! independently. A direct write during the failure is torn in the same way. As with real page
//! caches, data whose sync failed remains readable and is never written. The end of the process
//! alone loses nothing and makes nothing durable. On demand the disk fills up, calls fail
//! ([`Faults`]), bits flip, and the blocks of one torn write have the [`Fate`]s that a test names.
//! For tests on a real disk there is a file system whose files they open themselves
//! ([`ThroughFs`]), and the end of a store that they have closed ([`until_closed`]).
//!
//! It is not: code that the server runs. It knows no crate but `base`.
//!
//! Invariant: chance comes from one seed, so that a test that fails will fail again.
//!
//! Test it with `cargo test -p freshet-testkit`.

mod closed;
mod disk;
mod file;
mod fs;
mod inode;
mod through;

pub use closed::until_closed;
pub use disk::Faults;
pub use fs::SimFs;
pub use inode::Fate;
pub use through::ThroughFs;
