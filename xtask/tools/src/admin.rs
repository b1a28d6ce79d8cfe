//! The admin server of a controller that runs next to us.

use anyhow::{Result, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Address of the admin server, from the controller's log.
pub(crate) fn address(log: &str) -> Option<String> {
    let mut lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.find_map(|line| line["address"].as_str().map(str::to_owned))
}

/// Body of the answer; an error unless the status is 200.
pub(crate) async fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    // In HTTP/1.0 the answer ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
        _ => bail!("http://{address}{path} answers {answer:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_that_of_the_admin_server() {
        let log = "not json\n{\"message\":\"serving\",\"address\":\"127.0.0.1:8080\"}\n";
        assert_eq!(address(log).as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(address(""), None);
    }
}
