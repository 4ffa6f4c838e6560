//! What programs do with the drivers of Rust, against a server at a port of this machine:
//! `freshet-rust-clients sqlx|mysql_async|diesel PORT`. It panics at the first wrong answer.

mod with_diesel;
mod with_mysql_async;
mod with_sqlx;

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [client, port] = arguments.as_slice() else {
        return Err("arguments: sqlx|mysql_async|diesel PORT".into());
    };
    let port = port.parse()?;
    match client.as_str() {
        "sqlx" => with_sqlx::run(port).await,
        "mysql_async" => with_mysql_async::run(port).await,
        "diesel" => with_diesel::run(port),
        _ => Err(format!("no client {client}").into()),
    }
}
