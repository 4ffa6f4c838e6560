//! Each scenario under many interleavings of its threads.

use freshet_threads::runner::try_orders;
use freshet_threads::{tables, waits};

#[test]
fn a_budget_forgets_nobody_and_gives_nothing_twice() {
    try_orders(2000, waits::budget);
}

#[test]
fn a_lock_forgets_nobody_and_is_held_by_one() {
    try_orders(2000, waits::lock);
}

#[test]
fn the_space_of_the_log_forgets_nobody() {
    try_orders(2000, waits::log_space);
}

#[test]
fn the_horizon_wakes_all_who_wait_and_none_too_early() {
    try_orders(2000, waits::horizon);
}

#[test]
fn chunks_of_a_delta_are_read_whole_while_it_is_sealed() {
    try_orders(400, tables::chunks);
}

#[test]
fn a_snapshot_sees_each_record_once_whatever_is_detached() {
    try_orders(400, tables::pins);
}

#[test]
fn a_snapshot_reaches_as_far_as_it_says() {
    try_orders(2000, tables::pinning);
}

#[test]
fn an_open_snapshot_holds_on_to_nothing_that_comes_later() {
    try_orders(2000, tables::detaching);
}

#[test]
fn a_snapshot_that_is_closed_says_so() {
    try_orders(400, tables::closing);
}
