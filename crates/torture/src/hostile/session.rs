//! One connection of a hostile client.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand::Rng;
use rand::rngs::StdRng;
use rustls::ClientConfig;

use super::commands::Known;
use super::transport::Transport;
use super::{Shared, commands, happens, mutation};

/// Accounts with their passwords; these clients answer with none.
pub const USERS: [(&str, &str); 2] = [("hostile", ""), ("hostile_locked", "a password")];

const LONG_PASSWORD: u32 = 1;
const CONNECT_WITH_DB: u32 = 1 << 3;
const COMPRESS: u32 = 1 << 5;
const LOCAL_FILES: u32 = 1 << 7;
const PROTOCOL_41: u32 = 1 << 9;
const SSL: u32 = 1 << 11;
const SECURE_CONNECTION: u32 = 1 << 15;
const MULTI: u32 = 0b111 << 16;
const PLUGIN_AUTH: u32 = 1 << 19;
const CONNECT_ATTRS: u32 = 1 << 20;
const SESSION_TRACK: u32 = 1 << 23;
const DEPRECATE_EOF: u32 = 1 << 24;
const QUERY_ATTRIBUTES: u32 = 1 << 27;

/// How many commands a session sends at most, and how many answers are read after each.
const COMMANDS_MAX: u64 = 40;
const READS_MAX: usize = 20;

/// Runs a session until it is over, by whatever side.
pub fn run(port: u16, tls: &Arc<ClientConfig>, shared: &Shared, random: &mut StdRng) {
    shared.sessions.fetch_add(1, Ordering::Relaxed);
    // What comes of it is the server's to say: it may close the connection at any time.
    let _ended = session(port, tls, shared, random);
}

fn session(
    port: u16,
    tls: &Arc<ClientConfig>,
    shared: &Shared,
    random: &mut StdRng,
) -> io::Result<()> {
    let mut transport = Transport::connect(port)?;
    if happens(random, 2) {
        // It does not wait for the greeting.
        transport
            .send(&mutation::right(&commands::command(&mut Known::default(), random), 0), random)?;
    }
    transport.receive()?;
    let mut known = Known::default();
    let capabilities = capabilities(random);
    known.has_attributes = capabilities & QUERY_ATTRIBUTES != 0;
    let mut sequence = 1;
    if happens(random, 40) {
        let mut hello = hello(capabilities | SSL);
        if happens(random, 5) {
            mutation::payload(&mut hello, random);
        }
        transport.send(&mutation::right(&hello, sequence), random)?;
        transport = transport.encrypt(tls, random)?;
        shared.encrypted.fetch_add(1, Ordering::Relaxed);
        sequence += 1;
    }
    let answer = login(capabilities, random);
    send(&mut transport, answer, sequence, 15, random)?;
    let reply = transport.receive()?;
    if reply.get(4) == Some(&0xfe) {
        // Another plugin is asked for; the password is empty in both.
        send(&mut transport, Vec::new(), reply[3].wrapping_add(1), 15, random)?;
        transport.receive()?;
    }
    if reply.get(4) == Some(&0) {
        shared.logged_in.fetch_add(1, Ordering::Relaxed);
    }
    for _ in 0..random.random_range(0..COMMANDS_MAX) {
        shared.commands.fetch_add(1, Ordering::Relaxed);
        let command = commands::command(&mut known, random);
        send(&mut transport, command, 0, 12, random)?;
        if happens(random, 10) {
            // The next one is sent before the answer is read.
            continue;
        }
        answer_of(&mut transport, random)?;
    }
    Ok(())
}

/// Sends a payload, wrong in something as often as `wrong` of a hundred times.
fn send(
    transport: &mut Transport,
    mut payload: Vec<u8>,
    sequence: u8,
    wrong: u32,
    random: &mut StdRng,
) -> io::Result<()> {
    if happens(random, wrong) {
        mutation::payload(&mut payload, random);
    }
    let bytes = match happens(random, wrong / 3) {
        true => mutation::framed(&payload, sequence, random),
        false => mutation::right(&payload, sequence),
    };
    transport.send(&bytes, random)
}

/// Reads an answer, more or less of it, and sends a file if one is asked for.
fn answer_of(transport: &mut Transport, random: &mut StdRng) -> io::Result<()> {
    for read in 0..READS_MAX {
        let bytes = transport.receive()?;
        if bytes.get(4) == Some(&0xfb) && read == 0 {
            let mut sequence = bytes[3].wrapping_add(1);
            for _ in 0..random.random_range(0..4) {
                let piece = b"1\t2\n3\tx\n".repeat(random.random_range(0..50));
                send(transport, piece, sequence, 10, random)?;
                sequence = sequence.wrapping_add(1);
            }
            send(transport, Vec::new(), sequence, 10, random)?;
            continue;
        }
        // What ends with a short read is mostly the end of the answer.
        if bytes.len() < 1 << 16 {
            return Ok(());
        }
        if happens(random, 5) {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
    Ok(())
}

fn capabilities(random: &mut StdRng) -> u32 {
    let needed = PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH | LONG_PASSWORD;
    let usual = CONNECT_WITH_DB | MULTI | CONNECT_ATTRS | LOCAL_FILES;
    let some = SESSION_TRACK | DEPRECATE_EOF | QUERY_ATTRIBUTES;
    let chosen = needed | usual | (some & random.random::<u32>());
    match random.random_range(0..20) {
        0 => random.random(),
        1 => chosen | COMPRESS,
        2 => chosen & !(1 << random.random_range(0..32)),
        _ => chosen,
    }
}

/// The part of the login that asks for encryption.
fn hello(capabilities: u32) -> Vec<u8> {
    let mut bytes = capabilities.to_le_bytes().to_vec();
    bytes.extend((1_u32 << 24).to_le_bytes());
    bytes.push(45);
    bytes.extend([0; 23]);
    bytes
}

fn login(capabilities: u32, random: &mut StdRng) -> Vec<u8> {
    let user = match random.random_range(0..12) {
        0 => "hostile_locked",
        1 => "nobody",
        _ => "hostile",
    };
    let mut bytes = hello(capabilities);
    bytes.extend(user.as_bytes());
    bytes.extend([0, 0]);
    if capabilities & CONNECT_WITH_DB != 0 {
        bytes.extend(b"hostile\0");
    }
    let plugin: &[u8] = match random.random_range(0..4) {
        0 => b"caching_sha2_password\0",
        1 => b"mysql_clear_password\0",
        _ => b"mysql_native_password\0",
    };
    bytes.extend(plugin);
    if capabilities & CONNECT_ATTRS != 0 {
        bytes.extend(b"\x0c\x05_name\x05value");
    }
    bytes
}
