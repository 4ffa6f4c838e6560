//! W8: what the machine itself achieves, which bounds every server on it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use freshet_base::clock::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use crate::device::{Aligned, FILE_BYTES, preallocated};

const TIME_PER_FIGURE: Duration = Duration::from_secs(1);
const COPY_BYTES: usize = 64 << 20;
const PAGE_BYTES: usize = 4 << 10;
/// The sizes of a request and an answer of a prepared INSERT of two ints.
const ECHO_BYTES: (usize, usize) = (48, 11);

/// The machine and commit of the results in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// The format of the line.
    pub format: u32,
    /// The commit that was measured, as given on the command line.
    pub commit: String,
    /// The model of the processor.
    pub processor: String,
    pub cores: usize,
    /// Total memory.
    pub memory_mib: u64,
    /// The kernel release, and its congestion control, which affects loopback.
    pub kernel: String,
}

impl Host {
    pub fn here(commit: String) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let line = |path: &str, name: &str| {
            let text = read(path);
            let found = text.lines().find_map(|line| line.strip_prefix(name));
            found.unwrap_or_default().trim_start_matches([':', ' ', '\t']).to_owned()
        };
        let kib = line("/proc/meminfo", "MemTotal");
        let release = read("/proc/sys/kernel/osrelease");
        let congestion = read("/proc/sys/net/ipv4/tcp_congestion_control");
        Self {
            format: crate::result::FORMAT,
            commit,
            processor: line("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: kib.trim_end_matches(" kB").parse().unwrap_or(0u64) / 1024,
            kernel: format!("Linux {}, TCP {}", release.trim(), congestion.trim()),
        }
    }
}

/// A measurement of the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// The format of the line.
    pub format: u32,
    /// The operation.
    pub machine: String,
    /// Operations per second.
    pub per_second: f64,
    /// The median duration in milliseconds.
    pub p50_ms: f64,
}

/// Runs all measurements; files are written to `folder`.
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
    // More than the C library caches, so that the pages come from the system each time.
    figures.push(repeat("first touch, 64 MiB of new memory".to_owned(), || {
        let mut memory = vec![0u8; COPY_BYTES];
        memory.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
        std::hint::black_box(&mut memory);
        Ok(())
    })?);
    figures.push(parse()?);
    Ok(figures)
}

/// Parses the numbers of a request of W3 and sums them.
fn parse() -> Result<Figure, String> {
    let row = |number: usize| format!("({},{}),", 1_000_000 + number, 9_000_000 - number);
    let text: String = (0..1000).map(row).collect();
    repeat("parse, 1000 rows of two ints".to_owned(), || {
        let (mut sum, mut number) = (0u64, 0u64);
        for byte in std::hint::black_box(&text).bytes() {
            match byte {
                b'0'..=b'9' => number = number * 10 + u64::from(byte - b'0'),
                _ => sum += std::mem::take(&mut number),
            }
        }
        std::hint::black_box(sum);
        Ok(())
    })
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

/// A round trip over loopback with blocking sockets.
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
