//! W8: what the machine itself can do, which bounds every server on it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use freshet_base::clock::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use crate::device::{Aligned, FILE_BYTES, preallocated};

const TIME_PER_FIGURE: Duration = Duration::from_secs(1);
const COPY_BYTES: usize = 64 << 20;
/// A request and an answer of a prepared INSERT of two ints.
const ECHO_BYTES: (usize, usize) = (48, 11);

/// One figure of the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Format of the line.
    pub format: u32,
    /// What was done.
    pub machine: String,
    /// How often a second.
    pub per_second: f64,
    /// Median time of one, in milliseconds.
    pub p50_ms: f64,
}

/// Measures everything; files go to `folder`.
pub fn measure(folder: &Path) -> Result<Vec<Figure>, String> {
    let path = folder.join("freshet-bench-sync");
    let file = preallocated(&path)?;
    let mut figures = Vec::new();
    for (bytes, name) in [(4 << 10, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")] {
        let zeros = Aligned::zeros(bytes);
        let mut offset = 0;
        figures.push(repeat(format!("synced overwrite, {name}"), || {
            offset = (offset + bytes as u64) % (FILE_BYTES - bytes as u64 + 1);
            offset -= offset % Aligned::UNIT as u64;
            file.write_all_at(zeros.bytes(), offset).map_err(|error| error.to_string())
        })?);
    }
    drop(file);
    std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    figures.push(echo()?);
    let source = vec![7; COPY_BYTES];
    let mut copy = vec![0; COPY_BYTES];
    figures.push(repeat("copy, 64 MiB".to_owned(), || {
        copy.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&mut copy);
        Ok(())
    })?);
    Ok(figures)
}

fn repeat(machine: String, mut once: impl FnMut() -> Result<(), String>) -> Result<Figure, String> {
    let clock = SystemClock::new();
    let mut times = Vec::new();
    once()?;
    let start = clock.now();
    while clock.now() - start < TIME_PER_FIGURE {
        let before = clock.now();
        once()?;
        times.push(clock.now() - before);
    }
    let seconds = (clock.now() - start).as_secs_f64();
    times.sort_unstable();
    let p50_ms = times[times.len() / 2].as_secs_f64() * 1e3;
    let format = crate::result::FORMAT;
    Ok(Figure { format, machine, per_second: times.len() as f64 / seconds, p50_ms })
}

/// One connection over loopback, both sides blocking.
fn echo() -> Result<Figure, String> {
    let text = |error: std::io::Error| error.to_string();
    let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
    let address = listener.local_addr().map_err(text)?;
    let server = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut request = [0; ECHO_BYTES.0];
        while stream.read_exact(&mut request).is_ok() {
            stream.write_all(&request[..ECHO_BYTES.1])?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address).map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    let mut answer = [0; ECHO_BYTES.1];
    let figure = repeat("loopback echo, 48 and 11 bytes, one connection".to_owned(), || {
        stream
            .write_all(&[1; ECHO_BYTES.0])
            .and_then(|()| stream.read_exact(&mut answer))
            .map_err(text)
    });
    drop(stream);
    server.join().map_err(|_| "the echo server panicked")?.map_err(text)?;
    figure
}
